//! Pieces that are spoken together have the frames and samples that they have one after the other.

use std::path::Path;

use super::*;
use crate::snac::tokens::Ledger;
use crate::speak::ahead::MAX_AT_ONCE;

const TEXT: &str = "One sentence is here. Another one, with a few more words, is there. Zero? ";

fn whole(speaker: &Speaker) -> Delivery {
    Delivery { pace: Pace::Whole, ..defaults(speaker) }
}

/// Everything that a speech gave.
#[derive(Debug, PartialEq)]
struct Heard {
    codes: Vec<i32>,
    samples: Vec<f32>,
    notes: Vec<Note>,
    ledger: Ledger,
    error: Option<String>,
}

/// Speaks `text`; also returns the frames and samples of each delivery.
fn said(speaker: &Speaker, text: &str, delivery: &Delivery) -> (Heard, Vec<[usize; 2]>) {
    let script = speaker.script(text, None, 7).unwrap();
    let mut speech = speaker.speak(script, delivery).unwrap();
    let (mut codes, mut samples, mut lens, mut error) = (Vec::new(), Vec::new(), Vec::new(), None);
    for piece in speech.by_ref() {
        match piece {
            Ok(piece) => {
                lens.push([piece.codes.n_frames(), piece.samples.len()]);
                codes.extend_from_slice(piece.codes.frames().as_slice());
                samples.extend(piece.samples);
            }
            Err(failed) => error = Some(failed.to_string()),
        }
    }
    let (notes, ledger) = (speech.notes().to_vec(), speech.ledger());
    (Heard { codes, samples, notes, ledger, error }, lens)
}

fn small(shape: Shape) -> Shape {
    Shape { context: 1024, ..shape }
}

#[test]
fn pieces_at_once_change_no_token_and_no_sample() {
    for (end, n) in [(0.0, 12), (3.0, 40), (-20.0, 4)] {
        for threads in [1, 3] {
            let (speaker, text) = (open(small(Shape { end, ..Shape::default() }), threads), TEXT.repeat(n));
            let (expected, live) = said(&speaker, &text, &defaults(&speaker));
            let (found, together) = said(&speaker, &text, &whole(&speaker));
            assert!(speaker.script(&text, None, 7).unwrap().n_pieces() > n);
            assert_eq!(found, expected, "{end}, {threads} threads");
            assert!(expected.error.is_none() && expected.ledger.frames * 7 == expected.codes.len() as u64);
            // The first samples leave as early as ever.
            let until_heard = |lens: &[[usize; 2]]| lens.iter().position(|[_, n_samples]| *n_samples > 0).unwrap() + 1;
            let n_first = until_heard(&live);
            assert_eq!(together[..n_first], live[..n_first]);
            assert_eq!(live.iter().map(|[n_frames, _]| *n_frames).max(), Some(1));
            assert_eq!(together.iter().map(|[n_frames, _]| *n_frames).max(), Some(8));
        }
    }
    let speaker = open(small(Shape { end: -20.0, ..Shape::default() }), 2);
    let (Heard { notes, .. }, _) = said(&speaker, &TEXT.repeat(3), &whole(&speaker));
    assert!(notes.iter().enumerate().all(|(at, note)| matches!(note, Note::Endless(piece, _) if *piece == at)));
    assert!(notes.len() > 2, "{notes:?}");
}

#[test]
fn other_speeds_and_free_drawing_are_the_same_at_any_pace() {
    let speaker = open(small(Shape::default()), 2);
    for (speed, draw) in [(1.5, Draw::Frames), (1.0, Draw::Free)] {
        let mut live = Delivery { speed, ..defaults(&speaker) };
        live.settings.draw = draw;
        let together = Delivery { pace: Pace::Whole, ..live.clone() };
        let text = TEXT.repeat(6);
        assert_eq!(said(&speaker, &text, &together).0, said(&speaker, &text, &live).0, "{speed}, {draw:?}");
    }
}

/// Makes the embedding of a sign NaN.
pub(super) fn damage(folder: &Path, sign: u8) {
    let path = folder.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let first = header["model.embed_tokens.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    let row = 8 + header_len + first + usize::from(sign) * 16 * 2;
    bytes[row..row + 2].copy_from_slice(&[0xc0, 0x7f]);
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_piece_that_fails_is_told_after_those_before_it() {
    let folder = folder(small(Shape::default()));
    damage(folder.path(), b'%');
    let speaker = Speaker::open_in(&cpu(2), folder.path(), codec()).unwrap();
    let text = format!("{}Here are 9 % of it. {}", TEXT.repeat(3), TEXT.repeat(5));
    let expected = said(&speaker, &text, &defaults(&speaker)).0;
    assert!(expected.error.as_ref().is_some_and(|error| error.contains("NaN")), "{:?}", expected.error);
    assert!(!expected.codes.is_empty());
    let found = said(&speaker, &text, &whole(&speaker)).0;
    assert_eq!(found, expected);
}

#[test]
fn pieces_at_once_take_the_memory_that_was_told() {
    /// Too little for the cache of another piece.
    const SPARE: u64 = 64 << 10;
    let folder = folder(small(Shape::default()));
    let open = |limit: u64| {
        let context = Context::on(cpu(2).device().clone(), crate::Budget::limited(limit)).unwrap();
        Speaker::open_in(&context, folder.path(), codec()).unwrap()
    };
    let speaker = open(u64::MAX);
    let usage = || speaker.context().budget().usage(Space::Host);
    let text = TEXT.repeat(12);
    let script = speaker.script(&text, None, 7).unwrap();
    let before = usage().now;
    let [alone, together] =
        [&defaults(&speaker), &whole(&speaker)].map(|delivery| speaker.needed(&script, delivery).host);
    assert!(together > alone, "{together}, {alone}");
    let (expected, _) = said(&speaker, &text, &whole(&speaker));
    let taken = usage().peak - before;
    assert!(taken <= together && taken > alone, "{taken} of {together}, {alone} alone");
    // Where memory is short, fewer are spoken at once.
    let limited = open(before + alone + SPARE);
    assert!(limited.needed(&script, &whole(&limited)).host <= alone + SPARE);
    assert_eq!(said(&limited, &text, &whole(&limited)).0, expected);
}

#[test]
fn the_estimate_of_a_whole_text_is_that_of_its_pieces_together() {
    let speaker = open(small(Shape::default()), 2);
    let script = |n| speaker.script(&TEXT.repeat(n), None, 7).unwrap();
    let at_once = |script, delivery: &Delivery| {
        let mut speech = speaker.speak(script, delivery).unwrap();
        let n_at_once = speech.estimate().unwrap().n_at_once;
        assert!(speech.next().unwrap().is_ok());
        assert_eq!(speech.estimate().unwrap_err().kind(), ErrorKind::InvalidArgument);
        n_at_once
    };
    assert_eq!(at_once(script(20), &whole(&speaker)), MAX_AT_ONCE);
    assert_eq!(at_once(script(20), &defaults(&speaker)), 1);
    let one = speaker.script("Zero?", None, 7).unwrap();
    assert_eq!((one.n_pieces(), at_once(one, &whole(&speaker))), (1, 1));
}
