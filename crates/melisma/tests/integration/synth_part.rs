//! Parts of a piece that are heard apart: which notes they have, what they are called, and that they add up to the mix.

use std::sync::Arc;

use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::synth::{
    BusConfig, Buses, Instrument, Length, Parts, Performance, Score, Sequence, Setup, SoundFont, Style, compose,
    record, synthetic_soundfont,
};

const RATE: u32 = 24_000;

fn setup(length: Length) -> Setup {
    Setup::new(BusConfig::new(RATE)).with_length(length).with_max_voices(256)
}

fn piece(seconds: f64) -> Score {
    compose(&Style::named("bright").unwrap(), 3, seconds).unwrap()
}

/// A file of format 1 whose tracks have these names and one note each at a tick, or none where the key is 0.
fn file(tracks: &[(&[u8], u8, u8)]) -> Vec<u8> {
    let mut bytes = [&b"MThd\0\0\0\x06\0\x01"[..], &(tracks.len() as u16).to_be_bytes(), b"\0\x60"].concat();
    for (name, key, tick) in tracks {
        let mut body = [&[0, 0xff, 3, name.len() as u8][..], name].concat();
        if *key > 0 {
            body.extend([*tick, 0x90, *key, 100, 48, 0x80, *key, 0]);
        }
        body.extend([0, 0xff, 0x2f, 0]);
        bytes.extend([&b"MTrk"[..], &(body.len() as u32).to_be_bytes(), &body].concat());
    }
    bytes
}

#[test]
fn names_of_tracks_are_safe_and_differ() {
    let parts = Parts::by_track(&file(&[
        (b"tempo", 0, 0),
        (b"../../etc/passwd", 60, 0),
        (b"Piano", 61, 0),
        (b"piano", 62, 0),
        (b" ", 63, 0),
        ("Fl\u{f6}te \u{7b1b}".as_bytes(), 64, 0),
        (b"caf\xe9.wav", 65, 0),
        (&[b'x'; 100], 66, 0),
    ]));
    let long = format!("08-{}", "x".repeat(40));
    let names =
        ["02-etc-passwd", "03-Piano", "04-piano", "05-track", "06-Fl\u{f6}te-\u{7b1b}", "07-caf\u{e9}-wav", &long];
    assert_eq!(parts.unwrap().names(), names);
    let many: Vec<(&[u8], u8, u8)> = vec![(b"", 60, 0); 257];
    let refused = Parts::by_track(&file(&many)).unwrap_err();
    assert!(refused.to_string().starts_with("257 tracks have notes; at most 256"), "{refused}");
    assert_eq!(Parts::by_track(&file(&many[1..])).unwrap().names()[255], "256-track");
}

#[test]
fn a_track_has_its_own_notes() {
    // The first track has no note, and the notes of the last come before those of the second.
    let midi = file(&[(b"a", 0, 0), (b"b", 70, 96), (b"c", 50, 0)]);
    let (score, sequence) = (Score::from_midi(&midi).unwrap(), Sequence::from_midi(&midi).unwrap());
    let parts = Parts::by_track(&midi).unwrap();
    assert_eq!((parts.n_notes(), parts.names()), (2, &["02-b".to_owned(), "03-c".to_owned()][..]));
    let font = SoundFont::read(&synthetic_soundfont::bytes()).unwrap();
    let setup = setup(Length::Whole);
    for performance in [Performance::new(&score, setup), Performance::sampled(&sequence, &font, setup)] {
        let mut performance = performance.unwrap().with_parts(&parts).unwrap();
        let block = performance.next_block(None).unwrap().unwrap();
        let loudest = |index: usize| block.part(index)[0].iter().fold(0f32, |most, sample| most.max(sample.abs()));
        assert!(loudest(0) == 0.0 && loudest(1) > 1e-3, "{} {}", loudest(0), loudest(1));
    }
}

#[test]
fn a_file_of_one_track_has_channels() {
    let body: &[u8] = &[0, 0x90, 60, 100, 0, 0x99, 36, 100, 9, 0x80, 60, 0, 0, 0x89, 36, 0, 0, 0xff, 0x2f, 0];
    let midi = [b"MThd\0\0\0\x06\0\0\0\x01\0\x60MTrk", &(body.len() as u32).to_be_bytes()[..], body].concat();
    assert_eq!(Parts::by_track(&midi).unwrap().names(), ["01-channel", "10-channel"]);
    let instruments = Parts::by_instrument(&Score::from_midi(&midi).unwrap());
    assert_eq!((instruments.names().len(), instruments.names()[1].as_str()), (2, "kick"));
}

/// The left side of the mix and of each part, whose sum is the mix.
fn apart(mut performance: Performance, parts: &Parts) -> Vec<Vec<f32>> {
    let mut sides: Vec<Vec<f32>> = vec![Vec::new(); 1 + parts.names().len()];
    while let Some(block) = performance.next_block(None).unwrap() {
        let lefts = (0..parts.names().len()).map(|index| block.part(index)[0]);
        sides.iter_mut().zip(std::iter::once(block.left).chain(lefts)).for_each(|(side, now)| side.extend(now));
    }
    for (i, &mix) in sides[0].iter().enumerate() {
        let sum: f32 = sides[1..].iter().map(|side| side[i]).sum();
        assert!((sum - mix).abs() < 1e-6, "sample {i}: {sum} is not {mix}");
    }
    assert!(sides.iter().all(|side| side.iter().any(|sample| sample.abs() > 1e-5)), "a part is silent");
    sides
}

#[test]
fn parts_add_up_to_what_enters_the_limiter() {
    let midi = piece(4.0).to_midi().unwrap();
    let (score, sequence) = (Score::from_midi(&midi).unwrap(), Sequence::from_midi(&midi).unwrap());
    let font = SoundFont::read(&synthetic_soundfont::bytes()).unwrap();
    let (device, budget) = (Device::cpu().unwrap(), Budget::unlimited());
    // Quiet enough for the limiter to do nothing but wait.
    let mut quiet = setup(Length::Samples(4 * 24_000));
    quiet.bus.level = 0.1;
    let (tracks, instruments) = (Parts::by_track(&midi).unwrap(), Parts::by_instrument(&score));
    assert!(tracks.names().len() > 2 && tracks.names()[0].starts_with("02-"), "{tracks:?}");
    let mut by_instrument = Vec::new();
    for parts in [&tracks, &instruments] {
        let played = apart(Performance::new(&score, quiet).unwrap().with_parts(parts).unwrap(), parts);
        assert!(played[0] == alone(&score, quiet), "parts change the mix");
        let take = quiet.take(&score).with_parts(parts);
        let recording = Arc::new(record(&device, &budget, RATE, &[take]).unwrap().pop().unwrap());
        let recorded = Performance::recorded(&score, quiet, recording.clone()).unwrap();
        for (side, other) in apart(recorded.with_parts(parts).unwrap(), parts).iter().zip(&played) {
            assert!(side.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-6), "a recording sounds otherwise");
        }
        // The recording is not one of instruments in the order of their numbers.
        assert!(Performance::recorded(&score, quiet.with_buses(Buses::Stems), recording).is_err());
        let mut quieter = quiet;
        quieter.bus.level = 0.02;
        apart(Performance::sampled(&sequence, &font, quieter).unwrap().with_parts(parts).unwrap(), parts);
        by_instrument = played;
    }
    let mut performance = Performance::new(&score, quiet.with_buses(Buses::Stems)).unwrap();
    let mut at = 0;
    while let Some(block) = performance.next_block(None).unwrap() {
        for (name, part) in instruments.names().iter().zip(&by_instrument[1..]) {
            let instrument = Instrument::ALL.into_iter().find(|instrument| instrument.name() == name).unwrap();
            assert!(block.stem(instrument)[0] == &part[at..at + block.left.len()], "{name}");
        }
        at += block.left.len();
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let (score, other) = (piece(2.0), piece(4.0));
    let (parts, setup) = (Parts::by_instrument(&score), setup(Length::Samples(24_000)));
    let wrong = Performance::new(&other, setup).unwrap().with_parts(&parts).unwrap_err();
    assert!(wrong.to_string().contains("do not fit a piece of") && wrong.hint().is_some(), "{wrong}");
    let (device, budget) = (Device::cpu().unwrap(), Budget::unlimited());
    assert!(record(&device, &budget, RATE, &[setup.take(&other).with_parts(&parts)]).is_err());
    let recording = Arc::new(record(&device, &budget, RATE, &[setup.take(&score)]).unwrap().pop().unwrap());
    let refused = Performance::recorded(&score, setup, recording).unwrap().with_parts(&parts).unwrap_err();
    assert!(refused.to_string().contains("recorded without these parts"), "{refused}");
    let mut begun = Performance::new(&score, setup).unwrap();
    begun.next_block(None).unwrap();
    assert!(begun.with_parts(&parts).is_err());
}

/// The left side of a piece without parts.
fn alone(score: &Score, setup: Setup) -> Vec<f32> {
    let (mut performance, mut side) = (Performance::new(score, setup).unwrap(), Vec::new());
    while let Some(block) = performance.next_block(None).unwrap() {
        side.extend_from_slice(block.left);
    }
    side
}
