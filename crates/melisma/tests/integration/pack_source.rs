//! Safetensors files made for tests.

use std::fmt::Write;
use std::sync::LazyLock;

use melisma::Budget;
use melisma::pack::{Archive, Header, Options};
use melisma::random::SplitMix64;

pub static UNLIMITED: LazyLock<Budget> = LazyLock::new(Budget::unlimited);

/// Options without a memory limit.
pub fn options() -> Options<'static> {
    Options::new(&UNLIMITED)
}

/// Random weights and bytes.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// About normal, of standard deviation 0.02.
    pub fn weight(&mut self) -> f32 {
        let sum: f32 = (0..12).map(|_| self.0.unit() - 0.5).sum();
        sum * 0.02
    }

    pub fn bf16(&mut self, n: usize) -> Vec<u8> {
        (0..n).flat_map(|_| half::bf16::from_f32(self.weight()).to_le_bytes()).collect()
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits() as u8).collect()
    }
}

/// A tensor: name, type, shape, bytes.
pub type Tensor<'a> = (&'a str, &'a str, &'a [u64], Vec<u8>);

/// A file of these tensors in order, with metadata and odd spacing that must survive.
pub fn file(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let mut json = String::from(r#"{ "__metadata__" : {"format":"pt", "note":"ünïcode"}"#);
    let mut at = 0;
    for (name, dtype, shape, bytes) in tensors {
        let end = at + bytes.len();
        write!(json, r#", "{name}": {{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{at},{end}]}}"#).unwrap();
        at = end;
    }
    json.push_str("}  \n");
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(json.as_bytes());
    tensors.iter().for_each(|(_, _, _, bytes)| file.extend_from_slice(bytes));
    file
}

/// The source of `golden/pack/v1_0_modes.packed.safetensors`: every split, every mode, one, two and four slices.
pub fn golden() -> Vec<u8> {
    let mut random = Random::new(2026);
    let mut few =
        |n: usize, mask: u64| -> Vec<u8> { (0..n).map(|_| (random.bits() & random.bits() & mask) as u8).collect() };
    let tensors: &[Tensor<'_>] = &[
        ("four slices of pairs", "U8", &[131_100], few(131_100, 7)),
        ("two slices of bytes", "I8", &[33, 1000], few(33_000, 0x3f)),
        ("integers", "I32", &[90, 11], few(3960, 3)),
        ("halves", "F16", &[1001], few(2002, 15)),
        ("doubles", "F64", &[301], few(2408, 31)),
        ("constant", "F32", &[5, 600], [0, 0, 128, 63].repeat(3000)),
        ("empty", "BF16", &[0], vec![]),
        ("scalar", "I64", &[], vec![1, 2, 3, 4, 5, 6, 7, 8]),
        ("noise", "U8", &[500], random.bytes(500)),
        ("weights", "BF16", &[20, 70], random.bf16(1400)),
        ("floats", "F32", &[900], (0..900).flat_map(|_| random.weight().to_le_bytes()).collect()),
    ];
    file(tensors)
}

/// Reads all tensors at once, the last one first, each into memory of its own.
pub fn assert_reads_into_slices(archive: &Archive<'_>, source: &[u8]) {
    let header = Header::read(&source).unwrap();
    let mut out: Vec<Vec<u8>> = header.tensors.iter().map(|entry| vec![9; entry.len() as usize]).collect();
    let targets = header.tensors.iter().map(|entry| entry.name.as_str()).zip(out.iter_mut().map(Vec::as_mut_slice));
    archive.unpack_into(targets.rev().collect(), 2).unwrap();
    for (entry, out) in header.tensors.iter().zip(&out) {
        let [start, end] = entry.bytes.map(|at| (header.len + at) as usize);
        assert!(*out == source[start..end], "{}", entry.name);
    }
    archive.unpack_into(Vec::new(), 2).unwrap();
    let error = archive.unpack_into(vec![("matrix", &mut [0; 3])], 2).unwrap_err();
    assert!(error.to_string().contains("matrix: 3 bytes for a tensor of "), "{error}");
    let mut twice = [0, 0].map(|byte| vec![byte; header.get("matrix").unwrap().len() as usize]);
    let targets = twice.iter_mut().map(|out| ("matrix", out.as_mut_slice())).collect();
    assert_eq!(archive.unpack_into(targets, 2).unwrap_err().to_string(), "matrix is named twice");
}
