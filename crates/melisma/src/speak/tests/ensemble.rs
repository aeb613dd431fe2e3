//! Texts that come and go have the tokens that each has alone.

use std::collections::BTreeMap;

use super::*;
use crate::llama::PAGE_LEN;

const TEXTS: [&str; 5] = [
    "Good morning.",
    "How are you? I am well, thank you; the weather is fine and the sea is calm, as far as anybody can see it.",
    "It is 12 o'clock, and all is well!",
    "Ça va, 今日は。",
    "This is a text of several pieces. It has many words. Each sentence is as plain as the one before it, and there is \
     nothing to learn from any of them. They only have to be long. So they go on, word by word, until three hundred \
     characters have been written, and then a few more of them. Here is the end of it. Or is it?",
];

/// What a text has said so far.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    codes: Vec<i32>,
    notes: Vec<Note>,
    end: Option<std::result::Result<u64, String>>,
}

fn ensemble(speaker: &Arc<Speaker>, n_texts: usize, cache_bytes: u64) -> Ensemble {
    Ensemble::new(Arc::clone(speaker), EnsembleOptions { n_texts, cache_bytes }).unwrap()
}

/// Takes a step of the texts that are ready.
fn step(ensemble: &mut Ensemble, heard: &mut BTreeMap<Member, Heard>, ready: impl Fn(Member) -> bool) {
    for Utterance { member, codes, notes, end } in ensemble.step(ready).unwrap().said {
        let of = heard.entry(member).or_default();
        assert_eq!(of.end, None, "it goes on after its end");
        of.codes.extend_from_slice(codes.frames().as_slice());
        of.notes.extend(notes);
        of.end = end.map(|end| end.map(|ledger| ledger.frames).map_err(|error| error.to_string()));
    }
}

/// What a text says alone.
fn alone(speaker: &Speaker, text: &str) -> Heard {
    let (codes, _, notes) = speak(speaker, text, &defaults(speaker)).unwrap();
    let end = Some(Ok(codes.n_frames() as u64));
    Heard { codes: codes.frames().as_slice().to_vec(), notes, end }
}

#[test]
fn texts_that_come_and_go_have_the_tokens_that_each_has_alone() {
    for threads in [1, 3] {
        let speaker = Arc::new(open(Shape { end: 2.0, ..Shape::default() }, threads));
        let expected: Vec<Heard> = TEXTS.iter().map(|text| alone(&speaker, text)).collect();
        let mut ensemble = ensemble(&speaker, 8, u64::MAX);
        let (mut heard, mut texts, mut left) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for n in 0..1000 {
            // One comes every third step; a few leave early, and each pauses now and then.
            if n % 3 == 0 && n < 60 {
                let text = n / 3 % TEXTS.len();
                let script = speaker.script(TEXTS[text], None, 7).unwrap();
                let member = ensemble.join(script).unwrap();
                texts.insert(member, text);
                if n % 12 == 0 {
                    left.push(member);
                }
            }
            if n == 40 {
                left.iter().for_each(|member| ensemble.leave(*member));
            }
            let place = |member: Member| texts.keys().position(|other| *other == member).unwrap();
            step(&mut ensemble, &mut heard, |member| (n + place(member)) % 5 != 0);
            if n > 60 && ensemble.is_empty() {
                break;
            }
        }
        assert!(ensemble.is_empty());
        assert_eq!(ensemble.cache_bytes()[1], 0);
        for (member, text) in &texts {
            let empty = Heard::default();
            let heard = heard.get(member).unwrap_or(&empty);
            match left.contains(member) && heard.end.is_none() {
                true => assert!(expected[*text].codes.starts_with(&heard.codes)),
                false => assert_eq!(heard, &expected[*text], "{}", TEXTS[*text]),
            }
        }
        assert!(heard.values().filter(|heard| heard.end.is_some()).count() >= 15);
    }
}

#[test]
fn texts_that_come_and_go_have_their_own_tokens_on_cuda() {
    let Some(context) = gpu() else { return };
    let folder = folder(Shape { end: 2.0, ..Shape::default() });
    let speaker = Arc::new(Speaker::open_in(&context, folder.path(), codec()).unwrap());
    let script = |text: &str| speaker.script(text, None, 7).unwrap();
    let settings = speaker.format().settings();
    let mut expected = BTreeMap::new();
    let done = |text: usize, said: Result<SpokenText>| {
        expected.insert(text, said?.codes.frames().as_slice().to_vec());
        Ok(())
    };
    let scripts = TEXTS.iter().enumerate().map(|(index, text)| (index, script(text)));
    speaker.speak_all(scripts.collect(), &settings, done).unwrap();
    let (mut ensemble, mut heard) = (ensemble(&speaker, 8, 64 << 20), BTreeMap::new());
    let mut members = Vec::new();
    for n in 0.. {
        if n % 4 == 0 && members.len() < TEXTS.len() {
            members.push(ensemble.join(script(TEXTS[members.len()])).unwrap());
        }
        step(&mut ensemble, &mut heard, |_| true);
        if members.len() == TEXTS.len() && ensemble.is_empty() {
            break;
        }
    }
    for (text, member) in members.iter().enumerate() {
        assert_eq!(heard[member].codes, expected[&text], "{}", TEXTS[text]);
    }
}

#[test]
fn a_prompt_is_read_in_pieces_while_others_speak() {
    let speaker = Arc::new(open(Shape { end: -20.0, ..Shape::default() }, 1));
    let mut ensemble = ensemble(&speaker, 8, u64::MAX);
    ensemble.join(speaker.script("Hi.", None, 7).unwrap()).unwrap();
    let first = ensemble.step(|_| true).unwrap();
    assert!(first.has_prompt && first.n_tokens == 1);
    // A token for each letter.
    ensemble.join(speaker.script(&"a".repeat(290), None, 7).unwrap()).unwrap();
    let steps: Vec<_> = (0..7).map(|_| ensemble.step(|_| true).unwrap()).collect();
    let drawn: Vec<_> = steps.iter().map(|step| (step.has_prompt, step.n_tokens)).collect();
    let read = (290 + 10usize).div_ceil(64);
    assert_eq!(drawn[..read - 1], vec![(true, 1); read - 1]);
    assert_eq!(drawn[read - 1..read + 1], [(true, 2), (false, 2)]);
}

#[test]
fn pieces_wait_in_order_where_the_cache_is_small() {
    let speaker = Arc::new(open(Shape { context: 1024, end: 2.0, ..Shape::default() }, 1));
    let expected: Vec<Heard> = TEXTS.iter().map(|text| alone(&speaker, text)).collect();
    // The cache has room for one piece of the longest kind.
    let mut ensemble = ensemble(&speaker, 8, 0);
    assert_eq!((ensemble.n_texts(), ensemble.context()), (1, 1024));
    let mut heard = BTreeMap::new();
    let members: Vec<Member> =
        TEXTS.iter().map(|text| ensemble.join(speaker.script(text, None, 7).unwrap()).unwrap()).collect();
    let mut order = Vec::new();
    while !ensemble.is_empty() {
        let [room, held] = ensemble.cache_bytes();
        assert!(held <= room);
        step(&mut ensemble, &mut heard, |_| true);
        order.extend(
            members
                .iter()
                .filter(|member| heard.contains_key(member) && !order.contains(*member))
                .copied()
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(order, members);
    for (member, expected) in members.iter().zip(&expected) {
        assert_eq!(&heard[member], expected);
    }
}

#[test]
fn a_text_whose_pieces_do_not_fit_is_cut_or_refused() {
    let speaker = Arc::new(open(Shape { context: 8192, ..Shape::default() }, 1));
    let mut ensemble = ensemble(&speaker, 1, 0);
    assert!(ensemble.context() < 8192 && ensemble.context().is_multiple_of(PAGE_LEN));
    let text = "5".repeat(120);
    let whole = speaker.script(&text, None, 7).unwrap();
    assert_eq!(whole.n_pieces(), 1);
    let error = ensemble.join(whole).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let cut = speaker.script_within(&text, None, 7, ensemble.context()).unwrap();
    assert!(cut.n_pieces() > 1);
    ensemble.join(cut).unwrap();
}

#[test]
fn damaged_logits_end_one_text_and_no_other() {
    let folder = folder(Shape { end: 2.0, ..Shape::default() });
    let expected = {
        let speaker = Speaker::open_in(&cpu(1), folder.path(), codec()).unwrap();
        alone(&speaker, TEXTS[1])
    };
    ahead::damage(folder.path(), b'#');
    let speaker = Arc::new(Speaker::open_in(&cpu(1), folder.path(), codec()).unwrap());
    let mut ensemble = ensemble(&speaker, 4, u64::MAX);
    let mut heard = BTreeMap::new();
    let join = |ensemble: &mut Ensemble, text: &str| {
        let script = speaker.script(text, None, 7).unwrap();
        ensemble.join(script).unwrap()
    };
    let good = join(&mut ensemble, TEXTS[1]);
    let bad = join(&mut ensemble, "Number # is damaged.");
    let late = join(&mut ensemble, TEXTS[1]);
    while !ensemble.is_empty() {
        step(&mut ensemble, &mut heard, |_| true);
    }
    let error = heard[&bad].end.as_ref().unwrap().as_ref().unwrap_err();
    assert!(error.contains("NaN"), "{error}");
    assert_eq!((&heard[&good], &heard[&late]), (&expected, &expected));
}

#[test]
fn a_model_that_does_not_end_is_ended_by_the_limit_of_its_text() {
    let speaker = Arc::new(open(Shape { end: -20.0, ..Shape::default() }, 1));
    let mut ensemble = ensemble(&speaker, 2, u64::MAX);
    let member = ensemble.join(speaker.script("Hi.", None, 7).unwrap()).unwrap();
    let mut heard = BTreeMap::new();
    while !ensemble.is_empty() {
        step(&mut ensemble, &mut heard, |_| true);
    }
    assert_eq!((heard[&member].codes.len(), &heard[&member].notes[..]), (66 * 7, &[Note::Endless(0, 66)][..]));
}

#[test]
fn a_trial_of_steps_leaves_nothing_behind() {
    let speaker = Arc::new(open(Shape::default(), 1));
    let mut ensemble = ensemble(&speaker, 4, u64::MAX);
    assert_eq!(ensemble.n_texts(), 4);
    assert!(!ensemble.step_time(4).unwrap().is_zero());
    assert!(ensemble.is_empty() && ensemble.cache_bytes()[1] == 0);
    let member = ensemble.join(speaker.script(TEXTS[0], None, 7).unwrap()).unwrap();
    let mut heard = BTreeMap::new();
    while !ensemble.is_empty() {
        step(&mut ensemble, &mut heard, |_| true);
    }
    assert_eq!(heard[&member], alone(&speaker, TEXTS[0]));
}
