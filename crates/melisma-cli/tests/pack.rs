//! `pack` and `unpack` from the outside.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

mod melisma;

use melisma::{Sandbox, golden};
use serde_json::Value;

/// A small model: a smooth matrix, a vector and metadata.
fn source() -> Vec<u8> {
    let json = concat!(
        r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[300,400],"data_offsets":[0,240000]},"#,
        r#""b":{"dtype":"F32","shape":[100],"data_offsets":[240000,240400]}}   "#
    );
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(json.as_bytes());
    for i in 0..120_000u32 {
        let noise = i.wrapping_mul(2_654_435_761) >> 16;
        file.extend_from_slice(&((0x3c00 + (noise.count_ones() << 6) + (noise & 63)) as u16).to_le_bytes());
    }
    file.resize(file.len() + 400, 7);
    file
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("m.safetensors"), source()).unwrap();
    sandbox
}

fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ran = sandbox.run(args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn packs_lists_tests_and_unpacks() {
    let sandbox = sandbox();
    let packed = json(&sandbox, &["pack", "m.safetensors", "--json", "--device", "cpu"]);
    assert_eq!((&packed["verified"], packed["bytes_in"].as_u64()), (&Value::Bool(true), Some(source().len() as u64)));
    assert!(packed["ratio"].as_f64().unwrap() < 0.8, "{packed}");
    assert_eq!(
        packed["bytes_out"].as_u64(),
        std::fs::metadata(sandbox.path("m.packed.safetensors")).ok().map(|m| m.len())
    );
    assert_eq!(packed["tensors"][0]["name"], "w");
    assert!(packed["encode_bytes_per_second"].as_f64().unwrap() > 0.0);
    let listed = json(&sandbox, &["pack", "-l", "m.packed.safetensors", "--json"]);
    assert_eq!(listed["tensors"][0]["shape"], serde_json::json!([300, 400]));
    assert_eq!(listed["tensors"][0]["modes"][0], "pairs");
    golden("pack_list.txt", &sandbox.run(&["pack", "-l", "m.packed.safetensors"]).stdout);
    assert_eq!(sandbox.run(&["pack", "-t", "m.packed.safetensors"]).code, 0);
    let out = json(&sandbox, &["unpack", "m.packed.safetensors", "-o", "back.safetensors", "--json"]);
    assert_eq!(out["bytes_out"].as_u64(), Some(source().len() as u64));
    assert_eq!(std::fs::read(sandbox.path("back.safetensors")).unwrap(), source());
    assert_eq!(sandbox.files(), ["back.safetensors", "m.packed.safetensors", "m.safetensors"]);
}

#[test]
fn has_the_habits_of_zstd() {
    let sandbox = sandbox();
    let same = sandbox.run(&["pack", "m.safetensors", "-o", "./m.safetensors", "-f"]);
    assert_eq!(same.code, 2);
    assert!(same.stderr.contains("the output is the input"), "{}", same.stderr);
    assert_eq!(sandbox.run(&["pack", "m.safetensors", "--rm"]).code, 0);
    assert_eq!(sandbox.files(), ["m.packed.safetensors"]);
    assert_eq!(sandbox.run(&["unpack", "m.packed.safetensors"]).code, 0);
    let again = sandbox.run(&["unpack", "m.packed.safetensors"]);
    assert!(again.code == 2 && again.stderr.contains("exists already"), "{}", again.stderr);
    assert_eq!(sandbox.run(&["unpack", "m.packed.safetensors", "-f", "--rm"]).code, 0);
    assert_eq!(std::fs::read(sandbox.path("m.safetensors")).unwrap(), source());
    assert_eq!(sandbox.files(), ["m.safetensors"]);
    let piped = sandbox.command(&["pack", "m.safetensors", "-o", "-"]).output().unwrap();
    assert!(piped.status.success() && piped.stdout.len() < source().len());
    std::fs::write(sandbox.path("p.safetensors"), piped.stdout).unwrap();
    let restored = sandbox.command(&["unpack", "p.safetensors", "-o", "-"]).output().unwrap();
    assert_eq!(restored.stdout, source());
}

#[test]
fn parts_are_files_of_their_own() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", "m.safetensors", "--tile-size", "256"]).code, 0);
    let args = ["unpack", "m.packed.safetensors", "--tensor", "b", "-o", "b.safetensors"];
    assert_eq!(sandbox.run(&args).code, 0);
    assert!(std::fs::read(sandbox.path("b.safetensors")).unwrap().ends_with(&[7; 400]));
    let tile = ["unpack", "m.packed.safetensors", "--tensor", "w", "--tile", "0,1", "-o", "t.safetensors"];
    assert_eq!(sandbox.run(&tile).code, 0);
    let missing = sandbox.run(&["unpack", "m.packed.safetensors", "--tensor", "w", "--tile", "9,9", "-o", "x"]);
    assert!(missing.code == 2 && missing.stderr.contains("there is no tile 9,9"), "{}", missing.stderr);
    assert!(!sandbox.path("x").exists() && !sandbox.path("x.partial").exists());
}

#[test]
fn damage_is_refused_and_nothing_is_left() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", "m.safetensors"]).code, 0);
    let mut packed = std::fs::read(sandbox.path("m.packed.safetensors")).unwrap();
    packed[60_000] ^= 4;
    std::fs::write(sandbox.path("m.packed.safetensors"), packed).unwrap();
    for args in [&["pack", "-t", "m.packed.safetensors"][..], &["unpack", "m.packed.safetensors", "-o", "out"]] {
        let ran = sandbox.run(args);
        assert!(ran.code == 2 && ran.stderr.contains("m.packed.safetensors: the hash"), "{} {}", ran.code, ran.stderr);
    }
    let args = ["unpack", "m.packed.safetensors", "--tensor", "w", "-o", "out", "--rm"];
    assert_eq!(sandbox.run(&args).code, 2);
    let by_tensor = sandbox.run(&args[..6]);
    assert!(by_tensor.stderr.contains("w, tile 0"), "{}", by_tensor.stderr);
    assert_eq!(sandbox.files(), ["m.packed.safetensors", "m.safetensors"]);
}

#[test]
fn shards_are_packed_beside_a_new_index() {
    let sandbox = sandbox();
    let shard = "m-00001-of-00001.safetensors";
    std::fs::rename(sandbox.path("m.safetensors"), sandbox.path(shard)).unwrap();
    let index = format!(r#"{{"metadata":{{"total_size":240400}},"weight_map":{{"w":"{shard}","b":"{shard}"}}}}"#);
    std::fs::write(sandbox.path("m.safetensors.index.json"), index).unwrap();
    let packed = json(&sandbox, &["pack", "m.safetensors.index.json", "--json"]);
    assert_eq!(packed["files"].as_array().map(Vec::len), Some(1));
    let index = std::fs::read_to_string(sandbox.path("m.packed.safetensors.index.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    assert_eq!(index["weight_map"]["w"], "m-00001-of-00001.packed.safetensors");
    assert_eq!(sandbox.run(&["pack", "-t", "m-00001-of-00001.packed.safetensors"]).code, 0);
    let outside = r#"{"weight_map":{"w":"../m.safetensors"}}"#;
    std::fs::write(sandbox.path("evil.index.json"), outside).unwrap();
    assert_eq!(sandbox.run(&["pack", "evil.index.json"]).code, 2);
}
