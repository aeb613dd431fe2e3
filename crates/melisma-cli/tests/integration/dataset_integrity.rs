//! Nothing that is damaged or left out passes in silence: audio files, folders, datasets and shards.

use std::os::unix::fs::symlink;
use std::path::Path;

use melisma::dataset::StoreKind;
use melisma::dataset::store::Store;
use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::sound::{noise, wav};

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/mel").join(name)).unwrap()
}

fn json(sandbox: &Sandbox, code: i32, args: &[&str]) -> (Value, String) {
    let mut all = vec!["--json", "--device", "cpu"];
    all.extend(args);
    let ran = sandbox.run(&all);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
    (serde_json::from_str(&ran.stdout).unwrap_or_default(), ran.stderr)
}

fn corpus(sandbox: &Sandbox, n: usize) {
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for i in 0..n {
        let name = format!("w/{}.wav", "n".repeat(1 + i));
        std::fs::write(sandbox.path(&name), wav(16_000, &noise(i as u64, 5000 + 900 * i))).unwrap();
    }
}

const SHORT: [&str; 4] = ["--preset", "whisper-80", "--segment", "150ms"];

fn build(sandbox: &Sandbox, name: &str, more: &[&str]) {
    json(sandbox, 0, &[&["dataset", "build", "w", "-o", name][..], &SHORT, more].concat());
}

#[test]
fn damaged_flac_and_ogg_are_listed_with_their_place() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for name in ["tone.flac", "tone.ogg"] {
        let mut bytes = golden(name);
        std::fs::write(sandbox.path(&format!("w/good-{name}")), &bytes).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(sandbox.path(&format!("w/{name}")), &bytes).unwrap();
    }
    let (built, stderr) = json(&sandbox, 1, &["dataset", "build", "w", "-o", "a.h5", "--segment", "100ms"]);
    assert_eq!((built["files_ok"].as_u64(), built["files_failed"].as_u64()), (Some(2), Some(2)), "{stderr}");
    for (failure, name) in built["failures"].as_array().unwrap().iter().zip(["tone.flac", "tone.ogg"]) {
        assert_eq!((failure["path"].as_str(), failure["code"].as_str()), (Some(name), Some("corrupt")));
        assert!(failure["message"].as_str().unwrap().contains("sample "), "{failure}");
        let ran = sandbox.run(&["mel", &format!("w/{name}"), "-o", "a.npy"]);
        assert!(ran.code == 2 && ran.stderr.contains("sample ") && !sandbox.path("a.npy").exists(), "{}", ran.stderr);
    }
    assert!(stderr.contains("2 files were refused; they are listed in a.h5.failures.jsonl"), "{stderr}");
}

#[test]
fn opus_and_webm_are_found_and_damaged_ones_listed() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    let bytes = |name: &str| golden(&format!("../audio/{name}"));
    for name in ["celt_20ms.opus", "hybrid_20ms.webm", "voice_flac.mka"] {
        std::fs::write(sandbox.path(&format!("w/{name}")), bytes(name)).unwrap();
    }
    let whole = bytes("celt_20ms.opus");
    std::fs::write(sandbox.path("w/cut.opus"), &whole[..whole.len() - 9]).unwrap();
    let whole = bytes("hybrid_20ms.webm");
    std::fs::write(sandbox.path("w/cut.webm"), &whole[..whole.len() - 9]).unwrap();
    let (built, stderr) = json(&sandbox, 1, &["dataset", "build", "w", "-o", "a.h5", "--segment", "100ms"]);
    assert_eq!((built["files_ok"].as_u64(), built["files_failed"].as_u64()), (Some(3), Some(2)), "{stderr}");
    for (failure, name) in built["failures"].as_array().unwrap().iter().zip(["cut.opus", "cut.webm"]) {
        assert_eq!((failure["path"].as_str(), failure["code"].as_str()), (Some(name), Some("truncated")));
        assert!(failure["message"].as_str().unwrap().contains(" byte "), "{failure}");
    }
}

#[test]
fn links_are_followed_once_and_what_is_left_out_is_named() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 2);
    for link in ["w/l1", "w/l2"] {
        symlink(".", sandbox.path(link)).unwrap();
    }
    for name in ["a.ape", "b.ape", "c.wma", "d.au"] {
        std::fs::write(sandbox.path(&format!("w/{name}")), b"x").unwrap();
    }
    let (built, stderr) = json(&sandbox, 0, &["dataset", "build", "w", "-o", "a.h5", "--segment", "100ms"]);
    assert_eq!(built["files_ok"], 2);
    let skipped = &built["skipped"];
    assert_eq!((&skipped["formats"]["ape"]["count"], &skipped["formats"]["au"]["count"]), (&2.into(), &1.into()));
    assert_eq!(skipped["formats"]["ape"]["first"], serde_json::json!(["w/a.ape", "w/b.ape"]));
    assert_eq!((&skipped["repeated"]["count"], &skipped["unreadable"]["count"]), (&2.into(), &0.into()));
    for line in ["skipped 2 unsupported .ape files: w/a.ape, w/b.ape", "skipped 1 unsupported .wma file: w/c.wma"] {
        assert!(stderr.contains(line), "{stderr}");
    }
}

/// Opens a dataset to change it.
fn changeable(path: &Path, kind: StoreKind) -> Store {
    let layout = Store::open(path).unwrap().layout;
    Store::reopen(path, kind, layout).unwrap()
}

/// Changes the first byte of one cell.
fn falsify(path: &Path, kind: StoreKind, column: &str, row: u64) {
    let store = changeable(path, kind);
    let place = store.layout.column(column).unwrap();
    let mut bytes = vec![0; store.layout.columns[place].row_bytes()];
    store.read(place, row, &mut bytes).unwrap();
    bytes[0] ^= 1;
    store.write(place, row, &bytes).unwrap();
}

#[test]
fn a_change_in_any_column_is_found_and_not_merged() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 4);
    let columns = ["path", "file_index", "start_sample", "valid_frames", "status", "checksum", "row_hash", "mel"];
    build(&sandbox, "a.h5", &[]);
    let good = std::fs::read(sandbox.path("a.h5")).unwrap();
    let info = json(&sandbox, 0, &["dataset", "info", "a.h5"]).0;
    let mut names: Vec<&str> = info["columns"].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let mut expected = columns.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected, "a new column needs a case here");
    let (verified, _) = json(&sandbox, 0, &["dataset", "verify", "a.h5"]);
    assert_eq!((&verified["plan_matches"], &verified["columns_without_hash"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(verified["device"], "cpu");
    for column in columns {
        std::fs::write(sandbox.path("a.h5"), &good).unwrap();
        falsify(&sandbox.path("a.h5"), StoreKind::Hdf5, column, 3);
        let (verified, stderr) = json(&sandbox, 3, &["dataset", "verify", "a.h5"]);
        assert_eq!(verified["first_damaged"], serde_json::json!([3]), "{column}: {stderr}");
        if column != "path" {
            assert_eq!(verified["first_damaged_files"], serde_json::json!(["nn.wav"]), "{column}");
            assert!(stderr.contains("the first is row 3, of nn.wav"), "{stderr}");
        }
        let is_planned = !["path", "file_index", "start_sample", "valid_frames"].contains(&column);
        assert_eq!(verified["plan_matches"], is_planned, "{column}");
        let ran = sandbox.run(&["dataset", "merge", "a.h5", "-o", "b.h5"]);
        assert!(ran.code == 3 && ran.stderr.contains("a.h5: "), "{column}: {}", ran.stderr);
        assert!(!sandbox.path("b.h5").exists() && !sandbox.path("b.h5.partial").exists());
    }
}

/// Makes a dataset of version 1 of one of today.
fn age(from: &Path, to: &Path) {
    let new = Store::open(from).unwrap();
    let mut layout = new.layout.clone();
    layout.columns.retain(|column| column.name != "row_hash");
    layout.attributes.insert("version".to_owned(), 1.into());
    layout.attributes.remove("shard");
    let old = Store::create(to, StoreKind::Hdf5, layout).unwrap();
    for (place, column) in old.layout.columns.iter().enumerate() {
        let mut bytes = vec![0; column.row_bytes() * old.layout.n_rows as usize];
        new.read(new.layout.column(&column.name).unwrap(), 0, &mut bytes).unwrap();
        old.write(place, 0, &bytes).unwrap();
    }
}

#[test]
fn datasets_of_version_1_are_read_and_say_what_they_do_not_record() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 4);
    for shard in ["1/2", "2/2"] {
        let name = format!("{}.h5", &shard[..1]);
        build(&sandbox, &name, &["--shard", shard]);
        age(&sandbox.path(&name), &sandbox.path(&format!("old-{name}")));
    }
    let (verified, stderr) = json(&sandbox, 0, &["dataset", "verify", "old-1.h5"]);
    assert_eq!((&verified["columns_without_hash"], &verified["damaged"]), (&serde_json::json!(["status"]), &0.into()));
    assert!(stderr.contains("old-1.h5: its format records no hash of status"), "{stderr}");
    let (merged, stderr) = json(&sandbox, 0, &["dataset", "merge", "old-1.h5", "old-2.h5", "-o", "old.h5"]);
    assert_eq!(merged["unnumbered_shards"], 2, "{stderr}");
    json(&sandbox, 0, &["dataset", "verify", "old.h5"]);
    let ran = sandbox.run(&["dataset", "merge", "old-1.h5", "2.h5", "-o", "mixed.h5"]);
    assert!(ran.code == 2 && ran.stderr.contains("another version"), "{}", ran.stderr);
    falsify(&sandbox.path("old.h5"), StoreKind::Hdf5, "start_sample", 1);
    assert_eq!(json(&sandbox, 3, &["dataset", "verify", "old.h5"]).0["plan_matches"], false);
    falsify(&sandbox.path("old-1.h5"), StoreKind::Hdf5, "status", 1);
    json(&sandbox, 3, &["dataset", "verify", "old-1.h5"]);
}

#[test]
fn shards_of_different_lists_are_refused() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 5);
    build(&sandbox, "1.h5", &["--shard", "1/2"]);
    std::fs::rename(sandbox.path("w/n.wav"), sandbox.path("w/z.wav")).unwrap();
    build(&sandbox, "2.h5", &["--shard", "2/2"]);
    let ran = sandbox.run(&["dataset", "merge", "1.h5", "2.h5", "-o", "a.h5"]);
    assert!(ran.code == 2 && ran.stderr.contains("different lists of files"), "{}", ran.stderr);
    assert!(!sandbox.path("a.h5").exists());
}

#[test]
fn files_that_are_there_twice_are_refused() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 1);
    build(&sandbox, "a.h5", &[]);
    std::fs::copy(sandbox.path("a.h5"), sandbox.path("b.h5")).unwrap();
    let ran = sandbox.run(&["dataset", "merge", "a.h5", "b.h5", "-o", "c.h5"]);
    assert!(ran.code == 2 && ran.stderr.contains("the files of a.h5 and b.h5 overlap"), "{}", ran.stderr);
    std::fs::rename(sandbox.path("w/n.wav"), sandbox.path("w/z.wav")).unwrap();
    build(&sandbox, "d.h5", &[]);
    let ran = sandbox.run(&["dataset", "merge", "a.h5", "d.h5", "-o", "c.h5"]);
    assert!(ran.code == 2 && ran.stderr.contains("a.h5 and d.h5 are not shards of one build"), "{}", ran.stderr);
    assert!(!sandbox.path("c.h5").exists());
}

#[test]
fn a_missing_shard_is_refused_unless_told() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 5);
    for i in 1..=3 {
        build(&sandbox, &format!("{i}.safetensors"), &["--shard", &format!("{i}/3")]);
    }
    let merge = |more: &[&str]| sandbox.run(&[&["dataset", "merge", "--json"][..], more].concat());
    let ran = merge(&["1.safetensors", "3.safetensors", "-o", "a.h5"]);
    assert!(ran.code == 2 && ran.stderr.contains("1 shard of 3 is missing: 2/3"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--allow-missing") && !sandbox.path("a.h5").exists());
    let ran = merge(&["1.safetensors", "3.safetensors", "-o", "a.h5", "--allow-missing"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let merged = ran.json();
    assert_eq!(merged["missing_shards"], serde_json::json!([2]));
    let info = json(&sandbox, 0, &["dataset", "info", "a.h5"]).0;
    assert_eq!((&info["attributes"]["missing_shards"], &info["attributes"]["shard"]), (&"2/3".into(), &Value::Null));
    json(&sandbox, 0, &["dataset", "verify", "a.h5"]);
    // A dataset that is not a shard is complete by itself.
    build(&sandbox, "whole.h5", &[]);
    let (merged, stderr) = json(&sandbox, 0, &["dataset", "merge", "whole.h5", "-o", "again.h5"]);
    assert_eq!((&merged["unnumbered_shards"], stderr.as_str()), (&0.into(), ""));
    build(&sandbox, "1of2.h5", &["--shard", "1/2"]);
    let ran = merge(&["1of2.h5", "3.safetensors", "-o", "b.h5"]);
    assert!(ran.code == 2 && ran.stderr.contains("does not belong to the others"), "{}", ran.stderr);
}
