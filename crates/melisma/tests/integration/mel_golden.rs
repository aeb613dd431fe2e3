//! Every preset against the numbers of torchaudio 2.11 and librosa 0.11.

use half::f16;
use melisma::Context;
use melisma::audio::wav;
use melisma::mel::{Allowed, Config, KEYS, Log, Transform, Values};
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::runtime::{Cpu, Isa};
use safetensors::SafeTensors;

use crate::gpu;
use crate::repository;

/// Largest difference of a linear preset, of the largest value.
const LINEAR: f64 = 1e-4;
/// Largest difference of a logarithmic preset, above its floor.
const LOGARITHMIC: f64 = 1e-3;

struct Golden {
    sound: Vec<f32>,
    expected: Vec<f64>,
    is_half: bool,
}

fn golden(name: &str, rate: u32) -> Golden {
    let sound = std::fs::read(match rate {
        16_000 => repository::path("golden/mel/input_16000.wav"),
        _ => repository::path("golden/mel/input_22050.wav"),
    });
    let expected = std::fs::read(repository::path("golden/mel/expected.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&expected).unwrap();
    let tensor = tensors.tensor(name).unwrap();
    let is_half = tensor.dtype() == safetensors::Dtype::F16;
    let expected = match is_half {
        true => tensor.data().as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f64()).collect(),
        false => tensor.data().as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect(),
    };
    Golden { sound: wav::decode(&sound.unwrap()).unwrap().to_clip().samples, expected, is_half }
}

#[test]
fn the_documentation_names_every_key() {
    let page = std::fs::read_to_string(repository::path("docs/dataset-format.md")).unwrap();
    for key in KEYS {
        let words: Vec<&str> = if let Allowed::OneOf(words) = key.allowed { words.to_vec() } else { Vec::new() };
        let line = page.lines().find(|line| line.starts_with(&format!("| `{}` | {} |", key.name, key.meaning)));
        let line = line.unwrap_or_else(|| panic!("{} is not explained", key.name));
        assert!(words.iter().all(|word| line.contains(&format!("`{word}`"))), "{line}");
    }
}

/// The preset with changes, and the golden tensor that it must give.
fn cases() -> Vec<(Config, &'static str)> {
    let config = |preset: &str, changes: &[&str]| {
        let mut config = Config::preset(preset).unwrap();
        changes.iter().for_each(|change| config.set(change).unwrap());
        config
    };
    vec![
        (config("builder", &[]), "builder_22k_1024_256_80_log10x20_f16"),
        (config("torchaudio", &[]), "torchaudio_16k_default"),
        (
            config("torchaudio", &["sample_rate=22050", "n_fft=1024", "hop_length=256", "n_mels=80"]),
            "torchaudio_22k_1024_256_80",
        ),
        (config("librosa", &["padding=reflect"]), "torchaudio_22k_slaney_2048_512_128"),
        (config("librosa", &[]), "librosa_22k_default"),
        (config("librosa-db", &[]), "librosa_22k_default_db"),
        (config("whisper-80", &[]), "whisper_80"),
        (config("whisper-128", &[]), "whisper_128"),
        (config("kaldi-fbank", &[]), "kaldi_fbank_80"),
        (config("hifigan", &[]), "hifigan_22k_80"),
    ]
}

/// Every instruction set.
fn cpus() -> impl Iterator<Item = Device> {
    Isa::available().map(|isa| Device::Cpu(Cpu { isa, threads: 2 }))
}

/// The least value that a logarithmic preset can give.
fn floor(config: &Config) -> f64 {
    let log = if config.log == Log::Ln { config.floor.ln() } else { config.floor.log10() };
    config.multiplier * log + config.offset
}

fn every_preset_gives_the_numbers_of_its_library(device: &Device) {
    let context = Context::on(device.clone(), Budget::unlimited()).unwrap();
    for (config, name) in cases() {
        let golden = golden(name, config.sample_rate);
        let transform = Transform::new_in(&context, config.clone()).unwrap();
        let found = transform.run(&golden.sound).unwrap();
        let values = found.values.to_f32();
        assert_eq!(values.len(), golden.expected.len(), "{name}: {:?}", found.shape);
        let largest = golden.expected.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        for (index, (&found, &expected)) in values.iter().zip(&golden.expected).enumerate() {
            let difference = (f64::from(found) - expected).abs();
            let limit = match config.log {
                Log::None => LINEAR * largest,
                // Near zero half precision is finer than the tolerance of single precision.
                _ if golden.is_half => ulp(expected as f32).max(LOGARITHMIC),
                _ => LOGARITHMIC,
            };
            let is_floor = config.log != Log::None && expected <= floor(&config) + 1e-6;
            assert!(difference <= limit || is_floor, "{name}[{index}]: {found}, not {expected}");
        }
    }
}

#[test]
fn every_preset_gives_the_numbers_of_its_library_on_the_cpu() {
    cpus().for_each(|device| every_preset_gives_the_numbers_of_its_library(&device));
}

#[test]
fn every_preset_gives_the_numbers_of_its_library_on_cuda() {
    gpu::find().iter().for_each(every_preset_gives_the_numbers_of_its_library);
}

/// The distance between neighbouring half-precision numbers at `value`.
fn ulp(value: f32) -> f64 {
    let half = f16::from_f32(value.abs());
    f64::from(f16::from_bits(half.to_bits() + 1).to_f32() - half.to_f32())
}

fn our_error_is_no_larger_than_that_of_the_library(devices: &[Device]) {
    for (config, name) in cases() {
        let golden = golden(name, config.sample_rate);
        let wide: Vec<f64> = golden.sound.iter().map(|&x| f64::from(x)).collect();
        let exact = config.reference(&wide).unwrap();
        let theirs = error(golden.expected.iter().copied(), &exact);
        // librosa transforms in f64.
        let allowed = if name.starts_with("librosa") { 2.0 * theirs } else { theirs };
        let mut single = config.clone();
        single.dtype = melisma::mel::OutputPrecision::F32;
        for device in devices {
            let context = Context::on(device.clone(), Budget::unlimited()).unwrap();
            let found = Transform::new_in(&context, single.clone()).unwrap().run(&golden.sound).unwrap().values;
            let ours = error(found.to_f32().iter().map(|&x| f64::from(x)), &exact);
            println!("{name} on {device}: ours {ours:.2e}, theirs {theirs:.2e}");
            assert!(ours <= allowed, "{name} on {device}: ours {ours:e}, theirs {theirs:e}");
        }
    }
}

#[test]
fn our_error_is_no_larger_than_that_of_the_library_on_the_cpu() {
    our_error_is_no_larger_than_that_of_the_library(&cpus().collect::<Vec<_>>());
}

#[test]
fn our_error_is_no_larger_than_that_of_the_library_on_cuda() {
    our_error_is_no_larger_than_that_of_the_library(gpu::find().as_slice());
}

fn error(found: impl Iterator<Item = f64>, exact: &[f64]) -> f64 {
    found.zip(exact).map(|(found, exact)| (found - exact).abs()).fold(0.0, f64::max)
}

#[test]
fn half_precision_is_the_rounded_single_precision() {
    let sound = golden("builder_22k_1024_256_80_log10x20_f16", 22_050).sound;
    let run = |dtype: &str| {
        let mut config = Config::preset("builder").unwrap();
        config.set(dtype).unwrap();
        Transform::new(config).unwrap().run(&sound).unwrap().values
    };
    let (Values::F16(half), Values::F32(single)) = (run("dtype=f16"), run("dtype=f32")) else { panic!("other types") };
    assert_eq!(half, single.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>());
}
