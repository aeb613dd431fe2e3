//! The reference model against vectors of the original implementation.

use std::sync::Arc;

use melisma::Budget;
use melisma::audio::wav;
use melisma::format::checkpoint::Checkpoint;
use melisma::snac::tokens::{Format, Ledger, Reader};
use melisma::snac::{Codes, Model, Noise, reference};

use crate::codec::{Vectors, file, golden, read, worst};
use crate::repository;

fn largest(a: &[f32]) -> f32 {
    a.iter().fold(0.0, |max, x| max.max(x.abs()))
}

fn decoded_matches(name: &str) {
    let (model, vectors) = (golden(name), Vectors::open(name));
    for item in 0..2 {
        let codes = vectors.codes("codes", item, &model);
        let given = Noise::Given(Arc::from(vectors.noise(item)));
        let expected = vectors.floats("z_q", item);
        let error = worst(reference::quantizer(&model).decode(&codes.levels()).data(), &expected) / largest(&expected);
        println!("{name} item {item}: z_q {error:e} relative");
        assert!(error < 1e-5);
        for (noise, key) in [(Noise::Off, "decoded_noise_off"), (given, "decoded_noise_given")] {
            let expected = vectors.floats(key, item);
            let error = worst(&reference::decode(&model, &codes, &noise), &expected);
            println!("{name} item {item}: {key} {error:e} of full scale, peak {}", largest(&expected));
            assert!(error < 1e-4, "{key}: {error}");
        }
    }
}

fn encoded_matches(name: &str) {
    let (model, vectors) = (golden(name), Vectors::open(name));
    let audio = vectors.floats("audio", 0);
    let expected = vectors.floats("latent", 0);
    let latents = reference::latents(&model, &audio);
    let error = worst(latents.data(), &expected) / largest(&expected);
    println!("{name}: latents {error:e} relative");
    assert!(error < 1e-3);
    let expected = vectors.codes("encoded", 0, &model);
    let n_ties = near_ties(&model, &audio, &expected);
    println!("{name}: {n_ties} frames differ at near ties");
    assert_eq!(reference::encode(&model, &audio).unwrap().n_frames(), expected.n_frames());
}

/// Frames whose codes differ from the expected ones. The first code to differ in a frame, coarse before fine, must be a
/// near tie; finer levels follow it.
fn near_ties(model: &Model, audio: &[f32], expected: &Codes) -> usize {
    let choices = reference::quantizer(model).encode(&reference::latents(model, audio));
    let levels = expected.levels();
    let differs = |frame: usize| {
        choices.iter().zip(&levels).any(|(choices, codes)| {
            let per_frame = codes.len() / expected.n_frames();
            let range = frame * per_frame..(frame + 1) * per_frame;
            let other = range.into_iter().find(|&at| choices[at].code != codes[at]);
            other.is_some_and(|at| {
                assert!(choices[at].margin < 1e-4, "frame {frame}: {:?}, expected {}", choices[at], codes[at]);
                true
            })
        })
    };
    (0..expected.n_frames()).filter(|&frame| differs(frame)).count()
}

#[test]
fn tiny24_decodes() {
    decoded_matches("tiny24");
}

#[test]
fn tiny44_decodes_with_attention() {
    decoded_matches("tiny44");
}

#[test]
fn tiny24_encodes() {
    encoded_matches("tiny24");
}

#[test]
fn tiny44_encodes_with_attention() {
    encoded_matches("tiny44");
}

#[test]
fn both_files_hold_the_same_tensors() {
    for name in ["tiny24", "tiny44"] {
        let bytes = ["model.safetensors", "pytorch_model.bin"].map(|file_name| file(name, file_name));
        let [a, b] = bytes.each_ref().map(|bytes| Checkpoint::read(bytes).unwrap());
        assert!(a.names().eq(b.names()));
        for name in a.names() {
            let (a, b) = (a.get(name).unwrap(), b.get(name).unwrap());
            assert_eq!((&a.shape, a.dtype), (&b.shape, b.dtype), "{name}");
            assert_eq!(a.to_f32().unwrap(), b.to_f32().unwrap(), "{name}");
        }
        let config = file(name, "config.json");
        let [a, b] = bytes.each_ref().map(|bytes| Model::from_bytes(&config, bytes, &Budget::unlimited()).unwrap());
        assert_eq!(a.hash(), b.hash());
    }
}

/// The file has 16 bits: its writer may be off by one step of 2^-15, and decoding itself by 1e-4.
#[test]
fn mini24_decodes_its_sample() {
    let model = Model::mini24().unwrap();
    let codes = sample_codes(&model);
    let start = std::time::Instant::now();
    let samples = reference::decode(&model, &codes, &Noise::Off);
    let seconds = start.elapsed().as_secs_f64();
    let expected = read(&repository::path("crates/melisma-models/mini24/sample_decoded.wav"));
    let expected = wav::decode(&expected).unwrap().to_clip();
    let error = worst(&samples, &expected.samples);
    println!("mini24: {error:e} of full scale, {:.2} s of sound in {seconds:.2} s", expected.seconds());
    assert!(error < 1e-4 + 1.0 / 32_768.0, "{error}");
}

#[test]
fn mini24_encodes_its_sample() {
    let model = Model::mini24().unwrap();
    let sound = read(&repository::path("crates/melisma-models/mini24/sample.wav"));
    let samples = wav::decode(&sound).unwrap().to_clip().samples;
    let n_ties = near_ties(&model, &samples, &sample_codes(&model));
    println!("mini24: {n_ties} of 66 frames differ at near ties");
    assert!(n_ties <= 2);
}

fn sample_codes(model: &Model) -> Codes {
    let mut reader = Reader::new(Format::Auto, model.config()).unwrap();
    let mut codes = reader.push(&read(&repository::path("crates/melisma-models/mini24/sample_tokens.txt"))).unwrap();
    codes.append(reader.finish().unwrap().frames()).unwrap();
    let mut expected = Ledger::default();
    (expected.accepted, expected.frames) = (66 * 7, 66);
    assert_eq!(reader.ledger(), expected);
    codes
}
