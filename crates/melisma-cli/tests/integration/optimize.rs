//! `optimize` and `cache` from the outside.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, golden};

/// A sandbox with a model, a cache and no library but what is embedded.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/optimize");
    for name in ["vocoder.onnx", "vocoder.x.npy"] {
        std::fs::copy(models.join(name), sandbox.path(name)).unwrap();
    }
    sandbox
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let mut command = sandbox.command(args);
    command.env("MELISMA_CACHE_DIR", "cache").env("MELISMA_DEVICE", "cpu").env("TERM", "dumb");
    Ran::from(command.env("MELISMA_ONNXRUNTIME", "none").output().unwrap())
}

fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ran = run(sandbox, &[args, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    let value = ran.json();
    assert_eq!(value["device"], "cpu");
    value
}

const OPTIMIZE: [&str; 4] = ["optimize", "vocoder.onnx", "--input", "x=1x3x64"];

#[test]
fn the_second_time_is_a_hit() {
    let sandbox = sandbox();
    let first = json(&sandbox, &OPTIMIZE);
    assert_eq!(first["cache"]["hit"], false);
    assert!(["rten", "melisma-chain"].contains(&first["engine"].as_str().unwrap()), "{}", first["engine"]);
    assert!(
        Path::new(first["cache"]["path"].as_str().unwrap()).join("manifest.json").is_file() || {
            sandbox.path(first["cache"]["path"].as_str().unwrap()).join("manifest.json").is_file()
        }
    );
    for key in ["p50", "p90", "p99"] {
        assert!(first["latency_seconds"][key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(first["memory_bytes"]["peak"].as_u64().unwrap() > 1 << 20, "of the candidate's own process");
    assert!(first["memory_bytes"]["program"].as_u64().unwrap() > 1 << 20, "without a model");
    assert!(first["accuracy"]["max_abs"].as_f64().unwrap() < 1e-5);
    assert!(first["accuracy"]["cosine"].as_f64().unwrap() > 0.999_999);
    assert!(!first["candidates"].as_array().unwrap().is_empty());
    let second = json(&sandbox, &OPTIMIZE);
    assert_eq!((&second["cache"]["hit"], &second["cache"]["key"]), (&Value::Bool(true), &first["cache"]["key"]));
    let text = run(&sandbox, &OPTIMIZE);
    for line in ["best ", "latency ", "memory ", "accuracy ", "cache     hit", "engine "] {
        assert!(text.stdout.lines().any(|found| found.starts_with(line)), "{line} in {}", text.stdout);
    }
    let last = text.stdout.lines().last().unwrap();
    assert!(
        last.starts_with("answer    ") && last.ends_with(first["comparison"]["answer"].as_str().unwrap()),
        "{last}"
    );
    assert!(
        last.contains("the embedded engine's default (rten, fp32, ") && last.contains(" on this machine (p50 "),
        "{last}"
    );
    for table in std::iter::once(&first["operators"]).chain(first["other_operators"].as_array().unwrap()) {
        let has_rows = table.as_array().or(table["operators"].as_array()).is_some_and(|rows| !rows.is_empty());
        assert!(has_rows || table["missing"].is_string() || first["operators_missing"].is_string(), "{table}");
    }
    assert!(text.stdout.contains("\noperator of ") && !text.stdout.contains("they are unknown"), "{}", text.stdout);
    assert!(text.stdout.contains("\ninput     x: generated: numbers from a normal distribution, 3 draws\n"));
    let other = json(&sandbox, &["optimize", "vocoder.onnx", "--input", "x=1x3x64", "--tolerance", "0.5"]);
    assert!(other["cache"]["reason"].as_str().unwrap().contains("tolerance: 1e-3 -> 5e-1"), "{}", other["cache"]);
    let under = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = sandbox.command(&[&OPTIMIZE[..], args, &["--json"]].concat());
        command.env("MELISMA_CACHE_DIR", "cache").env("MELISMA_DEVICE", "cpu").env("MELISMA_ONNXRUNTIME", "none");
        let ran = Ran::from(command.envs(variables.iter().copied()).output().unwrap());
        serde_json::from_str::<Value>(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr))["cache"]["key"].clone()
    };
    assert_eq!(under(&[("MELISMA_TOLERANCE", "0.5")], &[]), other["cache"]["key"], "the variable is the flag's twin");
    assert_eq!(
        under(&[("MELISMA_TOLERANCE", "0.5")], &["--tolerance", "1e-3"]),
        first["cache"]["key"],
        "the flag wins"
    );
    std::fs::write(sandbox.path("a.yaml"), "tolerance: 0.5\nprecision: int8\n").unwrap();
    let file = ["--config", "a.yaml"];
    assert_eq!(under(&[("MELISMA_PRECISION", "fp32")], &file), other["cache"]["key"], "the variable above the file");
    assert_eq!(
        under(
            &[("MELISMA_TOLERANCE", "7"), ("MELISMA_PRECISION", "int8")],
            &["--tolerance", "1e-3", "--precision", "fp32"]
        ),
        first["cache"]["key"]
    );
}

#[test]
fn the_cache_is_listed_verified_and_cleared() {
    let sandbox = sandbox();
    let empty = run(&sandbox, &["cache", "list"]);
    golden("cache_list_empty.txt", &empty.stdout);
    let first = json(&sandbox, &OPTIMIZE);
    let listed = json(&sandbox, &["cache", "list"]);
    let entry = &listed["engines"][0];
    assert_eq!((&entry["key"], &entry["state"]), (&first["cache"]["key"], &Value::from("good")));
    assert_eq!(entry["note"], "made because: no engine is cached for this model");
    assert_eq!((&entry["model"], &entry["inputs"][0]["name"]), (&"vocoder.onnx".into(), &"x".into()));
    assert_eq!(entry["inputs"][0]["shape"], serde_json::json!([1, 3, 64]));
    let table = run(&sandbox, &["cache", "list"]).stdout;
    let row = table.lines().find(|line| line.contains(&entry["key"].as_str().unwrap()[..12])).unwrap();
    assert!(row.contains(" vocoder.onnx ") && row.contains(" x=1x3x64 "), "{table}");
    assert_eq!(run(&sandbox, &["cache", "verify"]).code, 0);
    let model = sandbox.path("cache/engines").join(entry["key"].as_str().unwrap()).join("model.packed");
    let mut bytes = std::fs::read(&model).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&model, bytes).unwrap();
    let damaged = run(&sandbox, &["cache", "verify"]);
    assert_eq!(damaged.code, 3);
    assert!(damaged.stderr.contains("model.packed: its content changed\nhint: "), "{}", damaged.stderr);
    let again = json(&sandbox, &OPTIMIZE);
    assert_eq!(again["cache"]["hit"], false, "never the damaged one");
    let gone = json(&sandbox, &["cache", "clear"]);
    assert_eq!(gone["engines"], 1);
    assert!(json(&sandbox, &["cache", "list"])["engines"].as_array().unwrap().is_empty());
}

#[test]
fn many_processes_make_one_engine() {
    let sandbox = sandbox();
    let start = || {
        let mut command = sandbox.command(&[&OPTIMIZE[..], &["--json"]].concat());
        command.env("MELISMA_CACHE_DIR", "cache").env("MELISMA_DEVICE", "cpu").env("MELISMA_ONNXRUNTIME", "none");
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..8).map(|_| start()).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    let built = outputs.filter(|output| {
        assert!(output.status.success());
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["cache"]["hit"] == false
    });
    assert_eq!(built.count(), 1);
}

#[test]
fn without_a_cache_it_works_and_says_so() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("cache"), b"a file").unwrap();
    let ran = run(&sandbox, &[&OPTIMIZE[..], &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("note: the cache cannot be used: "), "{}", ran.stderr);
    let value = ran.json();
    assert_eq!((&value["cache"]["hit"], &value["cache"]["path"]), (&Value::Bool(false), &Value::Null));
}

#[test]
fn wrong_requests_are_code_2_with_a_hint() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("not.onnx"), b"RIFF....WAVE").unwrap();
    for (args, message) in [
        (&["optimize", "vocoder.onnx"][..], "input `x`: its shape f32[1, 3, time] is not fixed"),
        (&["optimize", "vocoder.onnx", "--input", "x=1xT"], "input `x=1xT`: this is not a shape"),
        (&["optimize", "vocoder.onnx", "--input", "y=1"], "the model has no input `y`"),
        (&["optimize", "none.onnx", "--input", "x=1"], "none.onnx: "),
        (&["optimize", "not.onnx", "--input", "x=1"], "not.onnx: "),
        (&["optimize", "/dev/zero"], "/dev/zero: not a plain file"),
        (&["optimize", "vocoder.onnx", "--input", "x=1x3x64", "--tolerance=-1"], "tolerance: -1 is not 0 or more"),
        (&["optimize", "vocoder.onnx", "--input", "x=1x3x64", "--engine", "warp"], "unknown engine `warp`"),
        (&["optimize", "vocoder.onnx", "--input", "x=1x3x64", "--objective", "p95"], "invalid value 'p95'"),
    ] {
        let ran = run(&sandbox, args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message) && !ran.stderr.contains("rten: rten"), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("hint: ")).count(), 1, "{args:?}: {}", ran.stderr);
    }
    let named = run(&sandbox, &["optimize", "vocoder.onnx", "--input", "x=1x3x64", "--engine", "onnxruntime"]);
    assert_eq!(named.code, 4, "{}", named.stderr);
    assert!(named.stderr.contains("MELISMA_ONNXRUNTIME: no library at none\nhint: "), "{}", named.stderr);
}
