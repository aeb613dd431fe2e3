//! Models, codes and golden vectors that the tests of SNAC share.

use std::path::Path;

use melisma::runtime::memory::Needed;
use melisma::runtime::{Cpu, Isa, Space};
use melisma::snac::{Codes, Config, Model};
use melisma::{Budget, Device, Queue};
use safetensors::SafeTensors;

use crate::repository;

/// A queue of the CPU.
pub fn queue(isa: Isa, threads: usize) -> Queue {
    Device::Cpu(Cpu { isa, threads }).queue(&Budget::unlimited()).unwrap()
}

/// Checks that the peak memory of `work` is `needed`.
pub fn check_needed(device: &Device, needed: Needed, work: impl FnOnce(&Queue, &Budget)) {
    let budget = Budget::unlimited();
    work(&device.queue(&budget).unwrap(), &budget);
    let peak = |space| budget.usage(space).peak;
    // The slot of zeros is freed before anything else is pageable, and pinned memory stays.
    let found = Needed { host: peak(Space::Host) + peak(Space::Pinned), device: peak(Space::Device) };
    assert_eq!(found, needed, "{device}");
}

/// The bytes of a golden file.
pub fn file(model: &str, part: &str) -> Vec<u8> {
    read(&repository::path("golden/snac").join(model).join(part))
}

/// The bytes of the file at `path`.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A golden model, from its bytes: no file is opened by a path that only this machine has.
pub fn golden(name: &str) -> Model {
    let (config, weights) = (file(name, "config.json"), file(name, "model.safetensors"));
    Model::from_bytes(&config, &weights, &Budget::unlimited()).unwrap()
}

/// A small model with odd rates and no noise.
pub fn odd_rates(decoder_dim: usize) -> Config {
    let mut config = Config::snac_24khz();
    (config.encoder_dim, config.encoder_rates) = (4, vec![3, 1, 5]);
    (config.decoder_dim, config.decoder_rates) = (decoder_dim, vec![5, 1, 3]);
    config.vq_strides = vec![6, 3, 2];
    config.noise = false;
    config
}

/// Frames of codes that differ from seed to seed.
pub fn codes(model: &Model, n_frames: usize, seed: u32) -> Codes {
    let n = n_frames * model.config().n_slots();
    let frames: Vec<i32> =
        (0..n as u32).map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 20) as i32 % 4096).collect();
    Codes::from_frames(model.config(), &frames).unwrap()
}

pub fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|sample| sample.to_bits()).collect()
}

/// The largest difference.
pub fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// What the original implementation computed for a golden model.
pub struct Vectors(Vec<u8>);

impl Vectors {
    pub fn open(name: &str) -> Self {
        Self(file(name, "vectors.safetensors"))
    }

    /// Item `item` of the batch.
    fn item<T>(&self, name: &str, item: usize, element: fn([u8; 4]) -> T) -> Vec<T> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors.tensor(name).unwrap();
        let values: Vec<T> = tensor.data().as_chunks().0.iter().map(|&bytes| element(bytes)).collect();
        let len = values.len() / tensor.shape()[0];
        values.into_iter().skip(item * len).take(len).collect()
    }

    pub fn floats(&self, name: &str, item: usize) -> Vec<f32> {
        self.item(name, item, f32::from_le_bytes)
    }

    pub fn codes(&self, prefix: &str, item: usize, model: &Model) -> Codes {
        let levels = 0..model.config().vq_strides.len();
        let levels = levels.map(|level| self.item(&format!("{prefix}.{level}"), item, i32::from_le_bytes));
        Codes::new(model.config(), levels.collect()).unwrap()
    }

    /// The deviates of the four noise blocks.
    pub fn noise(&self, item: usize) -> Vec<Vec<f32>> {
        (0..4).map(|block| self.floats(&format!("noise.{block}"), item)).collect()
    }
}

/// Tones and noise that differ from seed to seed.
pub fn sound(len: usize, seed: u32) -> Vec<f32> {
    let sample = |n: usize| {
        let noise = ((n as u32 ^ seed.wrapping_mul(40_503)).wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0;
        let time = n as f32 * (0.02 + 0.01 * seed as f32);
        0.4 * time.sin() + 0.2 * (3.3 * time).sin() + 0.1 * (noise - 0.5)
    };
    (0..len).map(sample).collect()
}
