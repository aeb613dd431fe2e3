//! Texts that are read out in words before a model sees them.

use std::sync::Arc;

use super::*;
use crate::config::{Origin, Raw, Section};
use crate::speak::{Opening, Pace};

const TEXT: &str = "Dr. Lee paid $3.50 at 10:05. \u{1f600} It was 5 p.m. He left.";
const READ: &str = "Doctor Lee paid three dollars and fifty cents at ten oh five. It was five p m. He left.";

fn open_with(normalise: &str) -> Speaker {
    let mut config = speak::Config::default();
    config.set("speak.normalise", &Raw::Word(normalise.to_owned()), Origin::Flag("normalise")).unwrap();
    let opening = Opening::default().with_config(config);
    Speaker::open_as_in(&cpu(1), folder(Shape::default()).path(), codec(), opening).unwrap()
}

#[test]
fn a_model_that_asks_for_it_gets_words_and_its_listener_a_note() {
    let (plain, normalised) = (open_with("off"), Arc::new(open_with("on")));
    assert!(!plain.format().normalises() && normalised.format().normalises());
    assert_eq!(plain.script(TEXT, None, 7).unwrap(), open(Shape::default(), 1).script(TEXT, None, 7).unwrap());
    let script = normalised.script(TEXT, None, 7).unwrap();
    assert_eq!(script.prompts, plain.script(READ, None, 7).unwrap().prompts);
    let note = "left out, because it has no reading in English: `\u{1f600}`";
    let said = |notes: &[Note]| {
        notes.iter().map(ToString::to_string).filter(|said| !said.starts_with("piece ")).collect::<Vec<_>>()
    };

    // Every way to speak tells of it once, whatever the pace, and speaks the same frames.
    let settings = normalised.format().settings();
    let (codes, _, notes) = speak(&normalised, TEXT, &settings.into()).unwrap();
    assert_eq!(said(&notes), [note]);
    let whole = Delivery { pace: Pace::Whole, ..settings.into() };
    let (same, _, notes) = speak(&normalised, TEXT, &whole).unwrap();
    assert_eq!((same, said(&notes)), (codes.clone(), vec![note.to_owned()]));
    let mut found = Vec::new();
    let done = |(), spoken: Result<SpokenText>| {
        found.push(spoken?);
        Ok(())
    };
    normalised.speak_all(vec![((), script)], &settings, done).unwrap();
    assert_eq!((&found[0].codes, said(&found[0].notes)), (&codes, vec![note.to_owned()]));
}

#[test]
fn a_text_that_nobody_can_read_is_refused_with_what_it_has() {
    let error = open_with("on").script("\u{65e5}\u{672c}!", None, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text has no word to speak: left out, because it has no reading in English: `\u{65e5}\u{672c}`"
    );
    assert_eq!(open_with("on").script(" ", None, 0).unwrap_err().to_string(), "the text is empty");
}
