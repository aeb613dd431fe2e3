use crate::synth::instrument::Instrument;
use crate::synth::score::{Bend, Control, Note, Score};
use crate::synth::{Action, Parameter};
use crate::{Error, ErrorKind};
use proptest::prelude::*;

/// Returns a file of format 0 with one track of these bytes.
fn file(division: u16, track: &[u8]) -> Vec<u8> {
    let mut bytes = b"MThd\0\0\0\x06\0\0\0\x01".to_vec();
    bytes.extend(division.to_be_bytes());
    bytes.extend(b"MTrk");
    bytes.extend((track.len() as u32).to_be_bytes());
    bytes.extend(track);
    bytes
}

fn read(division: u16, track: &[u8]) -> Score {
    Score::from_midi(&file(division, track)).unwrap()
}

fn refused(bytes: &[u8]) -> Error {
    let error = Score::from_midi(bytes).unwrap_err();
    assert!(error.hint().is_some() || error.to_string().contains("messages"), "{error}");
    error
}

#[test]
fn running_status_and_velocity_zero() {
    let score = read(96, &[0, 0x90, 60, 64, 96, 60, 0, 0, 62, 127, 96, 62, 0]);
    let found: Vec<_> = score.notes.iter().map(|note| (note.key, note.start, note.duration)).collect();
    assert_eq!(found, [(60, 0.0, 0.5), (62, 0.5, 0.5)]);
    assert_eq!(score.notes[1].velocity, 1.0);
    // A meta event in between does not end it.
    let score = read(96, &[0, 0x90, 60, 64, 48, 0xff, 1, 0, 48, 60, 0]);
    assert_eq!(score.notes[0].duration, 0.5);
}

#[test]
fn tempo_changes_are_exact_after_hours() {
    // A beat of 0.3 s for 40,000 beats, then 1 s; a strike one beat later.
    let ticks = 40_000u32 * 96;
    let mut track = vec![0, 0xff, 0x51, 3, 4, 0x93, 0xe0];
    track.extend([21, 14, 7].map(|shift| 0x80 | (ticks >> shift) as u8));
    track.push(ticks as u8 & 0x7f);
    track.extend([0xff, 0x51, 3, 0x0f, 0x42, 0x40, 96, 0x90, 60, 64, 1, 0x80, 60, 0]);
    let score = read(96, &track);
    assert_eq!(score.notes[0].start, 40_000.0 * 0.3 + 1.0);
    assert_eq!(score.events(48_000)[0].at, (40_000 * 3 / 10 + 1) * 48_000);
    assert_eq!(score.tempo, 200.0);
}

#[test]
fn time_by_frames() {
    // 25 frames of 40 ticks: a tick is a millisecond. 29 stands for 30000/1001 frames.
    let score = read(u16::from_be_bytes([0xe7, 40]), &[0x83, 0x74, 0x90, 60, 64, 100, 60, 0]);
    assert_eq!((score.notes[0].start, score.notes[0].duration), (0.5, 0.6 - 0.5));
    let score = read(u16::from_be_bytes([0xe3, 1]), &[30, 0x90, 60, 64, 1, 60, 0]);
    assert_eq!(score.notes[0].start, 1.001);
}

#[test]
fn the_pedal_holds_notes() {
    let pedal_up = [0, 0xb0, 64, 127, 0, 0x90, 60, 64, 96, 0x80, 60, 0, 96, 0xb0, 64, 0];
    assert_eq!(read(96, &pedal_up).notes[0].duration, 1.0);
    let struck_again = [0, 0xb0, 64, 127, 0, 0x90, 60, 64, 24, 60, 0, 24, 60, 64, 48, 60, 0, 96, 0xb0, 64, 0];
    let durations: Vec<f64> = read(96, &struck_again).notes.iter().map(|note| note.duration).collect();
    assert_eq!(durations, [0.25, 0.75]);
    let all_off = [0, 0xb0, 64, 127, 0, 0x90, 60, 64, 96, 0xb0, 123, 0, 127, 0xff, 0x2f, 0];
    assert_eq!(read(96, &all_off).notes[0].duration, 0.5);
    // What nobody ends lasts as long as the file.
    assert_eq!(read(96, &[0, 0x90, 60, 64, 96, 0xff, 0x2f, 0]).notes[0].duration, 0.5);
}

/// As many steps as messages, not a look at all notes that wait for each.
#[test]
fn many_strikes_under_the_pedal() {
    crate::growth::check_linear(25_000, |n| {
        // One key goes down again and again, then up as often; all keys in turn; then the pedal.
        let mut track = vec![0, 0xb0, 64, 127, 0, 0x90, 60, 64];
        track.extend([0, 60, 64].repeat(n - 1));
        track.extend([1, 60, 0].repeat(n));
        (0..n).for_each(|i| track.extend([0, (i % 128) as u8, 64, 0, (i % 128) as u8, 0]));
        track.extend([0, 0xb0, 64, 127]);
        track.extend([0, 64, 0, 0, 64, 127].repeat(n));
        let score = read(96, &track);
        assert_eq!(score.notes.len(), 2 * n);
        // All of the first key wait for its next strike, those of the others for theirs.
        let end = 0.5 / 96.0 * n as f64;
        assert!(score.notes[..n].iter().all(|note| note.start == 0.0 && (note.duration - end).abs() < 1e-6));
        assert!(score.notes[n..].iter().all(|note| note.duration == 0.0));
    });
}

#[test]
fn bends_follow_their_range() {
    let track = [
        0, 0xe1, 0, 96, 1, 0xb1, 101, 0, 0, 100, 0, 0, 6, 12, 0, 38, 50, 1, 0xe1, 0, 64, 1, 0xe1, 0, 0, 1, 0xb1, 6,
        127, 0, 121, 0,
    ];
    let found: Vec<(u8, f32)> = read(96, &track).bends.iter().map(|bend| (bend.channel, bend.semitones)).collect();
    assert_eq!(found, [(1, 1.0), (1, 6.0), (1, 6.25), (1, 0.0), (1, -12.5), (1, -24.0), (1, 0.0)]);
    // After a reset of all controllers, data entry sets nothing.
    let reset = [0, 0xb0, 101, 0, 0, 100, 0, 0, 121, 0, 0, 6, 12, 0, 0xe0, 0, 96];
    assert_eq!(read(96, &reset).bends[0].semitones, 1.0);
}

#[test]
fn volume_pan_and_drums() {
    let track = [
        0, 0xb9, 7, 50, 0, 0x99, 36, 127, 0, 42, 127, 0, 0xc2, 38, 0, 0xb2, 10, 127, 0, 0x92, 30, 127, 9, 0xff, 0x2f, 0,
    ];
    let notes = read(96, &track).notes;
    // Simultaneous notes come in the order of the instruments.
    let instruments = [Instrument::Bass, Instrument::Kick, Instrument::Hat];
    assert_eq!(notes.iter().map(|note| note.instrument).collect::<Vec<_>>(), instruments);
    assert_eq!((notes[0].velocity, notes[0].pan, notes[1].velocity), (1.0, 1.0, 0.5));
}

#[test]
fn absurd_files_are_refused_with_their_place() {
    let mut many = file(96, &[0, 0xff, 0x2f, 0]);
    many[10..12].copy_from_slice(&[0xff, 0xff]);
    let error = refused(&many);
    assert!(error.to_string().contains("65535 tracks, the file ends after 1"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Truncated);

    let error = refused(&file(96, &[0, 0xff, 0x51, 3, 0, 0, 0]));
    assert!(error.to_string().contains("track 1 at byte 22: byte 26: the tempo is 0"), "{error}");
    // 10^9 ticks, by four of the largest deltas.
    let delta = [0xff, 0xff, 0xff, 0x7f, 0xff, 1, 0];
    let mut track = delta.repeat(4);
    track.extend([0, 0x90, 60, 64]);
    let error = refused(&file(96, &track));
    assert!(error.to_string().contains("tick 1073741820 lies at 5592405 s; at most 86400 s"), "{error}");
    let error = refused(&file(96, &[0, 0xf0, 0xff, 0xff, 0xff, 0x7f]));
    assert!(error.to_string().contains("268435455 bytes are announced, 0 are left"), "{error}");
    let error = refused(&file(96, &[0x81, 0x82, 0x83, 0x84, 0x05, 0x90, 60, 64]));
    assert!(error.to_string().contains("more than four bytes"), "{error}");
    assert!(refused(&file(0, &[])).to_string().contains("a beat has 0 ticks"));
    assert!(refused(&file(0x8001, &[])).to_string().contains("frames a second"));
    assert!(refused(&file(96, &[0, 60, 64])).to_string().contains("before any status"));
    assert!(refused(&file(96, &[0, 0x90, 60, 0x90])).to_string().contains("below 0x80"));
    assert!(refused(b"not MIDI, but long enough").to_string().contains("not a MIDI file"));
    assert!(refused(b"RIFF").to_string().contains("not a MIDI file"));
    assert!(refused(b"RIFFxxxxRMIDdata").to_string().contains("announced"));
    let mut second = file(96, &[]);
    second[9] = 2;
    assert!(refused(&second).to_string().contains("MIDI format 2"));
}

#[test]
fn every_truncation_is_an_error_or_a_score() {
    let bytes = sample().to_midi().unwrap();
    for len in 0..bytes.len() {
        assert!(Score::from_midi(&bytes[..len]).is_err(), "{len}");
    }
    assert!(Score::from_midi(&bytes).is_ok());
}

#[test]
fn riff_may_have_chunks_before_the_file() {
    let inner = file(96, &[0, 0x90, 60, 64, 96, 60, 0]);
    let chunk = |name: &[u8; 4], body: &[u8]| {
        let mut bytes = [name, &(body.len() as u32).to_le_bytes()[..], body].concat();
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        bytes
    };
    for before in [vec![], chunk(b"DISP", b"odd"), [chunk(b"LIST", b"INFOINAM"), chunk(b"JUNK", &[0; 31])].concat()] {
        let body = [b"RMID".to_vec(), before, chunk(b"data", &inner), chunk(b"DLS ", b"more")].concat();
        let riff = chunk(b"RIFF", &body);
        assert_eq!(Score::from_midi(&riff).unwrap(), Score::from_midi(&inner).unwrap());
    }
    // A length beyond the file, and no `data` at all.
    let beyond = [&b"RIFF\0\0\0\0RMIDLIST"[..], &u32::MAX.to_le_bytes()].concat();
    assert!(refused(&beyond).to_string().contains("announced"));
    assert!(refused(&chunk(b"RIFF", &[b"RMID".to_vec(), chunk(b"LIST", b"")].concat())).to_string().contains("left"));
}

/// Ticks of a beat, and the last tick of any track.
fn resolution(bytes: &[u8]) -> (u16, u64) {
    let parsed = super::parse::parse(bytes).unwrap();
    (u16::from_be_bytes([bytes[12], bytes[13]]), parsed.messages.iter().map(|timed| timed.tick).max().unwrap())
}

#[test]
fn long_pieces_stay_below_ten_million_ticks() {
    let style = |name| crate::synth::Style::named(name).unwrap();
    for (name, seconds) in [("focus", 60.0), ("bright", 1800.0), ("sleep", 14_400.0), ("focus", 86_400.0)] {
        let mut score = crate::synth::compose(&style(name), 3, seconds).unwrap();
        // What is cut at the end need not lie on a tick.
        score.notes.retain(|note| note.start + note.duration < seconds - 0.01);
        let bytes = score.to_midi().unwrap();
        let (division, last) = resolution(&bytes);
        assert!(last < 10_000_000, "{name} {seconds} s: {last} ticks, {division} a beat");
        assert!(seconds > 60.0 || division == 9600, "{division}");
        let back = Score::from_midi(&bytes).unwrap();
        let times = |score: &Score| {
            let bits = |note: &Note| (note.start.to_bits(), note.duration.to_bits(), note.key, note.channel);
            let mut times: Vec<_> = score.notes.iter().map(bits).collect();
            times.sort_unstable();
            times
        };
        assert!(times(&score) == times(&back), "{name} {seconds} s: {division} ticks a beat");
        assert_eq!(back.to_midi().unwrap(), bytes);
    }
}

#[test]
fn times_off_the_grid_are_rounded_to_the_finest_that_fits() {
    let mut score = sample();
    score.notes[1].start = 1.0 / 7.0;
    score.notes[4].start = 3000.0;
    let (division, last) = resolution(&score.to_midi().unwrap());
    // 6000 beats and a half.
    assert_eq!((division, last), (1600, 1600 * 6001 + 800));
    score.tempo = 1000.0;
    score.notes[4].start = 86_000.0;
    assert_eq!(resolution(&score.to_midi().unwrap()).0, 6);
}

fn sample() -> Score {
    let note = |instrument, start: u32, key, pan: f32, channel| Note {
        instrument,
        start: f64::from(start) / 2.0,
        duration: 0.75,
        key,
        velocity: 64.0 / 127.0,
        pan,
        channel,
    };
    Score {
        tempo: 120.0,
        notes: vec![
            note(Instrument::Pad, 0, 57, 0.0, 0),
            note(Instrument::Pad, 0, 64, 1.0, 0),
            note(Instrument::Kick, 0, 36, 0.0, 9),
            note(Instrument::Lead, 1, 76, -21.0 / 63.0, 1),
            note(Instrument::Hat, 2, 42, 0.0, 9),
        ],
        bends: vec![Bend { at: 0.5, channel: 1, semitones: 1.5 }, Bend { at: 1.0, channel: 1, semitones: 0.0 }],
        controls: vec![Control { at: 0.0, parameter: Parameter::Reverb, value: 0.3 }],
    }
}

#[test]
fn scores_come_back_as_they_were() {
    let score = sample();
    let back = Score::from_midi(&score.to_midi().unwrap()).unwrap();
    let sorted = |mut score: Score| {
        score.notes.sort_by(|a, b| {
            (a.start, a.instrument.name(), a.key).partial_cmp(&(b.start, b.instrument.name(), b.key)).unwrap()
        });
        score
    };
    assert_eq!(sorted(back.clone()), sorted(score));
    assert_eq!(back.to_midi().unwrap(), Score::from_midi(&back.to_midi().unwrap()).unwrap().to_midi().unwrap());
}

#[test]
fn instruments_that_share_a_channel_get_their_own() {
    let mut score = sample();
    score.notes.iter_mut().for_each(|note| note.channel = 0);
    let back = Score::from_midi(&score.to_midi().unwrap()).unwrap();
    let mut found: Vec<_> = back.notes.iter().map(|note| (note.instrument, note.channel)).collect();
    found.dedup();
    assert!(
        found.contains(&(Instrument::Pad, 0))
            && found.contains(&(Instrument::Lead, 1))
            && found.contains(&(Instrument::Kick, 9))
    );
}

#[test]
fn long_silences_are_written() {
    let mut score = sample();
    score.tempo = 1000.0;
    score.notes[4].start = 80_000.0;
    let back = Score::from_midi(&score.to_midi().unwrap()).unwrap();
    assert_eq!(back.notes.last().unwrap().start, 80_000.0);
}

fn any_note() -> impl Strategy<Value = Note> {
    (0..7usize, 0..400u32, 1..100u32, 0..128u8, 1..128u8, 1..128u8, 0..2u8).prop_map(
        |(instrument, start, duration, key, velocity, pan, channel)| Note {
            instrument: Instrument::ALL[instrument],
            start: f64::from(start) / 16.0,
            duration: f64::from(duration) / 16.0,
            key,
            velocity: f32::from(velocity) / 127.0,
            pan: (f32::from(pan) - 64.0) / 63.0,
            channel,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Score::from_midi(&bytes);
        let mut framed = file(96, &bytes);
        let _ = Score::from_midi(&framed);
        framed[12..14].copy_from_slice(&[0xe7, 40]);
        let _ = Score::from_midi(&framed);
    }

    #[test]
    fn damaged_files_never_panic(at in 0..300usize, bit in 0..8u8) {
        let mut bytes = sample().to_midi().unwrap();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(score) = Score::from_midi(&bytes) {
            prop_assert!(score.check().is_ok(), "{:?}", score.check());
        }
    }

    #[test]
    fn any_score_keeps_its_starts_and_ends(mut notes in proptest::collection::vec(any_note(), 0..40)) {
        notes.sort_by(|a, b| a.start.total_cmp(&b.start));
        let score = Score { notes, ..Score::default() };
        let back = Score::from_midi(&score.to_midi().unwrap()).unwrap();
        let times = |score: &Score| {
            let mut times: Vec<(u64, bool)> = score
                .events(48_000)
                .iter()
                .map(|event| (event.at, matches!(event.action, Action::Start { .. })))
                .collect();
            times.sort();
            times
        };
        prop_assert_eq!(times(&score), times(&back));
    }
}

#[test]
fn a_note_without_length_ends_after_it_began() {
    let notes = vec![Note::new(Instrument::Pad, 1.0, 0.0, 60), Note::new(Instrument::Pad, 1.5, 0.5, 60)];
    let back = Score::from_midi(&Score { tempo: 120.0, notes, ..Score::default() }.to_midi().unwrap()).unwrap();
    let found: Vec<_> = back.notes.iter().map(|note| (note.start, note.duration)).collect();
    assert!(found.len() == 2 && found[0].0 == 1.0 && found[0].1 < 0.01 && found[1] == (1.5, 0.5), "{found:?}");
}
