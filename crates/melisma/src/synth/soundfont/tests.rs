use super::*;
use crate::synth::{
    BusConfig, Buses, Control, Instrument, Length, Note, Parameter, Performance, Recording, Score, Setup,
};
use crate::{Budget, ErrorKind};

const RATE: u32 = 16_000;

/// A tone on channel 1, a click on the drums, and a program, a pan and a bend, at 120 beats per minute.
fn midi() -> Vec<u8> {
    let track: &[u8] = &[
        0, 0xc0, 40, 0, 0xb0, 10, 20, 0, 0x90, 69, 100, 48, 0x99, 38, 120, 48, 0xe0, 0, 80, 0, 0x80, 69, 0, 0, 0x89,
        38, 0, 0, 0xff, 0x2f, 0,
    ];
    [b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk", &(track.len() as u32).to_be_bytes()[..], track].concat()
}

fn font() -> SoundFont {
    SoundFont::read(&synthetic::bytes()).unwrap()
}

fn render(setup: Setup, font: &SoundFont) -> [Vec<f32>; 2] {
    let sequence = Sequence::from_midi(&midi()).unwrap();
    let mut performance = Performance::sampled(&sequence, font, setup).unwrap();
    let mut sides = [Vec::new(), Vec::new()];
    while let Some(block) = performance.next_block(None).unwrap() {
        sides[0].extend_from_slice(block.left);
        sides[1].extend_from_slice(block.right);
    }
    sides
}

#[test]
fn a_midi_file_sounds_until_it_is_silent() {
    let [left, right] = render(Setup::new(BusConfig::new(RATE)), &font());
    let loudest = |side: &[f32]| side.iter().fold(0f32, |most, sample| most.max(sample.abs()));
    assert!(loudest(&left) > 0.01 && left.iter().chain(&right).all(|sample| sample.is_finite()));
    // The tone is on the left.
    let energy = |side: &[f32]| side[..4_000].iter().map(|sample| sample * sample).sum::<f32>();
    assert!(energy(&left) > 2.0 * energy(&right));
    assert!(loudest(&left[left.len() - 1_000..]) < 1e-3);
    // The tone of key 60 has 500 Hz.
    let crossings = left[500..3_500].windows(2).filter(|pair| pair[0] <= 0.0 && pair[1] > 0.0).count();
    let hz = crossings as f64 / (3_000.0 / f64::from(RATE));
    assert!((hz - 500.0 * 2f64.powf(9.0 / 12.0)).abs() < 12.0, "{hz}");
    let setup = Setup::new(BusConfig::new(RATE)).with_length(Length::Samples(5_000));
    assert_eq!(render(setup, &font())[0].len(), 5_000);
}

/// Returns the energy of a sequence's player from 0.5 s on.
fn tail(sequence: &Sequence) -> f32 {
    let mut player = Player::new(sequence, &font(), RATE).unwrap();
    let (mut left, mut right) = (vec![0.0; 24_000], vec![0.0; 24_000]);
    player.render(&mut left, &mut right).unwrap();
    left[8_000..].iter().map(|sample| sample * sample).sum()
}

#[test]
fn channels_have_the_reverb_that_they_ask_for() {
    let with_send = |send: u8| {
        let track = [0, 0xb0, 91, send, 0, 0x90, 69, 100, 48, 0x80, 69, 0, 0, 0xff, 0x2f, 0];
        let file = [b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk", &(track.len() as u32).to_be_bytes()[..], &track].concat();
        tail(&Sequence::from_midi(&file).unwrap())
    };
    assert!(with_send(127) > 4.0 * with_send(0), "{} {}", with_send(127), with_send(0));
}

#[test]
fn a_piece_that_moves_our_reverb_has_no_other() {
    let control = Control { at: 0.0, parameter: Parameter::Reverb, value: 0.0 };
    let score = |controls: Vec<Control>| Score {
        notes: vec![Note::new(Instrument::Pluck, 0.0, 0.25, 69)],
        controls,
        ..Score::default()
    };
    let [ours, channels] = [vec![control], Vec::new()].map(|all| tail(&Sequence::from_score(&score(all)).unwrap()));
    assert!(channels > 1.5 * ours, "{channels} {ours}");
}

/// The reverb and the delay would amplify it.
#[test]
fn an_offset_of_the_samples_is_removed() {
    // Without the font's reverb and chorus, in which an offset takes a second to settle.
    let sends = [0, 0xb0, 91, 0, 0, 0xb0, 93, 0];
    let track = [&sends[..], &[0, 0x90, 69, 100, 0x81, 0x70, 0x80, 69, 0, 0, 0xff, 0x2f, 0]].concat();
    let file = [b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk", &(track.len() as u32).to_be_bytes()[..], &track].concat();
    let sequence = Sequence::from_midi(&file).unwrap();
    let play = |offset: f64| {
        let font = SoundFont::read(&synthetic::bytes_with(offset)).unwrap();
        let mut player = Player::new(&sequence, &font, RATE).unwrap();
        let (mut left, mut right) = (vec![0.0; 16_000], vec![0.0; 16_000]);
        player.render(&mut left, &mut right).unwrap();
        left.split_off(8_000)
    };
    let (plain, with_offset) = (play(0.0), play(9_000.0));
    let mean = with_offset.iter().sum::<f32>() / with_offset.len() as f32;
    let most = |side: &[f32]| side.iter().fold(0f32, |most, sample| most.max(sample.abs()));
    assert!(mean.abs() < 0.01 * most(&with_offset), "{mean} of {}", most(&with_offset));
    assert!(plain.iter().zip(&with_offset).all(|(a, b)| (a - b).abs() < 0.01 * most(&plain)));
}

#[test]
fn the_bits_do_not_depend_on_the_blocks() {
    let (font, sequence) = (font(), Sequence::from_midi(&midi()).unwrap());
    let play = |len: usize| {
        let mut player = Player::new(&sequence, &font, RATE).unwrap();
        let mut sides = [vec![0.0; 20_000], vec![0.0; 20_000]];
        let [left, right] = &mut sides;
        for (left, right) in left.chunks_mut(len).zip(right.chunks_mut(len)) {
            player.render(left, right).unwrap();
        }
        sides
    };
    let whole = play(20_000);
    for len in [1, 63, 64, 480, 1_600] {
        assert!(play(len) == whole, "blocks of {len}");
    }
}

#[test]
fn a_recording_sounds_as_what_is_played() {
    let (font, sequence) = (font(), Sequence::from_midi(&midi()).unwrap());
    for length in [Length::Whole, Length::Samples(7_777)] {
        let setup = Setup::new(BusConfig::new(RATE)).with_length(length);
        let recording = Recording::sampled(&sequence, &font, (setup, &Budget::unlimited())).unwrap();
        assert!(recording.most_voices() == 2);
        let mut performance = Performance::recorded(sequence.score(), setup, Arc::new(recording)).unwrap();
        let mut sides = [Vec::new(), Vec::new()];
        while let Some(block) = performance.next_block(None).unwrap() {
            sides[0].extend_from_slice(block.left);
            sides[1].extend_from_slice(block.right);
        }
        assert!(sides == render(setup, &font), "{length:?}");
    }
    let setup = Setup::new(BusConfig::new(RATE));
    let refused = Recording::sampled(&sequence, &font, (setup, &Budget::new(1_000, 1_000))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Memory);
}

#[test]
fn a_score_plays_as_its_midi_file() {
    let score = crate::synth::compose(&crate::synth::STYLES[0], 1, 5.0).unwrap();
    let sequence = Sequence::from_score(&score).unwrap();
    assert_eq!(sequence.score().notes.len(), score.notes.len());
    let setup = Setup::new(BusConfig::new(RATE)).with_length(Length::Samples(80_000));
    let mut performance = Performance::sampled(&sequence, &font(), setup).unwrap();
    assert_eq!(performance.expected_samples(), 80_000);
    let mut most = 0f32;
    while let Some(block) = performance.next_block(None).unwrap() {
        most = block.left.iter().fold(most, |most, sample| most.max(sample.abs()));
    }
    assert!(most > 0.01 && performance.most_voices() > 2);
}

#[test]
fn a_key_without_an_end_ends_with_the_file() {
    let track: &[u8] = &[0, 0xb0, 64, 127, 0, 0x90, 60, 100, 0, 0xff, 0x2f, 0];
    let file = [b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk", &(track.len() as u32).to_be_bytes()[..], track].concat();
    let sequence = Sequence::from_midi(&file).unwrap();
    let mut performance = Performance::sampled(&sequence, &font(), Setup::new(BusConfig::new(RATE))).unwrap();
    let mut n = 0;
    while let Some(block) = performance.next_block(None).unwrap() {
        n += block.left.len();
    }
    assert!(n < 20 * RATE as usize, "{n} samples");
}

#[test]
fn what_cannot_be_played_is_named() {
    let (font, sequence) = (font(), Sequence::from_midi(&midi()).unwrap());
    let refused = |rate, buses| {
        let setup = Setup::new(BusConfig::new(rate)).with_buses(buses);
        Performance::sampled(&sequence, &font, setup).unwrap_err()
    };
    assert!(refused(8_000, Buses::Mix).to_string().contains("16000 to 192000 Hz, not at 8000"));
    assert_eq!(refused(RATE, Buses::Stems).kind(), ErrorKind::Unsupported);
    for bytes in [&b""[..], b"RIFF", b"MThd\0\0\0\x06", b"RIFF\x04\0\0\0WAVE"] {
        let error = SoundFont::read(bytes).unwrap_err();
        assert!(error.to_string().contains("not a SoundFont") && error.hint().is_some(), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sf2");
    std::fs::write(&path, b"RIFF").unwrap();
    assert!(SoundFont::open(&path).unwrap_err().to_string().starts_with(&path.display().to_string()));
}

#[test]
fn damaged_files_are_errors() {
    let bytes = synthetic::bytes();
    for len in (0..bytes.len()).filter(|len| len % 7 == 0 || bytes.len() - len < 500) {
        assert!(SoundFont::read(&bytes[..len]).is_err(), "cut to {len}");
    }
    let sequence = Sequence::from_midi(&midi()).unwrap();
    // The samples are between: their values are never wrong.
    let tables = bytes.windows(4).position(|name| name == b"pdta").unwrap();
    for at in (0..60).chain(tables - 8..bytes.len()) {
        for flipped in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flipped;
            let Ok(font) = SoundFont::read(&damaged) else { continue };
            // What is read is played, or refused.
            let Ok(mut player) = Player::new(&sequence, &font, RATE) else { continue };
            let (mut left, mut right) = (vec![0.0; 4_000], vec![0.0; 4_000]);
            let _ = player.render(&mut left, &mut right);
            assert!(left.iter().chain(&right).all(|sample| sample.is_finite()));
        }
    }
}

#[test]
fn a_table_that_goes_back_is_refused() {
    let bytes = synthetic::bytes();
    let at = bytes.windows(4).position(|name| name == b"ibag").unwrap() + 8;
    for (zone, index) in [(0, 9u16), (1, 60_000), (2, 2)] {
        let mut damaged = bytes.clone();
        damaged[at + 4 * zone..at + 4 * zone + 2].copy_from_slice(&index.to_le_bytes());
        let error = SoundFont::read(&damaged).unwrap_err().to_string();
        assert!(error.contains("`ibag`") && error.contains("`igen`"), "{error}");
    }
}
