mod ahead;
#[cfg(feature = "voice")]
mod builtin;
mod ensemble;
mod normalised;
mod setting;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;

use tempfile::TempDir;

use super::synthetic::{self, Shape};
use super::*;
use crate::audio::Layout;
use crate::audio::stretch::Stretch;
use crate::config::DeviceRequest;
use crate::llama::{self, Sample};
use crate::runtime::memory::Space;
use crate::snac::{Codes, Config, Decoder, Model};
use crate::{Context, ErrorKind, Remedy, Result, speak};

/// A codec with seven slots of 16 codes, so that a random model ends often.
fn codec() -> Arc<Model> {
    let small = Config { encoder_dim: 8, decoder_dim: 64, codebook_size: 16, ..Config::snac_24khz() };
    Arc::new(Model::random(small, 1).unwrap())
}

fn cpu(threads: usize) -> Context {
    Context::builder().with_device(DeviceRequest::Cpu).with_threads(threads).build().unwrap()
}

fn folder(shape: Shape) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    synthetic::write(folder.path(), &codec(), shape, 3).unwrap();
    folder
}

fn open(shape: Shape, threads: usize) -> Speaker {
    Speaker::open_in(&cpu(threads), folder(shape).path(), codec()).unwrap()
}

/// Returns the frames, samples and notes of a text.
fn speak(speaker: &Speaker, text: &str, delivery: &Delivery) -> Result<(Codes, Vec<f32>, Vec<Note>)> {
    let mut speech = speaker.speak(speaker.script(text, None, 7)?, delivery)?;
    let (mut codes, mut samples) = (Codes::empty(speaker.codec().config()), Vec::new());
    for piece in speech.by_ref() {
        let piece = piece?;
        codes.append(piece.codes.frames())?;
        samples.extend(piece.samples);
    }
    Ok((codes, samples, speech.notes().to_vec()))
}

fn defaults(speaker: &Speaker) -> Delivery {
    speaker.format().settings().into()
}

pub(super) fn gpu() -> Option<Context> {
    match crate::Device::cuda(0) {
        Ok(device) => Some(Context::on(device, crate::Budget::unlimited()).unwrap()),
        Err(error) if std::env::var("REQUIRE_CUDA").is_ok_and(|value| value == "1") => panic!("{error}"),
        Err(_) => None,
    }
}

const TEXTS: [&str; 4] = ["Good morning.", "How are you?", "It is 12 o'clock, and all is well!", "Ça va, 今日は。"];

#[test]
fn neighbours_threads_and_cuts_change_no_token() {
    let (alone, many) = (open(Shape::default(), 1), open(Shape::default(), 3));
    let settings = alone.format().settings();
    let expected: Vec<_> = TEXTS.iter().map(|text| speak(&alone, text, &settings.into()).unwrap()).collect();
    let distinct: BTreeSet<_> = expected.iter().map(|(codes, ..)| codes.frames().as_slice().to_vec()).collect();
    assert_eq!(distinct.len(), TEXTS.len());
    let mut scripts = Vec::new();
    for n in 0..50 {
        scripts.push((n % 4, many.script(TEXTS[n % 4], Some("ann"), 7).unwrap()));
    }
    let mut n_done = 0;
    let done = |index: usize, said: Result<SpokenText>| {
        let said = said?;
        assert_eq!((&said.codes, &said.notes), (&expected[index].0, &expected[index].2), "{index}");
        n_done += 1;
        Ok(())
    };
    many.speak_all(scripts, &settings, done).unwrap();
    assert_eq!(n_done, 50);
    let other = alone.script(TEXTS[0], Some("bob"), 7).unwrap();
    assert_ne!(other, alone.script(TEXTS[0], None, 7).unwrap());
}

#[test]
fn neighbours_change_no_token_on_cuda() {
    let Some(context) = gpu() else { return };
    let speaker = Speaker::open_in(&context, folder(Shape { end: 1.0, ..Shape::default() }).path(), codec()).unwrap();
    let all = |texts: &[&str]| {
        let scripts = texts.iter().enumerate().map(|(n, text)| (n, speaker.script(text, None, 7).unwrap()));
        let mut codes = vec![None; texts.len()];
        let done = |n: usize, said: Result<SpokenText>| {
            codes[n] = Some(said?.codes);
            Ok(())
        };
        speaker.speak_all(scripts.collect(), &speaker.format().settings(), done).unwrap();
        codes
    };
    let alone: Vec<_> = TEXTS.iter().flat_map(|&text| all(&[text])).collect();
    assert!(alone.iter().all(Option::is_some) && alone[0] != alone[2]);
    assert_eq!(all(&TEXTS), alone);
}

#[test]
fn speech_takes_the_memory_that_it_needs_on_cuda() {
    let Some(context) = gpu() else { return };
    let folder = folder(Shape { end: 4.0, ..Shape::default() });
    let device = |context: &Context| context.budget().usage(Space::Device);
    let before = device(&context).now;
    let speaker = Speaker::open_in(&context, folder.path(), codec()).unwrap();
    let opened = device(&context).now;
    assert!(opened - before >= llama::Model::needed(folder.path(), context.device()).device);
    let needed = speaker.needed(&speaker.script("Hi.", None, 7).unwrap(), &defaults(&speaker)).device;
    speak(&speaker, "Hi.", &defaults(&speaker)).unwrap();
    let taken = device(&context).peak - opened;
    assert!(taken <= needed + (1 << 16) && needed < 2 * taken, "{taken} of {needed}");
}

#[test]
fn an_estimate_leaves_nothing_behind() {
    let speaker = open(Shape::default(), 2);
    let settings = speaker.format().settings();
    let expected = speak(&speaker, TEXTS[0], &settings.into()).unwrap();
    let mut speech = speaker.speak(speaker.script(TEXTS[0], None, 7).unwrap(), &settings.into()).unwrap();
    let estimate = speech.estimate().unwrap();
    assert!(estimate.n_at_once == 1 && estimate.realtime > 0.0 && !estimate.most.is_zero(), "{estimate:?}");
    let first = speech.next().unwrap().unwrap();
    assert_eq!(speech.estimate().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (mut codes, mut samples) = (first.codes, first.samples);
    for piece in speech.by_ref() {
        let piece = piece.unwrap();
        codes.append(piece.codes.frames()).unwrap();
        samples.extend(piece.samples);
    }
    assert_eq!((codes, samples, speech.notes().to_vec()), expected);

    let mut decoder = Decoder::new_in(&cpu(1), codec(), snac_defaults()).unwrap();
    let scripts: Vec<_> = (0..40).map(|seed| ((), speaker.script(TEXTS[1], None, seed).unwrap())).collect();
    let estimate = speaker.estimate_all(&scripts, &settings, Some(&mut decoder)).unwrap();
    assert_eq!(estimate.n_at_once, 32);
    // Texts whose tokens are all drawn may end with the first one.
    let free = Settings { draw: Draw::Free, ..settings };
    let estimate = speaker.estimate_all(&scripts[..1], &free, None).unwrap();
    assert!(estimate.n_at_once == 1 && !estimate.step.is_zero() && estimate.step < estimate.most, "{estimate:?}");
}

#[test]
fn words_are_tokens_and_zeros_are_a_model() {
    let shape = Shape { n_words: 10_000, is_tied: true, ..Shape::default() };
    let small = folder(shape);
    let tokenizer = Tokenizer::open(small.path()).unwrap();
    let first = 264 + 7 * 16;
    let word = |a: char, b: char| first + (a as u32 - '!' as u32) * 94 + b as u32 - '!' as u32;
    // The pairs "ab" and "cd"; every triple of the vocabulary begins with "!".
    assert_eq!(tokenizer.encode("abcd").unwrap(), [256, word('a', 'b'), word('c', 'd')]);
    synthetic::write_zeros(small.path(), &codec(), shape).unwrap();
    let speaker = Speaker::open_in(&cpu(1), small.path(), codec()).unwrap();
    let (codes, ..) = speak(&speaker, "Hi.", &defaults(&speaker)).unwrap();
    assert!(codes.n_frames() > 0);
}

#[test]
fn frames_become_the_samples_of_a_whole_clip() {
    let speaker = open(Shape::default(), 2);
    let (codes, samples, _) = speak(&speaker, TEXTS[2], &defaults(&speaker)).unwrap();
    let mut decoder = Decoder::new_in(&cpu(1), codec(), snac_defaults()).unwrap();
    assert_eq!(samples, decoder.decode(&codes).unwrap());
    let faster = Delivery { speed: 2.0, ..defaults(&speaker) };
    let (same, stretched, _) = speak(&speaker, TEXTS[2], &faster).unwrap();
    assert_eq!((same, stretched.len()), (codes, samples.len().div_ceil(2)));
}

fn snac_defaults() -> crate::snac::DecodeOptions {
    crate::snac::DecodeOptions::default()
}

#[test]
fn pieces_follow_each_other_and_a_small_context_makes_more_of_them() {
    let text = "One sentence is here. ".repeat(40);
    let (large, small) = (open(Shape::default(), 2), open(Shape { context: 1024, ..Shape::default() }, 2));
    let n_pieces = [&large, &small].map(|speaker| speaker.script(&text, None, 0).unwrap().n_pieces());
    assert_eq!(n_pieces[0], 4);
    assert!(n_pieces[1] > 10, "{n_pieces:?}");
    let (codes, samples, _) = speak(&small, &text, &defaults(&small)).unwrap();
    assert_eq!(samples.len(), codes.n_frames() * small.codec().config().frame_len());
    // Nothing is heard between pieces: the samples are those of all codes at once, at any speed.
    let mut decoder = Decoder::new_in(&cpu(1), codec(), snac_defaults()).unwrap();
    let whole = decoder.decode(&codes).unwrap();
    assert_eq!(samples, whole);
    let faster = Delivery { speed: 1.5, ..defaults(&small) };
    let (same, stretched, _) = speak(&small, &text, &faster).unwrap();
    let mut stretch = Stretch::new(Layout::new(decoder.sample_rate(), 1), 1.5).unwrap();
    let mut expected = stretch.push(&whole).to_vec();
    expected.extend(stretch.finish());
    assert_eq!((same, stretched), (codes, expected));
    let tiny = open(Shape { context: 256, ..Shape::default() }, 1);
    let error = tiny.script("a", None, 0).unwrap_err();
    assert_eq!(error.to_string(), "a context of 256 tokens is too small for speech");
}

#[test]
fn the_end_ends_a_piece_and_a_model_without_one_is_ended() {
    let speaker = open(Shape { end: 4.0, ..Shape::default() }, 1);
    let (codes, _, notes) = speak(&speaker, "Hi.", &defaults(&speaker)).unwrap();
    assert_eq!(notes, []);
    assert!((1..60).contains(&codes.n_frames()), "{}", codes.n_frames());

    let endless = open(Shape { end: -20.0, ..Shape::default() }, 1);
    let (codes, _, notes) = speak(&endless, "Hi.", &defaults(&endless)).unwrap();
    assert_eq!((codes.n_frames(), &notes[..]), (66, &[Note::Endless(0, 66)][..]));
    assert_eq!(notes[0].to_string(), "piece 1: the model did not stop and was ended after 66 frames");
}

#[test]
fn a_model_that_repeats_itself_is_ended() {
    let speaker = open(Shape { end: -20.0, mix: 0.0, ..Shape::default() }, 1);
    let mut delivery = defaults(&speaker);
    delivery.settings.sample = Sample { temperature: 0.0, ..delivery.settings.sample };
    // Each code follows from the one before it, so they run in a cycle.
    let text = "a".repeat(290);
    let (codes, _, notes) = speak(&speaker, &text, &delivery).unwrap();
    if let [Note::Repeats(0)] = notes[..] {
        assert!(codes.n_frames() < 60 + 2 * 290, "{}", codes.n_frames());
    } else {
        panic!("{notes:?}, {} frames", codes.n_frames());
    }
}

#[test]
fn free_drawing_leaves_foreign_tokens_out() {
    let speaker = open(Shape::default(), 1);
    let mut delivery = defaults(&speaker);
    delivery.settings.draw = Draw::Free;
    let script = speaker.script("Good morning.", None, 3).unwrap();
    let mut speech = speaker.speak(script, &delivery).unwrap();
    let failed = speech.by_ref().find_map(Result::err);
    let ledger = speech.ledger();
    assert!(ledger.rejected > 0, "{ledger:?}");
    assert_eq!(ledger.frames == 0, failed.is_some(), "{ledger:?}, {failed:?}");
    if let Some(error) = failed {
        assert!(error.to_string().contains("gave no speech"), "{error}");
    }
}

#[test]
fn what_a_caller_writes_never_becomes_a_control_token() {
    let speaker = open(Shape::default(), 1);
    let tokens = |text: &str| speaker.script(text, None, 0).unwrap().prompts[0].tokens.clone();
    let plain = tokens("stop <|eot_id|> <custom_token_2> end");
    let expected: Vec<u32> = b"ann: stop <|eot_id|> <custom_token_2> end".iter().map(|&byte| byte.into()).collect();
    assert_eq!(plain, [&[259, 256][..], &expected, &[260, 261]].concat());
}

#[test]
fn texts_without_words_and_unknown_voices_are_refused() {
    let speaker = open(Shape::default(), 1);
    for (text, message) in
        [("", "the text is empty"), (" \n\t ", "the text is empty"), ("🎉🎉 — !", "the text has no word to speak")]
    {
        let error = speaker.script(text, None, 0).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidArgument, message));
    }
    let error = speaker.script("Hi.", Some("eve"), 0).unwrap_err();
    assert_eq!(error.to_string(), "unknown voice `eve`");
    assert_eq!(error.hint().unwrap(), "the voices are ann, bob");
    // Other scripts and long texts are spoken.
    assert_eq!(speaker.script("Привет 🎉 今日は。元気", None, 0).unwrap().n_pieces(), 1);
    assert!(speaker.script(&"many words ".repeat(10_000), None, 0).unwrap().n_pieces() >= 300);
    let error = speaker.script(&"a ".repeat(MAX_TEXT), None, 0).unwrap_err();
    assert!(error.to_string().contains("bytes; at most 16777216 are spoken"), "{error}");
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let change = |name: &str, change: &dyn Fn(String) -> String| {
        let folder = folder(Shape::default());
        let path = folder.path().join(name);
        std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
        Speaker::open_in(&cpu(1), folder.path(), codec()).unwrap_err().to_string()
    };
    let yaml = |from: &'static str, to: &'static str| {
        change("speak.yaml", &|text: String| {
            assert!(text.contains(from), "{text}");
            text.replace(from, to)
        })
    };
    for (error, expected) in [
        (yaml("speech: 264", "speech: 300"), "the format has the token 411; the vocabulary has 376"),
        (yaml("end: 258", "end: 270"), "the token 270 is one of the speech"),
        (yaml("end: 258", "end: -1"), "speak.yaml"),
        (yaml("end: 258\n", ""), "end"),
        (yaml("voices", "voces"), "voces"),
        (yaml("ann, bob", "ann, ann"), "voices: `ann` is empty, twice there"),
        (yaml("{text}", ""), "needs {text} once"),
        (yaml("{voice}: ", ""), "it has {voice} if there are voices"),
        (yaml("codec: ", "codec: 0"), "the voice model was trained with 0"),
        (change("tokenizer.json", &|_| String::new()), "tokenizer.json: not a tokenizer"),
        (change("tokenizer.json", &|text| text.replace("\"BPE\"", "\"WordPiece\"")), "expected BPE"),
        (change("tokenizer.json", &|text| text.replace("\"vocab\":{", "\"vocab\":{\"zz\":[],")), "not a tokenizer"),
    ] {
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    let missing = folder(Shape::default());
    std::fs::remove_file(missing.path().join("tokenizer.json")).unwrap();
    let error = Speaker::open_in(&cpu(1), missing.path(), codec()).unwrap_err();
    assert!(error.to_string().ends_with("no tokenizer.json in this folder"), "{error}");
    let unknown = folder(Shape::default());
    std::fs::remove_file(unknown.path().join("speak.yaml")).unwrap();
    let error = Speaker::open_in(&cpu(1), unknown.path(), codec()).unwrap_err();
    assert!(error.to_string().contains("the tokenizer is not Orpheus'"), "{error}");
    let other = Arc::new(Model::random(codec().config().clone(), 2).unwrap());
    let error = Speaker::open_in(&cpu(1), folder(Shape::default()).path(), other).unwrap_err();
    assert!(error.to_string().contains("this codec is"), "{error}");
}

#[test]
fn a_tokenizer_that_loses_letters_says_so() {
    let folder = folder(Shape::default());
    let path = folder.path().join("tokenizer.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let without = Tokenizer::from_json(&text.replace("\"q\":113,", "")).unwrap();
    assert!(without.encode("a bee").is_ok());
    let error = without.encode("a queen bee").unwrap_err();
    assert_eq!(error.to_string(), "the tokenizer has no tokens for a letter or digit of `queen`");
    let unknown = text.replace("\"q\":113,", "").replace("\"unk_token\":null", "\"unk_token\":\"z\"");
    let error = Tokenizer::from_json(&unknown).unwrap().encode("queen").unwrap_err();
    assert_eq!(error.to_string(), "the tokenizer has no tokens for a letter or digit of `q`");
    // A control token that the vocabulary can spell.
    let spelt = text.replace("\"id\":257", "\"id\":113");
    let error = Tokenizer::from_json(&spelt).unwrap().encode("queen").unwrap_err();
    assert_eq!(error.to_string(), "`q` would become a control token of the model");
    for cut in (0..text.len()).step_by(97).filter(|&cut| text.is_char_boundary(cut)) {
        assert!(Tokenizer::from_json(&text[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn damaged_weights_stop_the_text_that_meets_them() {
    let folder = folder(Shape::default());
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    // The last tensors are norms and products of the layers.
    let len = bytes.len();
    bytes[len - 2..].copy_from_slice(&[0xc0, 0x7f]);
    std::fs::write(&path, bytes).unwrap();
    let speaker = Speaker::open_in(&cpu(1), folder.path(), codec()).unwrap();
    let error = speak(&speaker, "Hi.", &defaults(&speaker)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("NaN"), "{error}");
    let script = speaker.script("Hi.", None, 0).unwrap();
    let mut n_failed = 0;
    let done = |(), said: Result<SpokenText>| {
        n_failed += usize::from(said.is_err());
        Ok(())
    };
    speaker.speak_all(vec![((), script.clone()), ((), script)], &defaults(&speaker).settings, done).unwrap();
    assert_eq!(n_failed, 2);
}

#[test]
fn orpheus_is_recognised_and_needs_its_codec() {
    let format = Format::orpheus();
    assert_eq!((format.before, format.after), (vec![128_259], vec![128_009, 128_260, 128_261, 128_257]));
    assert_eq!((format.speech, format.end), (128_266, 128_258));
    let sample = Format::orpheus().settings().sample;
    assert_eq!((sample.temperature, sample.top_p, sample.repetition_penalty), (0.6, 0.9, 1.1));
    let tokenizer = std::fs::read_to_string(folder(Shape::default()).path().join("tokenizer.json")).unwrap();
    let published = Tokenizer::from_json(&tokenizer.replace("\"id\":258", "\"id\":128256")).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let found = speak::Config::default().format_of(empty.path(), &published).unwrap();
    assert_eq!(found, Format::orpheus());
    let mini = Model::mini24().unwrap();
    let published = Model::random(Config { encoder_dim: 8, decoder_dim: 64, ..Config::snac_24khz() }, 1).unwrap();
    let tokens = Format::orpheus().tokens(156_940, &published).unwrap();
    assert_eq!((tokens.slot(6), tokens.code(128_266 + 4096 + 5)), (152_842..156_938, Some((1, 5))));
    assert_eq!((tokens.code(128_265), tokens.code(156_938)), (None, None));
    let error = Format::orpheus().tokens(156_940, &codec()).unwrap_err();
    assert_eq!(error.to_string(), "the codec has 7 slots of 16 codes; Orpheus has 7 of 4096");
    let error = Format::orpheus().tokens(156_937, &published).unwrap_err();
    assert_eq!(error.to_string(), "the format has the token 156937; the vocabulary has 156937");
    // With the built-in codec it would speak noise, unless the caller knows better.
    let error = Format::orpheus().tokens(156_940, &mini).unwrap_err();
    assert!(error.to_string().contains("with the built-in codec it speaks noise"), "{error}");
    assert_eq!(Remedy::of(&error)[0], Remedy::NameCodec);
    let known = Format { codec: Some(mini.hash().to_owned()), ..Format::orpheus() };
    assert!(known.tokens(156_940, &mini).is_ok());
}
