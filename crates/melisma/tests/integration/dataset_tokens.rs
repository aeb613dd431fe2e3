//! Tokens as a dataset: the codes of each file alone, on every device, in little memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::Context;
use melisma::Existing;
use melisma::audio::{Clip, wav};
use melisma::dataset::store::Store;
use melisma::dataset::{Inputs, Outcome, Request, Tokens, verify};
use melisma::random::Lcg32;
use melisma::runtime::device::Device;
use melisma::runtime::memory::{Budget, Space};
use melisma::snac::{Config, EncodeEngine, EngineOptions, Model};

use crate::gpu;

/// A model with the shape of the 24 kHz one, and few channels.
pub fn model() -> Arc<Model> {
    let mut config = Config::snac_24khz();
    (config.encoder_dim, config.decoder_dim) = (8, 64);
    config.codebook_size = 64;
    Arc::new(Model::random(config, 1).unwrap())
}

pub fn sound(seed: u32, n: usize) -> Vec<f32> {
    let mut random = Lcg32::new(seed + 1);
    (0..n).map(|_| random.signed() / 4.0).collect()
}

pub fn corpus(folder: &Path, lengths: &[usize]) -> PathBuf {
    let place = folder.join("w");
    std::fs::create_dir(&place).unwrap();
    for (index, &n) in lengths.iter().enumerate() {
        let clip = Clip::mono(24_000, sound(index as u32, n));
        std::fs::write(place.join(format!("{index:05}.wav")), wav::encode(&clip, wav::SampleFormat::F32).unwrap())
            .unwrap();
    }
    place
}

fn run(device: &Device, budget: &Budget, files: &Path, threads: usize) -> (Outcome, PathBuf) {
    let output = files.with_file_name("out.safetensors");
    let inputs = Inputs::find(&[files.to_owned()]).unwrap();
    let tokens = Tokens::new(model());
    let context = Context::on(device.clone(), budget.clone()).unwrap();
    let request = Request::new_in(&context, &inputs, &output, tokens).with_existing(Existing::Replace);
    let outcome = request.with_threads(threads).build().unwrap();
    verify(&output, 1, &Budget::unlimited()).unwrap().check().unwrap();
    (outcome, output)
}

fn codes(path: &Path) -> Vec<i32> {
    let store = Store::open(path).unwrap();
    let column = store.layout.column("codes").unwrap();
    let n = store.layout.len(&store.layout.columns[column]) as usize * store.layout.columns[column].row_bytes();
    let mut bytes = vec![0; n];
    store.read(column, 0, &mut bytes).unwrap();
    bytes.chunks(2).map(|pair| i32::from(u16::from_le_bytes([pair[0], pair[1]]))).collect()
}

const LENGTHS: [usize; 9] = [1, 2047, 2048, 2049, 40_000, 5000, 16_384, 33_000, 70_001];

fn equals_each_file_alone(device: &Device, lengths: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    let place = corpus(folder.path(), lengths);
    let budget = Budget::unlimited();
    let n_bad = gpu::cases(5_000, 30_000);
    let mut floats = sound(77, n_bad);
    floats[n_bad - 1_000] = f32::NAN;
    let bad = wav::encode(&Clip::mono(24_000, floats), wav::SampleFormat::F32).unwrap();
    std::fs::write(place.join("00001b.wav"), bad).unwrap();
    let mut engine =
        EncodeEngine::new(&model(), &device.queue(&budget).unwrap(), &budget, EngineOptions::new(1)).unwrap();
    let mut expected = Vec::new();
    for (index, &n) in lengths.iter().enumerate() {
        expected.extend_from_slice(engine.encode(&sound(index as u32, n)).unwrap().frames().as_slice());
        if index == 1 {
            expected.extend(vec![0; 7 * n_bad.div_ceil(2048)]);
        }
    }
    for threads in [1, 3].into_iter().take(gpu::cases(1, 2)) {
        let (outcome, path) = run(device, &budget, &place, threads);
        assert_eq!((outcome.files_ok, outcome.files_failed()), (lengths.len(), 1));
        assert_eq!(outcome.failures[0].path, "00001b.wav");
        assert!(codes(&path) == expected, "{threads} threads");
    }
}

#[test]
fn rows_equal_each_file_alone() {
    equals_each_file_alone(&Device::cpu().unwrap(), &LENGTHS);
}

#[test]
fn rows_equal_each_file_alone_cuda() {
    let Some(device) = gpu::find() else { return };
    equals_each_file_alone(&device, &LENGTHS[..gpu::cases(2, LENGTHS.len())]);
}

#[test]
fn memory_does_not_grow_with_the_length_of_files() {
    let device = Device::cpu().unwrap();
    let peaks = [4, 40].map(|n_frames| {
        let folder = tempfile::tempdir().unwrap();
        let place = corpus(folder.path(), &[n_frames * 2048; 3]);
        let budget = Budget::unlimited();
        run(&device, &budget, &place, 2);
        budget.usage(Space::Host).peak
    });
    assert_eq!(peaks[0], peaks[1]);
}

#[test]
fn memory_grows_by_at_most_300_bytes_a_file() {
    let device = Device::cpu().unwrap();
    let (few, many) = (10, 150);
    let peaks = [few, many].map(|n_files| {
        let folder = tempfile::tempdir().unwrap();
        let place = corpus(folder.path(), &vec![1; n_files]);
        let budget = Budget::unlimited();
        run(&device, &budget, &place, 2);
        budget.usage(Space::Host).peak
    });
    assert!(peaks[1] > peaks[0] && peaks[1] - peaks[0] <= 300 * (many - few) as u64, "{peaks:?}");
}
