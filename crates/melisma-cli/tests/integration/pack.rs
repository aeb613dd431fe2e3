//! `pack` and `unpack` from the outside.

use std::process::Stdio;

use serde_json::Value;

use crate::sandbox::{Sandbox, golden};

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

#[test]
fn packs_lists_tests_and_unpacks() {
    let sandbox = sandbox();
    let packed = sandbox.json(&["pack", "m.safetensors", "--json", "--device", "cpu"]);
    assert_eq!((&packed["verified"], packed["bytes_in"].as_u64()), (&Value::Bool(true), Some(source().len() as u64)));
    assert!(packed["ratio"].as_f64().unwrap() < 0.8, "{packed}");
    assert_eq!(
        packed["bytes_out"].as_u64(),
        std::fs::metadata(sandbox.path("m.packed.safetensors")).ok().map(|m| m.len())
    );
    assert_eq!(packed["tensors"][0]["name"], "w");
    assert!(packed["encode_bytes_per_second"].as_f64().unwrap() > 0.0);
    let listed = sandbox.json(&["pack", "-l", "m.packed.safetensors", "--json"]);
    assert_eq!(listed["tensors"][0]["shape"], serde_json::json!([300, 400]));
    assert_eq!(listed["tensors"][0]["modes"][0], "pairs");
    golden("pack_list.txt", &sandbox.run(&["pack", "-l", "m.packed.safetensors"]).stdout);
    assert_eq!(sandbox.run(&["pack", "-t", "m.packed.safetensors"]).code, 0);
    let out = sandbox.json(&["unpack", "m.packed.safetensors", "-o", "back.safetensors", "--json"]);
    assert_eq!(out["bytes_out"].as_u64(), Some(source().len() as u64));
    assert_eq!(std::fs::read(sandbox.path("back.safetensors")).unwrap(), source());
    assert_eq!(sandbox.files(), ["back.safetensors", "m.packed.safetensors", "m.safetensors"]);
}

#[test]
fn has_the_habits_of_zstd() {
    let sandbox = sandbox();
    let same = sandbox.run(&["pack", "m.safetensors", "-o", "./m.safetensors", "-f"]);
    assert_eq!(same.code, 2);
    assert!(same.stderr.contains("./m.safetensors: this file is an input of this command\nhint: "), "{}", same.stderr);
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
    assert_eq!(sandbox.run(&["unpack", "m.packed.safetensors", "--tensor", "b", "-o", "b.npy"]).code, 0);
    let array = melisma::format::npy::read(sandbox.path("b.npy")).unwrap();
    assert_eq!((array.shape(), array.bytes()), (&[100][..], &[7; 400][..]));
    let missing = sandbox.run(&["unpack", "m.packed.safetensors", "--tensor", "w", "--tile", "9,9", "-o", "x"]);
    assert!(missing.code == 2 && missing.stderr.contains("no tile 9,9; the tensor has"), "{}", missing.stderr);
    assert!(!sandbox.path("x").exists() && !sandbox.path("x.partial").exists());
}

#[test]
fn damage_is_refused_and_nothing_is_left() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", "m.safetensors"]).code, 0);
    let mut packed = std::fs::read(sandbox.path("m.packed.safetensors")).unwrap();
    packed[60_000] ^= 4;
    std::fs::write(sandbox.path("m.packed.safetensors"), packed).unwrap();
    let test = (3, &["pack", "-t", "m.packed.safetensors"][..]);
    for (code, args) in [test, (2, &["unpack", "m.packed.safetensors", "-o", "out"])] {
        let ran = sandbox.run(args);
        assert!(
            ran.code == code && ran.stderr.contains("m.packed.safetensors: the hash"),
            "{} {}",
            ran.code,
            ran.stderr
        );
    }
    let args = ["unpack", "m.packed.safetensors", "--tensor", "w", "-o", "out", "--rm"];
    assert_eq!(sandbox.run(&args).code, 2);
    let by_tensor = sandbox.run(&args[..6]);
    assert!(by_tensor.stderr.contains("w, tile 0"), "{}", by_tensor.stderr);
    assert_eq!(sandbox.files(), ["m.packed.safetensors", "m.safetensors"]);
}

#[test]
fn an_index_for_gpus_is_asked_for_and_told() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", "m.safetensors", "--gpu-index", "-o", "i.safetensors"]).code, 0);
    assert_eq!(sandbox.json(&["pack", "-l", "i.safetensors", "--json"])["gpu_index"], true);
    assert_eq!(sandbox.run(&["pack", "-t", "i.safetensors"]).code, 0);
    assert_eq!(sandbox.run(&["unpack", "i.safetensors", "-o", "back.safetensors"]).code, 0);
    assert_eq!(std::fs::read(sandbox.path("back.safetensors")).unwrap(), source());
}

/// The shipped model, packed: as a file and as a directory it says what the built-in one says.
#[test]
fn packed_models_decode_the_same_sound() {
    let sandbox = Sandbox::new();
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/melisma-models/mini24");
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(shipped.join(name), sandbox.path(name)).unwrap();
    }
    let tokens = std::fs::read_to_string(shipped.join("sample_tokens.txt")).unwrap();
    let frames: String = tokens.split_inclusive('>').take(7 * 12).collect();
    std::fs::write(sandbox.path("tokens.txt"), frames).unwrap();
    assert_eq!(sandbox.run(&["pack", "model.safetensors", "--gpu-index", "--rm"]).code, 0);
    for (model, out) in [("builtin:mini24", "a.wav"), ("model.packed.safetensors", "b.wav"), (".", "c.wav")] {
        let ran = sandbox.run(&["decode", "tokens.txt", "-o", out, "--model", model, "--device", "cpu"]);
        assert_eq!(ran.code, 0, "{model}: {}", ran.stderr);
    }
    let [a, b, c] = ["a.wav", "b.wav", "c.wav"].map(|name| std::fs::read(sandbox.path(name)).unwrap());
    assert!(a.len() > 10_000 && a == b && a == c);
}

#[test]
fn pipes_take_no_rm_and_a_reader_may_leave() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", "m.safetensors"]).code, 0);
    for args in
        [&["pack", "m.safetensors", "-o", "-", "--rm"][..], &["unpack", "m.packed.safetensors", "-o", "-", "--rm"]]
    {
        let ran = sandbox.run(args);
        assert!(ran.code == 2 && ran.stdout.is_empty(), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("--rm with a pipe"), "{}", ran.stderr);
    }
    for args in
        [["pack", "m.safetensors", "-o", "-", "--json"], ["unpack", "m.packed.safetensors", "-o", "-", "--json"]]
    {
        // The error is the one object.
        let ran = sandbox.run(&args);
        let object = ran.json();
        assert_eq!((ran.code, &object["error"]["exit_code"]), (2, &2.into()), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(sandbox.files(), ["m.packed.safetensors", "m.safetensors"]);
    for args in [["pack", "m.safetensors", "-o", "-"], ["unpack", "m.packed.safetensors", "-o", "-"]] {
        let mut child = sandbox.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = child.wait_with_output().unwrap();
        // Nothing is said to be verified that nobody has got.
        assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stderr).as_ref()), (Some(141), ""), "{args:?}");
    }
}

#[test]
fn a_full_disk_is_told_by_the_name_of_the_output() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", "m.safetensors"]).code, 0);
    for more in [&[][..], &["--tensor", "w"]] {
        let ran = sandbox.run(&[&["unpack", "m.packed.safetensors", "-o", "/dev/full"], more].concat());
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        assert!(ran.stderr.starts_with("error: /dev/full: No space left"), "{}", ran.stderr);
    }
    let piped = sandbox.run(&["pack", "m.safetensors", "-o", "/dev/full"]);
    assert!(piped.code == 2 && piped.stderr.contains("not a regular file"), "{}", piped.stderr);
}

#[test]
fn quiet_prints_nothing() {
    let sandbox = sandbox();
    let quiet = |args: &[&str]| {
        let ran = sandbox.run(&[args, &["-q"]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        ran.stdout
    };
    assert_eq!(quiet(&["pack", "m.safetensors"]), "");
    assert_eq!(quiet(&["pack", "-t", "m.packed.safetensors"]), "");
    assert_eq!(quiet(&["unpack", "m.packed.safetensors", "-o", "x"]), "");
    assert_eq!(quiet(&["pack", "-l", "m.packed.safetensors"]), "");
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["pack", "m.safetensors"]).code, 0);
    for flags in [
        &["-t", "--tile-size", "256"][..],
        &["-t", "--gpu-index"],
        &["-t", "-l"],
        &["-l", "--tile-size", "256"],
        &["-l", "--gpu-index"],
        &["-l", "--delta", "m.safetensors"],
        &["-l", "--device", "cuda"],
        &["--device", "cuda", "-o", "x"],
    ] {
        let ran = sandbox.run(&[&["pack", "m.packed.safetensors"], flags].concat());
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.stderr);
    }
}

#[test]
fn a_delta_is_tested_against_its_base() {
    let sandbox = sandbox();
    let mut tuned = source();
    let at = tuned.len() - 1;
    tuned[at] ^= 1;
    std::fs::write(sandbox.path("t.safetensors"), tuned).unwrap();
    assert_eq!(sandbox.run(&["pack", "t.safetensors", "--delta", "m.safetensors"]).code, 0);
    let base = ["--delta", "m.safetensors", "-o", "./m.safetensors", "-f"];
    for args in [["pack", "t.safetensors"], ["unpack", "t.packed.safetensors"]] {
        let over = sandbox.run(&[&args[..], &base].concat());
        assert!(
            over.code == 2 && over.stderr.contains(": this file is an input of this command\nhint: "),
            "{}",
            over.stderr
        );
    }
    assert_eq!(sandbox.run(&["pack", "-t", "t.packed.safetensors"]).code, 0);
    assert_eq!(sandbox.run(&["pack", "-t", "t.packed.safetensors", "--delta", "m.safetensors"]).code, 0);
    let wrong = sandbox.run(&["pack", "-t", "t.packed.safetensors", "--delta", "t.safetensors"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("not the file that this delta"), "{}", wrong.stderr);
    let without = sandbox.run(&["unpack", "t.packed.safetensors", "-o", "x"]);
    assert!(without.code == 2 && without.stderr.contains("--delta"), "{}", without.stderr);
    assert!(!sandbox.path("x").exists());
    let tile =
        ["unpack", "t.packed.safetensors", "--delta", "m.safetensors", "--tensor", "b", "--tile", "0,0", "-o", "b"];
    assert_eq!(sandbox.run(&tile).code, 0);
    assert_eq!(std::fs::read(sandbox.path("b")).unwrap().last(), Some(&6));
}
