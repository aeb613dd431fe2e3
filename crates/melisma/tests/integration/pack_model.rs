//! Packed weights and PyTorch checkpoints as models.

use melisma::pack::{self, Archive, Converted, Header, Options, ReadAt};
use melisma::snac::Model;
use melisma::{Budget, Context, Device};

use crate::gpu;
use crate::repository;

fn packed(source: &[u8], options: &Options<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    pack::pack(&source.to_vec(), &mut out, options, &|_| {}).unwrap();
    out
}

fn read_all(file: &dyn ReadAt) -> Vec<u8> {
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn packed_weights_make_the_same_model() {
    let read = |name: &str| std::fs::read(repository::path("golden/snac/tiny24").join(name)).unwrap();
    let model = |weights: &[u8]| Model::from_bytes(&read("config.json"), weights, &Budget::unlimited()).unwrap();
    let weights = read("model.safetensors");
    let packed = packed(&weights, &Options::new(&Budget::unlimited()));
    assert!(packed.len() < weights.len());
    assert_eq!(model(&packed).hash(), model(&weights).hash());
    let delta = self::packed(&weights, &Options::new(&Budget::unlimited()).with_base(&weights));
    let error = Model::from_bytes(&read("config.json"), &delta, &Budget::unlimited()).unwrap_err();
    assert!(error.to_string().contains("a delta"), "{error}");
}

fn packed_weights_open_as_the_same_model(device: &Device) {
    let folder = tempfile::tempdir().unwrap();
    let shipped = repository::path("golden/snac/tiny24");
    let weights = std::fs::read(shipped.join("model.safetensors")).unwrap();
    let path = folder.path().join("model.packed.safetensors");
    std::fs::copy(shipped.join("config.json"), folder.path().join("config.json")).unwrap();
    std::fs::write(&path, packed(&weights, &Options::new(&Budget::unlimited()))).unwrap();
    let context = Context::on(device.clone(), Budget::unlimited()).unwrap();
    let [expected, model] = [&shipped, &path].map(|source| Model::open_in(&context, source.to_str().unwrap()).unwrap());
    assert_eq!(model.hash(), expected.hash(), "{device}");
}

#[test]
fn packed_weights_open_as_the_same_model_on_the_cpu() {
    packed_weights_open_as_the_same_model(&Device::cpu().unwrap());
}

#[test]
fn packed_weights_open_as_the_same_model_on_cuda() {
    gpu::find().iter().for_each(packed_weights_open_as_the_same_model);
}

#[test]
fn checkpoints_of_pytorch_become_safetensors() {
    let folder = repository::path("golden/snac/tiny24");
    let checkpoint = std::fs::read(folder.join("pytorch_model.bin")).unwrap();
    assert!(pack::is_checkpoint(&checkpoint));
    let converted = Converted::read(&checkpoint).unwrap();
    let source = read_all(&converted);
    let plain = std::fs::read(folder.join("model.safetensors")).unwrap();
    let (ours, theirs) = (Header::read(&source).unwrap(), Header::read(&plain).unwrap());
    assert_eq!(ours.tensors.len(), theirs.tensors.len());
    for entry in &ours.tensors {
        let other = theirs.get(&entry.name).unwrap();
        let bytes = |file: &[u8], header: &Header, [from, to]: [u64; 2]| {
            file[(header.len + from) as usize..(header.len + to) as usize].to_vec()
        };
        assert_eq!((&entry.dtype, &entry.shape), (&other.dtype, &other.shape));
        assert!(bytes(&source, &ours, entry.bytes) == bytes(&plain, &theirs, other.bytes), "{}", entry.name);
    }
    let packed = packed(&source, &Options::new(&Budget::unlimited()));
    let mut out = Vec::new();
    Archive::open(&packed, &Budget::unlimited()).unwrap().unpack(&mut out, 1, &|_| {}).unwrap();
    assert!(out == source);
}
