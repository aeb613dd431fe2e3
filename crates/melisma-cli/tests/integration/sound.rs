//! Audio files, and the rows of datasets, for tests.

use std::path::Path;

use melisma::audio::Clip;
use melisma::audio::wav::{SampleFormat, encode};
use melisma::dataset::store::Store;
use melisma::random::Lcg64;

/// A tone in noise, the same on every machine.
pub fn noise(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Lcg64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
    (0..n).map(|i| 0.3 * (i as f32 * (0.01 + seed as f32 * 0.003)).sin() + 0.2 * (random.unit() - 0.5)).collect()
}

pub fn wav(sample_rate: u32, samples: &[f32]) -> Vec<u8> {
    encode(&Clip::mono(sample_rate, samples.to_vec()), SampleFormat::S16).unwrap()
}

pub fn wav_f32(sample_rate: u32, samples: &[f32]) -> Vec<u8> {
    encode(&Clip::mono(sample_rate, samples.to_vec()), SampleFormat::F32).unwrap()
}

#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub path: String,
    pub start: i64,
    pub status: u8,
    pub checksum: u64,
    pub is_zero: bool,
}

/// All rows of a dataset, whose structure is checked on the way.
pub fn rows(path: &Path) -> Vec<Row> {
    let store = Store::open(path).unwrap();
    let layout = &store.layout;
    let read = |name: &str, row: u64| {
        let column = layout.column(name).unwrap();
        let mut bytes = vec![0; layout.columns[column].row_bytes()];
        store.read(column, row, &mut bytes).unwrap();
        bytes
    };
    let row = |row: u64| Row {
        path: String::from_utf8(read("path", row)).unwrap().trim_end_matches('\0').to_owned(),
        start: i64::from_le_bytes(read("start_sample", row).try_into().unwrap()),
        status: read("status", row)[0],
        checksum: u64::from_le_bytes(read("checksum", row).try_into().unwrap()),
        is_zero: read("mel", row).iter().all(|&byte| byte == 0),
    };
    (0..layout.n_rows).map(row).collect()
}
