//! External data: valid files, and every rejected way out of the folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::super::wire::Writer;
use super::*;
use crate::output::{self, Existing};

/// Returns a model whose only initializer has four floats in another file.
fn bytes(location: &str, offset: Option<&str>, length: Option<&str>) -> Vec<u8> {
    with_weights(&[("w", location)], offset, length)
}

/// Returns a model with such an initializer for each name and file.
fn with_weights(weights: &[(&str, &str)], offset: Option<&str>, length: Option<&str>) -> Vec<u8> {
    let mut to = Writer::default();
    to.int(1, 8);
    to.message(7, |to| {
        for (name, location) in weights {
            to.message(5, |to| {
                to.ints(1, &[4]);
                to.int(2, 1);
                to.text(8, name);
                let pairs = [("location", Some(*location)), ("offset", offset), ("length", length)];
                for (key, value) in pairs.iter().filter_map(|(key, value)| Some((key, (*value)?))) {
                    to.message(13, |to| {
                        to.bytes(1, key.as_bytes());
                        to.bytes(2, value.as_bytes());
                    });
                }
                to.int(14, 1);
            });
        }
    });
    to.0
}

struct Sandbox {
    root: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("model/deep")).unwrap();
        fs::write(root.path().join("secret"), [0; 64]).unwrap();
        let floats: Vec<u8> = (0..8u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
        fs::write(root.path().join("model/data.bin"), &floats).unwrap();
        fs::write(root.path().join("model/deep/data.bin"), &floats).unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn open(&self, location: &str, offset: Option<&str>, length: Option<&str>) -> Result<Model> {
        let path = self.path("model/model.onnx");
        fs::write(&path, bytes(location, offset, length)).unwrap();
        Model::open(&path)
    }

    fn refusal(&self, location: &str) -> String {
        self.open(location, None, None).unwrap_err().to_string()
    }
}

fn floats(model: &Model) -> Vec<f32> {
    model.graph.initializers[0].value().unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn data_inside_the_folder_is_read() {
    let sandbox = Sandbox::new();
    assert_eq!(floats(&sandbox.open("data.bin", None, None).unwrap()), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(floats(&sandbox.open("data.bin", Some("16"), Some("16")).unwrap()), [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(floats(&sandbox.open("./deep/data.bin", Some("4"), None).unwrap()), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn each_tensor_is_read_from_its_own_file() {
    let sandbox = Sandbox::new();
    let others: Vec<u8> = (8..16u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    fs::write(sandbox.path("model/others.bin"), others).unwrap();
    let path = sandbox.path("model/model.onnx");
    fs::write(&path, with_weights(&[("v", "data.bin"), ("w", "others.bin")], None, None)).unwrap();
    let model = Model::open(&path).unwrap();
    let values =
        model.graph.initializers.iter().map(|tensor| tensor.value().unwrap().as_slice::<f32>().unwrap().to_vec());
    assert_eq!(values.collect::<Vec<_>>(), [[0.0, 1.0, 2.0, 3.0], [8.0, 9.0, 10.0, 11.0]]);
}

#[test]
fn no_output_replaces_data_that_was_read() {
    let sandbox = Sandbox::new();
    sandbox.open("data.bin", None, None).unwrap();
    let (data, other) = (sandbox.path("model/data.bin"), sandbox.path("model/deep/data.bin"));
    let before = fs::read(&data).unwrap();
    output::write(&data, b"new", Existing::Replace).unwrap_err();
    assert_eq!(fs::read(&data).unwrap(), before);
    output::write(&other, b"new", Existing::Replace).unwrap();
}

#[test]
fn ways_out_are_refused() {
    let sandbox = Sandbox::new();
    assert!(sandbox.refusal("../secret").contains("leads out of the model's folder"));
    assert!(sandbox.refusal("deep/../../secret").contains("leads out"));
    assert!(sandbox.refusal(&sandbox.path("secret").display().to_string()).contains("is an absolute path"));
    assert!(sandbox.refusal("/etc/hostname").contains("is an absolute path"));
    symlink(sandbox.path("secret"), sandbox.path("model/link")).unwrap();
    assert!(sandbox.refusal("link").contains("symbolic link"));
    symlink(sandbox.path("model/data.bin"), sandbox.path("model/inner")).unwrap();
    assert!(sandbox.refusal("inner").contains("symbolic link"));
    symlink(sandbox.root.path(), sandbox.path("model/up")).unwrap();
    assert!(sandbox.refusal("up/secret").contains("symbolic link"));
    fs::hard_link(sandbox.path("secret"), sandbox.path("model/hard")).unwrap();
    assert!(sandbox.refusal("hard").contains("hard link"));
    assert!(sandbox.refusal("").contains("not a file name"));
    assert!(sandbox.refusal(".").contains("not a file name"));
    assert!(sandbox.refusal("a\0b").contains("not a file name"));
    assert!(sandbox.refusal("deep").contains("not a plain file"));
    assert!(sandbox.refusal("data.bin/x").contains("not a folder"));
    assert!(sandbox.refusal("missing.bin").contains("missing.bin"));
}

/// A cache with the layout of the Hugging Face hub: files are links into `blobs`.
#[test]
fn links_of_a_hub_cache_are_followed_and_no_others() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path("models--org--name");
    let snapshot = cache.join("snapshots/0123abc");
    fs::create_dir_all(snapshot.join("onnx")).unwrap();
    fs::create_dir_all(cache.join("blobs")).unwrap();
    fs::create_dir_all(sandbox.path("models--org--other/blobs")).unwrap();
    let floats = fs::read(sandbox.path("model/data.bin")).unwrap();
    fs::write(cache.join("blobs/h1"), bytes("model.onnx_data", None, None)).unwrap();
    fs::write(cache.join("blobs/h2"), &floats).unwrap();
    let other = sandbox.path("models--org--other/blobs/h3");
    fs::write(&other, &floats).unwrap();
    for (folder, up) in [(snapshot.clone(), "../.."), (snapshot.join("onnx"), "../../..")] {
        let (model, data) = (folder.join("model.onnx"), folder.join("model.onnx_data"));
        symlink(format!("{up}/blobs/h1"), &model).unwrap();
        symlink(format!("{up}/blobs/h2"), &data).unwrap();
        assert_eq!(self::floats(&Model::open(&model).unwrap()), [0.0, 1.0, 2.0, 3.0]);
        let first = fingerprint(&model, 1).unwrap();
        fs::write(cache.join("blobs/h2"), [7; 32]).unwrap();
        assert_ne!(fingerprint(&model, 1).unwrap(), first, "the blob is part of the model");
        fs::write(cache.join("blobs/h2"), &floats).unwrap();
        symlink(sandbox.path("secret"), cache.join("blobs/out")).unwrap_or_default();
        fs::hard_link(sandbox.path("secret"), cache.join("blobs/hard")).unwrap_or_default();
        let blobs = [sandbox.path("secret"), other.clone(), cache.join("blobs/out"), cache.join("blobs/../../secret")];
        for target in blobs.into_iter().chain([cache.join("blobs"), cache.join("blobs/absent")]) {
            fs::remove_file(&data).unwrap();
            symlink(&target, &data).unwrap();
            let message = Model::open(&model).unwrap_err().to_string();
            assert!(message.contains("symbolic link"), "{}: {message}", target.display());
            assert!(fingerprint(&model, 1).is_err());
        }
        fs::remove_file(&data).unwrap();
        symlink(cache.join("blobs/hard"), &data).unwrap();
        assert!(Model::open(&model).unwrap_err().to_string().contains("hard link"));
    }
    symlink("../models--org--name/blobs/h2", sandbox.path("model/data")).unwrap();
    assert!(sandbox.refusal("data").contains("symbolic link"), "a folder outside of the cache");
}

#[test]
fn sizes_are_checked_before_they_are_believed() {
    let sandbox = Sandbox::new();
    let refusal = |offset, length| sandbox.open("data.bin", offset, length).unwrap_err().to_string();
    assert!(refusal(Some("20"), None).contains("ends at byte 32, not at 36"));
    assert!(refusal(Some("18446744073709551615"), Some("16")).contains("overflow"));
    assert!(refusal(Some("99999999999999999999999"), None).contains("not a size"));
    assert!(refusal(Some("-4"), None).contains("`-4` is not a size"));
    assert!(refusal(None, Some("8")).contains("external data of 8 bytes; the shape has 16"));
    sandbox.open("data.bin", None, None).unwrap();
    let path = sandbox.path("model/model.onnx");
    let len = fs::metadata(&path).unwrap().len();
    assert!(Model::open_within(&path, len + 16).is_ok());
    let limited = Model::open_within(&path, len + 15).unwrap_err();
    assert_eq!(limited.kind(), ErrorKind::Memory);
}

#[test]
fn an_empty_base_is_the_current_folder_and_not_anywhere() {
    let mut folder = Folder::of(Path::new("model.onnx"), u64::MAX).unwrap();
    let outside = format!("../{}", std::env::current_dir().unwrap().file_name().unwrap().to_string_lossy());
    for location in ["/etc/hostname", &outside, "../../etc/hostname"] {
        let model = read::model(&bytes(location, None, None), &mut folder);
        let message = model.unwrap_err().to_string();
        assert!(message.contains("absolute path") || message.contains("leads out"), "{message}");
    }
}

#[test]
fn a_model_without_a_folder_has_no_external_data() {
    let error = Model::from_bytes(&bytes("data.bin", None, None)).unwrap_err();
    assert!(error.to_string().contains("not in a folder"));
}

/// Returns a model with external data in a function's node, as its own attribute or in its
/// subgraph, or in passed-through fields.
fn carried(location: &str) -> Vec<Vec<u8>> {
    let tensor = |to: &mut Writer| {
        to.ints(1, &[4]);
        to.int(2, 1);
        to.message(13, |to| {
            to.bytes(1, b"location");
            to.bytes(2, location.as_bytes());
        });
        to.int(14, 1);
    };
    let graph = |to: &mut Writer| to.message(5, tensor);
    let attribute = |to: &mut Writer, number: u32, code: i64, content: &dyn Fn(&mut Writer)| {
        to.text(1, "value");
        to.message(number, content);
        to.int(20, code);
    };
    let sparse = |to: &mut Writer| to.message(1, tensor);
    let mut models = Vec::new();
    type Write<'w> = &'w dyn Fn(&mut Writer);
    let contents: [(u32, i64, Write<'_>); 4] = [(5, 4, &tensor), (6, 5, &graph), (10, 9, &tensor), (22, 11, &sparse)];
    for (number, code, content) in contents {
        for field in [7, 11] {
            let mut to = Writer(sum().to_bytes().unwrap());
            to.message(25, |to| {
                to.text(1, "twice");
                to.text(10, "own");
                match field {
                    7 => to.message(7, |to| to.message(5, |to| attribute(to, number, code, content))),
                    _ => to.message(11, |to| attribute(to, number, code, content)),
                }
            });
            models.push(to.0);
        }
    }
    let mut training = Writer(sum().to_bytes().unwrap());
    training.message(20, |to| to.message(2, graph));
    models.push(training.0);
    models
}

#[test]
fn what_is_carried_along_keeps_the_rules_too() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("model/model.onnx");
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let read = Model::open(&path);
        assert_eq!(read.is_err(), fingerprint(&path, 1).is_err(), "both look");
        read
    };
    let floats = fs::read(sandbox.path("model/data.bin")).unwrap();
    for bytes in carried("data.bin") {
        let model = open(&bytes).unwrap();
        let written = model.to_bytes().unwrap();
        assert!(model.rest.windows(16).any(|window| window == &floats[..16]), "its data is inside");
        assert!(!written.windows(8).any(|window| window == b"data.bin"), "and no place is left to look at");
        assert_eq!(Model::from_bytes(&written).unwrap(), model);
    }
    for location in ["../secret", "/etc/hostname", "deep/../../secret", ""] {
        for bytes in carried(location) {
            assert!(open(&bytes).unwrap_err().to_string().contains("external data"), "{location}");
        }
    }
    symlink(sandbox.path("secret"), sandbox.path("model/link")).unwrap();
    for bytes in carried("link") {
        assert!(open(&bytes).unwrap_err().to_string().contains("symbolic link"));
        assert!(Model::from_bytes(&bytes).unwrap_err().to_string().contains("not in a folder"));
    }
}

#[test]
fn parameters_of_functions_have_no_value() {
    let mut to = Writer(sum().to_bytes().unwrap());
    to.message(25, |to| {
        to.message(7, |to| {
            to.message(5, |to| {
                to.text(1, "value");
                to.int(20, 4);
                to.text(21, "weights");
            })
        })
    });
    let model = Model::from_bytes(&to.0).unwrap();
    assert!(model.rest.windows(7).any(|bytes| bytes == b"weights"));
    assert_eq!(Model::from_bytes(&model.to_bytes().unwrap()).unwrap(), model);
}

#[test]
fn what_is_no_plain_file_is_never_read() {
    let sandbox = Sandbox::new();
    for path in [PathBuf::from("/dev/zero"), PathBuf::from("/dev/null"), sandbox.path("model")] {
        for refused in [Model::open(&path).unwrap_err(), fingerprint(&path, 1).unwrap_err()] {
            assert!(refused.to_string().ends_with("not a plain file") && refused.hint().is_some(), "{refused}");
        }
    }
    let large = sandbox.path("large.onnx");
    File::create(&large).unwrap().set_len(3 << 30).unwrap();
    assert!(Model::open(&large).unwrap_err().to_string().contains("the format ends at 2 GiB"));
    assert_eq!(Model::open_within(sandbox.path("model/data.bin"), 31).unwrap_err().kind(), ErrorKind::Memory);
}
