//! `run` from the outside: arrays in and out, and every refusal.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

mod melisma;

use std::path::PathBuf;

use ::melisma::optimize::{Value as Array, npy};
use melisma::{Sandbox, golden};
use serde_json::Value;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/optimize");
    for name in ["vocoder.onnx", "vocoder.x.npy", "control.onnx", "control.x.npy"] {
        std::fs::copy(folder.join(name), sandbox.path(name)).unwrap();
    }
    sandbox
}

#[test]
fn outputs_are_arrays_with_their_names() {
    let sandbox = sandbox();
    let args = ["run", "control.onnx", "--input", "x=control.x.npy", "-o", "out", "--json", "--device", "cpu"];
    let ran = sandbox.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["engine"], &json["device"]), (&"rten".into(), &"cpu".into()));
    assert!(json["wall_seconds"].is_f64());
    assert_eq!(json["outputs"][1]["path"], "out/rows.npy");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([2, 2]));
    let y = npy::read(&sandbox.path("out/y.npy")).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [5.0, 7.5, 12.5, 15.0]);
    assert_eq!(npy::read(&sandbox.path("out/rows.npy")).unwrap().as_slice::<i64>().unwrap(), [2]);
    assert_eq!(sandbox.run(&args).code, 2, "outputs are not replaced");
    assert_eq!(sandbox.run(&[&args[..], &["-f"]].concat()).code, 0);
}

#[test]
fn threads_do_not_change_the_result() {
    let sandbox = sandbox();
    let run = |threads: &str| {
        let out = format!("out{threads}");
        let ran = sandbox.run(&["run", "vocoder.onnx", "--input", "x=vocoder.x.npy", "-o", &out, "--threads", threads]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        std::fs::read(sandbox.path(&format!("{out}/y.npy"))).unwrap()
    };
    assert_eq!(run("1"), run("2"));
}

#[test]
fn bad_input_is_named() {
    let sandbox = sandbox();
    let model = std::fs::read(sandbox.path("control.onnx")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(sandbox.path(name), bytes).unwrap();
    write("cut.onnx", &model[..model.len() / 2]);
    write("text.onnx", b"this is not a model");
    write("empty.onnx", b"");
    let renamed = |from: &[u8], to: &[u8]| {
        let at = model.windows(from.len()).position(|window| window == from).unwrap();
        let mut bytes = model.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    write("unknown.onnx", &renamed(b"ReduceSum", b"ReduceSun"));
    write("missing.onnx", &renamed(b"starts", b"startz"));
    write("wide.npy", &npy::write(&Array::from_slice(&[0f32; 8], &[2, 4]).unwrap()));
    write("ints.npy", &npy::write(&Array::from_slice(&[0i64; 6], &[2, 3]).unwrap()));
    std::fs::create_dir(sandbox.path("taken")).unwrap();
    std::fs::write(sandbox.path("taken/y.npy"), "kept").unwrap();
    let mut text = String::new();
    for args in [
        &["run", "control.onnx", "--input", "x=control.x.npy"][..],
        &["run", "absent.onnx", "-o", "out"],
        &["run", "empty.onnx", "-o", "out"],
        &["run", "text.onnx", "-o", "out"],
        &["run", "cut.onnx", "-o", "out"],
        &["run", "/dev/zero", "-o", "out"],
        &["run", "taken", "-o", "out"],
        &["run", "missing.onnx", "-o", "out"],
        &["run", "unknown.onnx", "--input", "x=control.x.npy", "-o", "out"],
        &["run", "control.onnx", "-o", "out"],
        &["run", "control.onnx", "--input", "control.x.npy", "-o", "out"],
        &["run", "control.onnx", "--input", "z=control.x.npy", "-o", "out"],
        &["run", "control.onnx", "--input", "x=absent.npy", "-o", "out"],
        &["run", "control.onnx", "--input", "x=text.onnx", "-o", "out"],
        &["run", "control.onnx", "--input", "x=/dev/zero", "-o", "out"],
        &["run", "control.onnx", "--input", "x=wide.npy", "-o", "out"],
        &["run", "control.onnx", "--input", "x=ints.npy", "-o", "out"],
        &["run", "control.onnx", "--input", "x=control.x.npy", "--input", "x=control.x.npy", "-o", "out"],
        &["run", "control.onnx", "--input", "x=control.x.npy", "-o", "taken"],
        &["run", "control.onnx", "--input", "x=control.x.npy", "-o", "out", "--device", "cuda:0"],
        &["run", "control.onnx", "--input", "x=control.x.npy", "-o", "out", "--memory-limit", "200"],
    ] {
        let ran = sandbox.run(args);
        assert!(ran.code != 0 && ran.stdout.is_empty(), "{args:?}: {}", ran.stdout);
        text += &format!("$ melisma {}\n{}[{}]\n\n", args.join(" "), ran.stderr, ran.code);
    }
    assert!(!sandbox.path("out").exists(), "nothing is left behind");
    assert_eq!(std::fs::read_to_string(sandbox.path("taken/y.npy")).unwrap(), "kept");
    golden("run_errors.txt", &text);
}
