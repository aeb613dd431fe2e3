//! Settings of a user beside those of a model.

use super::*;
use crate::config::{Origin, Raw, Section};

/// A user's settings win over the model's file, and stand in for it.
#[test]
fn settings_win_over_the_file_of_a_model() {
    let folder = folder(Shape::default());
    let open = |keys: &[(&str, &str)]| {
        let mut config = speak::Config::default();
        for (key, word) in keys {
            config.set(key, &Raw::Word((*word).to_owned()), Origin::Flag("--flag")).unwrap();
        }
        Speaker::open_as_in(&cpu(1), folder.path(), codec(), Opening::default().with_config(config))
    };
    let (own, changed) = (open(&[]).unwrap(), open(&[("speak.voices", "eve,kim"), ("speak.top_k", "3")]).unwrap());
    assert_eq!(
        (&changed.format().voices[..], changed.format().settings().sample.top_k),
        (&["eve", "kim"].map(str::to_owned)[..], 3)
    );
    assert_eq!(changed.format().end, own.format().end);
    assert_ne!(changed.hash(1).unwrap(), own.hash(1).unwrap());
    assert_eq!(open(&[]).unwrap().hash(1).unwrap(), own.hash(1).unwrap());
    let error = open(&[("speak.codec", "00")]).unwrap_err();
    assert!(error.to_string().contains("the voice model was trained with 00"), "{error}");
    std::fs::remove_file(folder.path().join("speak.yaml")).unwrap();
    let all = [
        ("speak.voices", "ann, bob"),
        ("speak.before", "259"),
        ("speak.after", "260, 261"),
        ("speak.speech", "264"),
        ("speak.end", "258"),
    ];
    assert_eq!(open(&all).unwrap().script("Hi.", None, 0).unwrap(), own.script("Hi.", None, 0).unwrap());
    let error = open(&all[..4]).unwrap_err();
    assert!(error.hint().unwrap().contains("in the settings `speak`: at least `speech` and `end`"), "{error}");
}
