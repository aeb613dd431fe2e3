use super::*;
use crate::ErrorKind;
use crate::synth::{Action, Event};
use proptest::prelude::*;

fn note(start: f64, duration: f64) -> Note {
    Note { instrument: Instrument::Pad, start, duration, key: 60, velocity: 0.5, pan: 0.0, channel: 0 }
}

fn score(notes: Vec<Note>) -> Score {
    Score { notes, ..Score::default() }
}

fn refused(text: &str) -> crate::Error {
    Score::from_json(text.as_bytes()).unwrap_err()
}

#[test]
fn json_comes_back_as_it_was() {
    let mut music = score(vec![note(0.0, 1.5), note(0.1, 0.7)]);
    music.notes[1].pan = -0.25;
    music.bends.push(Bend { at: 0.3, channel: 2, semitones: -1.5 });
    music.controls.push(Control { at: 0.0, parameter: Parameter::Brightness, value: 2.5 });
    assert_eq!(Score::from_json(music.to_json().as_bytes()).unwrap(), music);
    let empty = score(Vec::new());
    assert_eq!(Score::from_json(empty.to_json().as_bytes()).unwrap(), empty);
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_limit() {
    let with = |note: &str| {
        format!("{{\"tempo\": 120, \"notes\": [\n{{\"instrument\": \"pad\", \"velocity\": 0.5, {note}}}]}}")
    };
    let cases = [
        (with("\"start\": -1, \"duration\": 1, \"key\": 60"), "notes[0]: start is -1; 0 to 86400 seconds"),
        (with("\"start\": 0, \"duration\": 259200, \"key\": 60"), "notes[0]: duration is 259200; 0 to 86400 seconds"),
        (with("\"start\": 86000, \"duration\": 1000, \"key\": 60"), "notes[0]: start + duration is 87000"),
        (with("\"start\": 0, \"duration\": 1, \"key\": 128"), "key is 128; whole numbers from 0 to 127 at line 2"),
        (with("\"start\": 0, \"duration\": 1, \"key\": -1"), "key is -1; whole"),
        (with("\"start\": 0, \"duration\": 1, \"key\": 60.5"), "key is 60.5; whole"),
        (with("\"start\": 0, \"duration\": 1, \"key\": 60, \"channel\": 16"), "channel is 16; whole"),
        (with("\"start\": 0, \"duration\": 1, \"key\": 60, \"pan\": 2"), "notes[0]: pan is 2; -1 to 1"),
        (with("\"start\": 0, \"duration\": 1"), "missing field `key` at line 2"),
        (with("\"start\": 0, \"duration\": 1, \"key\": 60, \"colour\": 1"), "unknown field `colour`"),
        (with("\"start\": NaN, \"duration\": 1, \"key\": 60"), "line 2 column"),
        (with("\"start\": 1e999, \"duration\": 1, \"key\": 60"), "number out of range at line 2"),
        ("{\"tempo\": 0, \"notes\": []}".to_owned(), "tempo is 0; 1 to 1000 beats a minute"),
        (
            "{\"tempo\": 60, \"notes\": [], \"bends\": [{\"at\": 0, \"channel\": 0, \"semitones\": 25}]}".to_owned(),
            "bends[0]: semitones is 25; -24 to 24",
        ),
        (
            "{\"tempo\": 60, \"notes\": [], \"controls\": [{\"at\": 0, \"parameter\": \"gain\", \"value\": 2}]}"
                .to_owned(),
            "controls[0]: gain is 2; 0 to 1",
        ),
        ("{\"tempo\": 60, \"notes\": [".to_owned(), "EOF"),
    ];
    for (text, expected) in cases {
        let error = refused(&text);
        assert!(error.to_string().contains(expected), "{text}\n{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    assert_eq!(refused("{\"tempo\": 60, \"notes\": [").kind(), ErrorKind::Truncated);
}

#[test]
fn values_made_by_programs_are_checked_too() {
    for wrong in [f64::NAN, f64::INFINITY, -0.5] {
        assert!(score(vec![note(wrong, 1.0)]).check().is_err());
        assert!(score(vec![note(0.0, wrong)]).check().is_err());
        assert!(Score { tempo: wrong, ..Score::default() }.check().is_err());
    }
    let mut loud = note(0.0, 1.0);
    loud.velocity = f32::NAN;
    assert!(score(vec![loud]).check().unwrap_err().to_string().contains("velocity is NaN"));
    assert!(score(vec![note(0.0, 1.0); MAX_NOTES + 1]).check().unwrap_err().to_string().contains("at most 1000000"));
}

#[test]
fn nesting_and_size_do_not_hurt() {
    assert!(Score::from_json(&vec![b'['; 1 << 20]).is_err());
    assert!(Score::from_json(b"").is_err());
    let long = format!("{{\"tempo\": {}1, \"notes\": []}}", "1".repeat(1 << 20));
    assert!(Score::from_json(long.as_bytes()).is_err());
}

#[test]
fn events_are_in_order_and_releases_come_first() {
    let mut music = score(vec![note(0.0, 0.5), note(0.5, 0.0), note(0.5, 1.0)]);
    music.controls.push(Control { at: 0.5, parameter: Parameter::Gain, value: 0.5 });
    music.bends.push(Bend { at: 0.5, channel: 0, semitones: 1.0 });
    let events = music.events(48_000);
    let seen: Vec<(u64, char)> = events
        .iter()
        .map(|Event { at, action }| match action {
            Action::Start { .. } => (*at, 's'),
            Action::Release { .. } => (*at, 'r'),
            Action::Bend { .. } => (*at, 'b'),
            Action::Set { .. } => (*at, 'c'),
        })
        .collect();
    let half = 24_000;
    assert_eq!(
        seen,
        [(0, 's'), (half, 'c'), (half, 'b'), (half, 'r'), (half, 's'), (half, 's'), (half + 1, 'r'), (3 * half, 'r')]
    );
}

#[test]
fn the_schema_has_the_limits_of_the_check() {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
    let note = &schema["properties"]["notes"];
    assert_eq!(note["maxItems"], MAX_NOTES);
    let field = &note["items"]["properties"];
    assert_eq!(field["start"]["maximum"], MAX_SECONDS);
    assert_eq!(field["key"]["maximum"], 127);
    let names: Vec<_> = Instrument::ALL.iter().map(|instrument| instrument.name()).collect();
    assert_eq!(field["instrument"]["enum"], serde_json::json!(names));
    let names: Vec<_> = Parameter::ALL.iter().map(|parameter| parameter.name()).collect();
    assert_eq!(schema["properties"]["controls"]["items"]["properties"]["parameter"]["enum"], serde_json::json!(names));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Score::from_json(&bytes);
    }

    #[test]
    fn every_note_is_released_once_and_after_its_start(times in proptest::collection::vec((0.0..100.0f64, 0.0..5.0f64), 0..50)) {
        let music = score(times.iter().map(|&(start, duration)| note(start, duration)).collect());
        let events = music.events(44_100);
        prop_assert!(events.is_sorted_by_key(|event| event.at));
        let mut sounding = std::collections::HashSet::new();
        for event in events {
            match event.action {
                Action::Start { note, .. } => prop_assert!(sounding.insert(note)),
                Action::Release { note } => prop_assert!(sounding.remove(&note)),
                _ => {}
            }
        }
        prop_assert!(sounding.is_empty());
    }
}
