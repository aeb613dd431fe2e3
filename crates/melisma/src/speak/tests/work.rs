//! How much is computed and held.

use super::*;
use crate::speak::run::{ScriptRun, Stage};
use crate::speak::script::Prompt;

/// In speech the head computes the rows of the frame's current slot, and of the end between frames.
#[test]
fn the_head_computes_the_rows_of_a_slot_only() {
    let (folder, context) = (folder(Shape { end: -20.0, ..Shape::default() }), cpu(1));
    let speaker = Speaker::open_in(&context, folder.path(), codec()).unwrap();
    let model = Arc::new(llama::Model::open_in(&context, folder.path()).unwrap());
    let n_tokens = model.config().n_tokens;
    let tokens = speaker.format().tokens(n_tokens, &codec()).unwrap();
    let rows = |draw| {
        let (settings, options) =
            (Settings { draw, ..speaker.format().settings() }, llama::Options { context: 1024, n_cached: 1024 });
        let mut stage = Stage::new((&context, &model), &settings, tokens, options).unwrap();
        let mut runs = [ScriptRun::new(speaker.script("Hi.", None, 7).unwrap(), tokens, draw, usize::MAX)];
        let step = |_| {
            stage.step(&mut runs).unwrap();
            stage.n_logits(0)
        };
        (0..8).map(step).collect::<Vec<_>>()
    };
    assert_eq!(rows(Draw::Frames), [16, 16, 16, 16, 16, 16, 16, 17]);
    assert_eq!(rows(Draw::Free), [n_tokens; 8]);
}

/// Weights that stay in their file are the system's, and count for no limit.
#[test]
fn mapped_weights_need_no_budget() {
    let shape = Shape { n_channels: 512, n_inner: 1024, n_heads: 8, context: 1024, ..Shape::default() };
    let folder = tempfile::tempdir().unwrap();
    synthetic::write_zeros(folder.path(), &codec(), shape).unwrap();
    let n_bytes = std::fs::metadata(folder.path().join("model.safetensors")).unwrap().len();
    let opened = |limit: u64| {
        let context = Context::on(cpu(1).device().clone(), crate::Budget::limited(limit)).unwrap();
        Speaker::open_in(&context, folder.path(), codec())
    };
    let free = opened(u64::MAX).unwrap();
    let script = free.script("Hi.", None, 0).unwrap();
    let needed = free.needed(&script, &defaults(&free)).host + free.context().budget().usage(Space::Host).now;
    assert!(needed < n_bytes / 2, "{needed} of {n_bytes}");
    let speaker = opened(needed).unwrap();
    let mut speech = speaker.speak(speaker.script("Hi.", None, 0).unwrap(), &defaults(&speaker)).unwrap();
    assert!(speech.next().unwrap().is_ok());
}

/// A text of hours is spoken whole, in the memory of one piece.
#[test]
#[ignore = "extended: 100,000 characters take a minute"]
fn a_very_long_text_is_spoken_whole_in_flat_memory() {
    let sentence = "The hundred and first sentence is as long as the one before, and nobody minds. ";
    let text: String = sentence.repeat(100_000usize.div_ceil(sentence.len())).chars().take(100_000).collect();
    let speaker = open(Shape { end: 2.0, ..Shape::default() }, 2);
    let script = speaker.script(&text, None, 7).unwrap();
    // Tokens are bytes, and every prompt begins with the voice.
    let said = |prompt: &Prompt| {
        let bytes: Vec<u8> = prompt.tokens.iter().filter_map(|&token| u8::try_from(token).ok()).collect();
        String::from_utf8(bytes).unwrap().strip_prefix("ann: ").unwrap().to_owned()
    };
    let said: String = script.prompts.iter().map(said).collect();
    let words = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
    assert!(words(&said) == words(&text));
    let n_pieces = script.n_pieces();
    let mut speech = speaker.speak(script, &defaults(&speaker)).unwrap();
    let usage = || speaker.context().budget().usage(Space::Host);
    let (mut n_frames, mut n_samples, mut early) = (0, 0, None);
    for piece in speech.by_ref() {
        let piece = piece.unwrap();
        n_frames += piece.codes.n_frames();
        n_samples += piece.samples.len();
        if early.is_none() && n_frames > 100 {
            early = Some(usage().peak);
        }
    }
    assert!(n_pieces > 300 && n_frames >= n_pieces, "{n_frames} frames of {n_pieces} pieces");
    assert_eq!(n_samples, n_frames * speaker.codec().config().frame_len());
    assert!(speech.notes().iter().all(|note| !matches!(note, Note::Silent(_))), "{:?}", speech.notes());
    assert_eq!(usage().peak, early.unwrap());
}
