//! The reference model against vectors of the original implementation.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the test's message")]

use std::path::PathBuf;
use std::sync::Arc;

use melisma::audio::wav;
use melisma::snac::checkpoint::Checkpoint;
use melisma::snac::{Codes, Model, Noise};
use safetensors::SafeTensors;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file(path: &str) -> Vec<u8> {
    std::fs::read(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn model(name: &str) -> Model {
    Model::open(repository().join("golden/snac").join(name).to_str().unwrap()).unwrap()
}

struct Vectors(Vec<u8>);

impl Vectors {
    fn open(name: &str) -> Self {
        Self(file(&format!("golden/snac/{name}/vectors.safetensors")))
    }

    /// Item `item` of the batch.
    fn item<T>(&self, name: &str, item: usize, element: fn([u8; 4]) -> T) -> Vec<T> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors.tensor(name).unwrap();
        let values: Vec<T> = tensor.data().as_chunks().0.iter().map(|&bytes| element(bytes)).collect();
        let len = values.len() / tensor.shape()[0];
        values.into_iter().skip(item * len).take(len).collect()
    }

    fn floats(&self, name: &str, item: usize) -> Vec<f32> {
        self.item(name, item, f32::from_le_bytes)
    }

    fn codes(&self, prefix: &str, item: usize, model: &Model) -> Codes {
        let levels = 0..model.config().vq_strides.len();
        let levels = levels.map(|level| self.item(&format!("{prefix}.{level}"), item, i32::from_le_bytes));
        Codes::new(model.config(), levels.collect()).unwrap()
    }
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn largest(a: &[f32]) -> f32 {
    a.iter().fold(0.0, |max, x| max.max(x.abs()))
}

fn decoded_matches(name: &str) {
    let (model, vectors) = (model(name), Vectors::open(name));
    for item in 0..2 {
        let codes = vectors.codes("codes", item, &model);
        let given: Vec<Vec<f32>> = (0..4).map(|block| vectors.floats(&format!("noise.{block}"), item)).collect();
        let levels: Vec<&[i32]> = codes.levels().iter().map(Vec::as_slice).collect();
        let expected = vectors.floats("z_q", item);
        let error = worst(model.quantizer().decode(&levels).data(), &expected) / largest(&expected);
        println!("{name} item {item}: z_q {error:e} relative");
        assert!(error < 1e-5);
        for (noise, key) in [(Noise::Off, "decoded_noise_off"), (Noise::Given(Arc::from(given)), "decoded_noise_given")]
        {
            let expected = vectors.floats(key, item);
            let error = worst(&model.decode(&codes, &noise), &expected);
            println!("{name} item {item}: {key} {error:e} of full scale, peak {}", largest(&expected));
            assert!(error < 1e-4, "{key}: {error}");
        }
    }
}

fn encoded_matches(name: &str) {
    let (model, vectors) = (model(name), Vectors::open(name));
    let audio = vectors.floats("audio", 0);
    let expected = vectors.floats("latent", 0);
    let latents = model.latents(&audio);
    let error = worst(latents.data(), &expected) / largest(&expected);
    println!("{name}: latents {error:e} relative");
    assert!(error < 1e-3);
    let (codes, expected) = (model.encode(&audio).unwrap(), vectors.codes("encoded", 0, &model));
    for (level, (codes, expected)) in codes.levels().iter().zip(expected.levels()).enumerate() {
        let n_other = codes.iter().zip(expected).filter(|(a, b)| a != b).count();
        println!("{name}: level {level}: {n_other} of {} codes differ", codes.len());
        assert_eq!(codes, expected, "level {level}");
    }
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
        let bytes = ["model.safetensors", "pytorch_model.bin"]
            .map(|file_name| file(&format!("golden/snac/{name}/{file_name}")));
        let [a, b] = bytes.each_ref().map(|bytes| Checkpoint::read(bytes).unwrap());
        assert!(a.names().eq(b.names()));
        for name in a.names() {
            let (a, b) = (a.get(name).unwrap(), b.get(name).unwrap());
            assert_eq!((&a.shape, a.dtype), (&b.shape, b.dtype), "{name}");
            assert_eq!(a.to_f32().unwrap(), b.to_f32().unwrap(), "{name}");
        }
        let config = file(&format!("golden/snac/{name}/config.json"));
        let [a, b] = bytes.each_ref().map(|bytes| Model::from_bytes(&config, bytes).unwrap());
        assert_eq!(a.hash(), b.hash());
    }
}

/// The file has 16 bits: its writer may be off by one step of 2^-15, and decoding itself by 1e-4.
#[test]
fn mini24_decodes_its_sample() {
    let model = Model::open("builtin:mini24").unwrap();
    let text = String::from_utf8(file("models/mini24/sample_tokens.txt")).unwrap();
    let numbers =
        text.split("<custom_token_").skip(1).map(|rest| rest.split('>').next().unwrap().parse::<i32>().unwrap());
    let frames: Vec<i32> = numbers.enumerate().map(|(i, n)| n - 10 - 4096 * (i as i32 % 7)).collect();
    let codes = Codes::from_frames(model.config(), &frames).unwrap();
    assert_eq!(codes.n_frames(), 66);
    let start = std::time::Instant::now();
    let samples = model.decode(&codes, &Noise::Off);
    let seconds = start.elapsed().as_secs_f64();
    let expected = file("models/mini24/sample_decoded.wav");
    let expected = wav::read(&expected).unwrap().to_clip();
    let error = worst(&samples, &expected.samples);
    println!("mini24: {error:e} of full scale, {:.2} s of sound in {seconds:.2} s", expected.seconds());
    assert!(error < 1e-4 + 1.0 / 32_768.0, "{error}");
}

/// Near ties may fall the other way where sines round differently: at most one code in a hundred.
#[test]
fn mini24_encodes_its_sample() {
    let model = Model::open("builtin:mini24").unwrap();
    let sound = file("models/mini24/sample.wav");
    let codes = model.encode(&wav::read(&sound).unwrap().to_clip().samples).unwrap();
    let text = String::from_utf8(file("models/mini24/sample_tokens.txt")).unwrap();
    let numbers =
        text.split("<custom_token_").skip(1).map(|rest| rest.split('>').next().unwrap().parse::<i32>().unwrap());
    let expected: Vec<i32> = numbers.enumerate().map(|(i, n)| n - 10 - 4096 * (i as i32 % 7)).collect();
    let frames = codes.to_frames(model.config());
    assert_eq!(frames.len(), expected.len());
    let n_other = frames.iter().zip(&expected).filter(|(a, b)| a != b).count();
    println!("mini24: {n_other} of {} codes differ", expected.len());
    assert!(n_other * 100 < expected.len(), "{n_other} of {}", expected.len());
}
