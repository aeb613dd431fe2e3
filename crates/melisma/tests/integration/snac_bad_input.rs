//! Models that must not load, and the messages that say why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use melisma::snac::{Codes, Model, Noise, reference};
use melisma::{Budget, Error, ErrorKind};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};

use crate::repository;

fn golden(name: &str) -> PathBuf {
    repository::path("golden/snac").join(name)
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(golden(name)).unwrap()
}

fn open(path: &Path) -> Result<Model, Error> {
    Model::open(path.to_str().unwrap())
}

fn from_bytes(config: &[u8], weights: &[u8]) -> Result<Model, Error> {
    Model::from_bytes(config, weights, &Budget::unlimited())
}

/// tiny24 with one tensor changed.
fn with(change: impl FnOnce(&mut BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>)) -> Error {
    let bytes = file("tiny24/model.safetensors");
    let source = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = source.iter().map(|(name, t)| (name.to_owned(), (t.dtype(), t.shape().to_vec(), t.data().to_vec())));
    let mut tensors = tensors.collect();
    change(&mut tensors);
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, data))| (name, TensorView::new(*dtype, shape.clone(), data).unwrap()));
    let bytes = serialize(views, None).unwrap();
    from_bytes(&file("tiny24/config.json"), &bytes).map(drop).unwrap_err()
}

const ALPHA: &str = "decoder.model.2.block.3.block.0.alpha";
const DIRECTION: &str = "decoder.model.3.block.1.parametrizations.weight.original1";

#[test]
fn faulty_tensors_are_named() {
    let error = with(|tensors| drop(tensors.remove(ALPHA)));
    assert_eq!(error.to_string(), format!("{ALPHA}: this tensor is missing"));
    let error = with(|tensors| tensors.get_mut(ALPHA).unwrap().1 = vec![32, 1, 1]);
    assert_eq!(error.to_string(), format!("{ALPHA}: expected the shape [1, 32, 1], the file has [32, 1, 1]"));
    let error = with(|tensors| tensors.get_mut(ALPHA).unwrap().0 = Dtype::I32);
    assert!(error.to_string().starts_with(&format!("{ALPHA}: elements of type")), "{error}");
    let error = with(|tensors| tensors.get_mut(ALPHA).unwrap().2[8..12].copy_from_slice(&f32::NAN.to_le_bytes()));
    assert_eq!(error.to_string(), format!("{ALPHA}: element 2 is NaN"));
    let error = with(|tensors| tensors.get_mut(DIRECTION).unwrap().2.fill(0));
    assert_eq!(error.to_string(), "decoder.model.3.block.1: element 0 is NaN");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn weights_of_another_shape_are_refused() {
    let error = from_bytes(&file("tiny44/config.json"), &file("tiny24/model.safetensors")).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().starts_with("encoder.block.2.block.4"), "{error}");
}

#[test]
fn cut_files_are_refused() {
    let config = file("tiny24/config.json");
    for name in ["tiny24/model.safetensors", "tiny24/pytorch_model.bin"] {
        let bytes = file(name);
        let near_ends = (0..600).chain(bytes.len() - 600..bytes.len());
        for len in near_ends.chain((0..bytes.len()).step_by(9973)) {
            let error = from_bytes(&config, &bytes[..len]).map(drop).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Truncated | ErrorKind::Corrupt), "{name} cut at {len}: {error}");
        }
    }
}

#[test]
fn changed_bytes_do_not_panic() {
    let config = file("tiny24/config.json");
    let bytes = file("tiny24/pytorch_model.bin");
    let near_ends = (0..4000).step_by(7).chain((bytes.len() - 20_000..bytes.len()).step_by(37));
    for at in near_ends {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        let _ = from_bytes(&config, &changed);
    }
}

#[test]
fn missing_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = open(directory.path()).map(drop).unwrap_err();
    assert!(error.to_string().contains("no model.safetensors or pytorch_model.bin"), "{error}");
    let weights = directory.path().join("model.safetensors");
    std::fs::write(&weights, file("tiny24/model.safetensors")).unwrap();
    for path in [directory.path(), &weights] {
        let error = open(path).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("config.json"), "{error}");
        assert!(error.hint().is_some());
    }
    std::fs::write(directory.path().join("config.json"), file("tiny24/config.json")).unwrap();
    assert_eq!(open(directory.path()).unwrap().hash(), open(&weights).unwrap().hash());
    assert_eq!(open(&directory.path().join("none.bin")).map(drop).unwrap_err().kind(), ErrorKind::Io);
    assert!(open(Path::new("builtin:none")).map(drop).unwrap_err().to_string().contains("builtin:none"));
}

#[test]
fn clips_of_no_length_are_fine() {
    let model = open(&golden("tiny24")).unwrap();
    let none = Codes::empty(model.config());
    assert!(reference::decode(&model, &none, &Noise::Off).is_empty());
    assert_eq!(reference::encode(&model, &[]).unwrap(), none);
    assert_eq!(reference::encode(&model, &[0.1]).unwrap().n_frames(), 1);
    assert!(reference::encode(&model, &[f32::NAN]).unwrap_err().to_string().contains("sample 0 is NaN"));
}
