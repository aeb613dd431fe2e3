//! The built-in voice: opened without a folder, with its own codec only, and the same tokens on every instruction set.

use super::*;
use crate::config::{Origin, Raw, Section};
use crate::runtime::{Cpu, Isa};
use crate::{Budget, Device};

/// Frames of each text, so that the scalar code is done in seconds.
const N_FRAMES: usize = 3;
/// That of their tokens; only other weights change it.
const HASH: u64 = 0xd4a8_21cc_b143_a41e;
const SPOKEN: [&str; 3] = ["Good morning.", "The train leaves at a quarter past nine.", "Who is there?"];
/// Two pieces, whose prompts and speech fill many pages of the cache.
const LONG: &str = "The harbour wakes before the town does. Boats come in with the tide, and those who were out all \
                    night carry their baskets up the steps, while gulls wait on every roof for whatever falls. By noon \
                    the fish are sold, the ropes are dry, and children run along the wall on their way home. Nobody \
                    looks at the sea again until the evening, when the lamps are lit one by one along the whole quay.";

fn on(isa: Isa, threads: usize) -> Context {
    Context::on(Device::Cpu(Cpu { isa, threads }), Budget::unlimited()).unwrap()
}

fn voice(context: &Context) -> Speaker {
    let codec = Model::open_in(context, Speaker::codec_of(BUILTIN)).unwrap();
    Speaker::open_in(context, BUILTIN, Arc::new(codec)).unwrap()
}

/// Returns a hash (FNV-1a) of the first frames of all texts.
fn tokens(speaker: &Speaker) -> u64 {
    let mut codes = Vec::new();
    let delivery = drawn(speaker).into();
    for (seed, text) in SPOKEN.iter().enumerate() {
        let script = speaker.script(text, None, seed as u64).unwrap();
        let mut frames = Vec::new();
        for piece in speaker.speak(script, &delivery).unwrap() {
            frames.extend_from_slice(piece.unwrap().codes.frames().as_slice());
            if frames.len() >= 7 * N_FRAMES {
                break;
            }
        }
        codes.extend_from_slice(&frames[..7 * N_FRAMES]);
    }
    hash(&codes)
}

/// Returns the codes of whole texts in one batch.
fn together(speaker: &Speaker, texts: &[&str]) -> Vec<Vec<i32>> {
    let scripts = texts.iter().enumerate().map(|(seed, text)| (seed, speaker.script(text, None, seed as u64).unwrap()));
    let mut codes = vec![Vec::new(); texts.len()];
    let done = |seed: usize, spoken: Result<SpokenText>| {
        codes[seed] = spoken?.codes.frames().as_slice().to_vec();
        Ok(())
    };
    speaker.speak_all(scripts.collect(), &drawn(speaker), done).unwrap();
    codes
}

fn drawn(speaker: &Speaker) -> Settings {
    let sample = Sample { repetition_penalty: 1.0, temperature: 0.6, top_k: 50, top_p: 0.9, min_p: 0.0 };
    Settings { sample, ..speaker.format().settings() }
}

fn hash(codes: &[i32]) -> u64 {
    codes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &code| (hash ^ code as u64).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn a_text_has_the_same_tokens_on_every_instruction_set() {
    for isa in Isa::available() {
        for threads in [1, 2] {
            assert_eq!(tokens(&voice(&on(isa, threads))), HASH, "{isa:?}, {threads} threads");
        }
    }
}

#[test]
fn a_batch_has_the_same_tokens() {
    let codes = together(&voice(&cpu(2)), &SPOKEN);
    let first: Vec<&[i32]> = codes.iter().map(|codes| &codes[..7 * N_FRAMES]).collect();
    assert_eq!(hash(&first.concat()), HASH);
}

#[test]
#[ignore = "extended: a long text on every instruction set takes minutes"]
fn a_long_text_has_the_same_tokens_on_every_instruction_set_and_in_a_batch() {
    let mut expected = None;
    let alone = Isa::available().map(|isa| (isa, 2, 1));
    for (isa, threads, n) in alone.chain([(Isa::best(), 1, 3)]) {
        let speaker = voice(&on(isa, threads));
        assert_eq!(speaker.script(LONG, None, 0).unwrap().n_pieces(), 2);
        let found = hash(&together(&speaker, &[LONG; 3][..n])[0]);
        assert_eq!(*expected.get_or_insert(found), found, "{isa:?}, {threads} threads, a batch of {n}");
    }
}

#[test]
fn it_speaks_with_its_own_codec_only() {
    let context = cpu(1);
    let own = voice(&context);
    assert_eq!(own.folder().to_str(), Some("builtin:voice"));
    assert_eq!(own.format().codec.as_deref(), Some(own.codec().hash()));
    assert_eq!(Speaker::codec_of("voices/ann"), crate::snac::MINI24);
    let other = Arc::new(Model::mini24().unwrap());
    let error = Speaker::open_in(&context, BUILTIN, other).unwrap_err();
    assert!(error.to_string().starts_with("builtin:voice: this codec is "), "{error}");
    assert_eq!(error.hint().unwrap(), "it speaks with builtin:solo24: name no other codec");
    assert_eq!(own.hash(1).unwrap(), voice(&context).hash(1).unwrap());
}

#[test]
fn settings_for_another_model_change_neither_its_prompts_nor_its_codec() {
    let context = cpu(1);
    let own = voice(&context);
    let mut config = speak::Config::default();
    for (key, word) in [("voices", "ann,bob"), ("speech", "9"), ("end", "8"), ("codec", "00"), ("temperature", "0.25")]
    {
        config.set(&format!("speak.{key}"), &Raw::Word(word.to_owned()), Origin::Flag("--flag")).unwrap();
    }
    let opening = Opening::default().with_config(config);
    let other = Speaker::open_as_in(&context, BUILTIN, Arc::clone(own.codec()), opening).unwrap();
    assert_eq!(other.format().settings().sample.temperature, 0.25);
    let prompts = |speaker: &Speaker| {
        let format = speaker.format();
        (format.voices.clone(), format.prompt.clone(), format.speech, format.end, format.codec.clone())
    };
    assert_eq!(prompts(&other), prompts(&own));
}

#[test]
fn its_weights_are_counted() {
    let budget = Budget::unlimited();
    let context = Context::on(Device::cpu().unwrap(), budget.clone()).unwrap();
    let needed = llama::Model::needed(BUILTIN, context.device()).host;
    let model = llama::Model::open_in(&context, BUILTIN).unwrap();
    let used = budget.usage(Space::Host);
    // Each matrix is in whole pages. The decoded files are gone once the model is open.
    for (used, needed) in [(used.peak, needed), (used.now, needed / 2)] {
        assert!(used >= needed - needed / 50 && used <= needed + needed / 10, "{used} of {needed}");
    }
    drop(model);
}
