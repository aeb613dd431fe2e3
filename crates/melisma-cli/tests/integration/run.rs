//! `run` from the outside: arrays in and out, and every refusal.

use std::path::PathBuf;

use melisma::format::{Value as Array, npy};
use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, golden};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/optimize");
    for name in ["vocoder.onnx", "vocoder.x.npy", "control.onnx", "control.x.npy"] {
        std::fs::copy(folder.join(name), sandbox.path(name)).unwrap();
    }
    sandbox
}

/// With a cache of its own, and no library but what is embedded.
fn run(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let mut command = sandbox.command(args);
    command.env("MELISMA_CACHE_DIR", "cache").env("MELISMA_ONNXRUNTIME", "none").env("TERM", "dumb");
    Ran::from(command.output().unwrap())
}

#[test]
fn outputs_are_arrays_with_their_names() {
    let sandbox = sandbox();
    let args = ["run", "control.onnx", "--input", "x=control.x.npy", "-o", "out", "--json", "--device", "cpu"];
    let ran = run(&sandbox, &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let json = ran.json();
    assert_eq!((&json["engine"], &json["device"]), (&"rten".into(), &"cpu".into()));
    assert!(json["wall_seconds"].is_f64());
    assert_eq!(json["outputs"][1]["path"], "out/rows.npy");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([2, 2]));
    let y = npy::read(sandbox.path("out/y.npy")).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [5.0, 7.5, 12.5, 15.0]);
    assert_eq!(npy::read(sandbox.path("out/rows.npy")).unwrap().as_slice::<i64>().unwrap(), [2]);
    assert_eq!(run(&sandbox, &args).code, 2, "outputs are not replaced");
    assert_eq!(run(&sandbox, &[&args[..], &["-f"]].concat()).code, 0);
}

#[test]
fn threads_do_not_change_the_result() {
    let sandbox = sandbox();
    let with = |threads: &str| {
        let out = format!("out{threads}");
        let ran =
            run(&sandbox, &["run", "vocoder.onnx", "--input", "x=vocoder.x.npy", "-o", &out, "--threads", threads]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        std::fs::read(sandbox.path(&format!("{out}/y.npy"))).unwrap()
    };
    assert_eq!(with("1"), with("2"));
}

const RUN: [&str; 8] = ["run", "vocoder.onnx", "--input", "x=vocoder.x.npy", "-o", "out", "-f", "--json"];
const CPU: [&str; 4] = ["--device", "cpu", "--threads", "1"];

fn json(sandbox: &Sandbox, args: &[&str]) -> (Value, String) {
    let ran = run(sandbox, &[args, &CPU].concat());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    (ran.json(), ran.stderr)
}

#[test]
fn the_cached_engine_is_used_whichever_flags_made_it() {
    let sandbox = sandbox();
    let (none, said) = json(&sandbox, &RUN);
    assert_eq!((&none["cached"], &none["engine"], &none["precision"]), (&false.into(), &"rten".into(), &"fp32".into()));
    assert_eq!(said, "engine: rten, fp32, 1 thread, not cached: no engine is cached for this model\n");
    let made = [
        &["optimize", "vocoder.onnx", "--input", "x=1x3x50", "--json", "--engine", "rten", "--tolerance", "0.5"][..],
        &["--precision", "auto"],
    ];
    let (made, _) = json(&sandbox, &made.concat());
    let before = std::fs::read(sandbox.path("out/y.npy")).unwrap();
    let requirements = ["--precision", "auto", "--tolerance", "0.5"];
    let (found, said) = json(&sandbox, &[&RUN[..], &requirements].concat());
    assert_eq!((&found["cached"], &found["cache_key"]), (&true.into(), &made["cache"]["key"]));
    assert_eq!(found["accuracy"]["relative"], made["accuracy"]["relative"]);
    let start = format!("engine: rten, {}, 1 thread, cached as ", found["precision"].as_str().unwrap());
    assert!(
        said.starts_with(&start) && said.contains(": the only cached engine that qualifies; measured p50 "),
        "{said}"
    );
    assert!(found["reason"].as_str().is_some_and(|reason| said.trim_end().ends_with(reason)), "{found}");
    if found["precision"] == "fp32" {
        assert!(json(&sandbox, &RUN).0["cached"] == true, "the flags need not be those of optimize");
        assert_eq!(before, std::fs::read(sandbox.path("out/y.npy")).unwrap());
    }
    let (strict, said) = json(&sandbox, &[&RUN[..], &["--tolerance", "0"]].concat());
    if made["accuracy"]["relative"].as_f64().unwrap() > 0.0 {
        assert_eq!(strict["cached"], false);
        assert!(said.contains("no cached engine qualifies: "), "{said}");
    }
    let (named, said) = json(&sandbox, &[&RUN[..], &["--engine", "melisma"], &requirements].concat());
    assert_eq!((&named["cached"], &named["engine"]), (&false.into(), &"melisma-chain".into()));
    assert!(said.contains("its engine is rten"), "{said}");
    assert_eq!(run(&sandbox, &[&RUN[..], &["--quiet"], &CPU].concat()).stderr, "");
}

#[test]
fn repeated_runs_are_timed() {
    let sandbox = sandbox();
    let once = json(&sandbox, &RUN).0;
    assert_eq!(once["times"]["latency_seconds"], Value::Null);
    assert_eq!(once["times"]["first_seconds"], once["wall_seconds"]);
    let before = std::fs::read(sandbox.path("out/y.npy")).unwrap();
    let many = json(&sandbox, &[&RUN[..], &["--repeat", "6"]].concat()).0;
    let times = &many["times"]["latency_seconds"];
    assert_eq!(times["runs"], 6);
    let figures = ["min", "p50", "p90", "p99"].map(|key| times[key].as_f64().unwrap());
    assert!(figures[0] > 0.0 && figures.is_sorted(), "{times}");
    assert_eq!(before, std::fs::read(sandbox.path("out/y.npy")).unwrap());
    let text = run(&sandbox, &[&RUN[..7], &["--repeat", "3"], &CPU].concat()).stdout;
    let last = text.lines().last().unwrap();
    assert!(last.contains(": first run ") && last.contains("; then p50 ") && last.ends_with(" (3 runs)"), "{last}");
    let refused = run(&sandbox, &[&RUN[..], &["--repeat", "1000001"]].concat());
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn an_objective_ranks_cached_engines() {
    let sandbox = sandbox();
    let make = ["optimize", "vocoder.onnx", "--input", "x=1x3x50", "--json", "--objective", "memory"];
    let (made, _) = json(&sandbox, &make);
    assert_eq!((&made["objective"], &made["cache"]["hit"]), (&"memory".into(), &false.into()));
    // What the memory of two programs is beside each other depends on the machine.
    let answer = made["comparison"]["answer"].as_str().unwrap();
    assert!(answer.contains(" % of the memory of ") || answer.contains("needs no more memory"), "{answer}");
    assert_eq!(json(&sandbox, &make).0["cache"]["hit"], true);
    let (found, said) = json(&sandbox, &[&RUN[..], &["--objective", "memory"]].concat());
    assert_eq!(found["cache_key"], made["cache"]["key"]);
    assert!(said.contains(", searched for the least memory"), "{said}");
    let (median, _) = json(&sandbox, &["optimize", "vocoder.onnx", "--input", "x=1x3x50", "--json"]);
    assert_eq!(median["cache"]["hit"], false, "another objective is another search");
}

#[test]
fn damage_is_never_served() {
    let sandbox = sandbox();
    let make = ["optimize", "vocoder.onnx", "--input", "x=1x3x50", "--json", "--engine", "rten"];
    let (made, _) = json(&sandbox, &make);
    let folder = sandbox.path("cache/engines").join(made["cache"]["key"].as_str().unwrap());
    assert!(json(&sandbox, &RUN).0["cached"] == true);
    let mut bytes = std::fs::read(folder.join("model.packed")).unwrap();
    let time = std::fs::metadata(folder.join("model.packed")).unwrap().modified().unwrap();
    bytes[40] ^= 1;
    std::fs::write(folder.join("model.packed"), bytes).unwrap();
    let file = std::fs::File::options().append(true).open(folder.join("model.packed")).unwrap();
    file.set_modified(time).unwrap();
    let (ran, said) = json(&sandbox, &RUN);
    assert_eq!(ran["cached"], false, "also with the size and the time that it had");
    assert!(said.contains("note: the entry was set aside: model.packed: its content changed\n"), "{said}");
}

#[test]
fn wrong_terms_are_refused() {
    let sandbox = sandbox();
    for (args, code, message) in [
        (&["--engine", "warp"][..], 2, "unknown engine `warp`\nhint: use auto, rten"),
        (&["--tolerance=-1"], 2, "tolerance: -1 is not 0 or more"),
        (&["--precision", "bf16"], 2, "invalid value 'bf16'"),
        (&["--engine", "onnxruntime"], 4, "MELISMA_ONNXRUNTIME: no library at none\nhint: "),
        (&["--engine", "onnxruntime-cuda"], 2, "the engine onnxruntime-cuda does not work on cpu"),
    ] {
        let ran = run(&sandbox, &[&RUN[..], args, &CPU].concat());
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
    std::fs::write(sandbox.path("a.yaml"), "precision: bf16\n").unwrap();
    let ran = run(&sandbox, &[&RUN[..], &["--config", "a.yaml"], &CPU].concat());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: no engine runs ONNX models in bf16\nhint: "), "{}", ran.stderr);
    let overridden = run(&sandbox, &[&RUN[..], &["--config", "a.yaml", "--precision", "fp32"], &CPU].concat());
    assert_eq!(overridden.code, 0, "{}", overridden.stderr);
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
    write("wide.npy", &npy::encode(&Array::from_slice(&[0f32; 8], &[2, 4]).unwrap()));
    write("ints.npy", &npy::encode(&Array::from_slice(&[0i64; 6], &[2, 3]).unwrap()));
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
        let ran = run(&sandbox, args);
        assert!(ran.code != 0 && ran.stdout.is_empty(), "{args:?}: {}", ran.stdout);
        let said = without_program_bytes(&ran.stderr);
        text += &format!("$ melisma {}\n{said}[{}]\n\n", args.join(" "), ran.code);
    }
    assert!(!sandbox.path("out").exists(), "nothing is left behind");
    assert_eq!(std::fs::read_to_string(sandbox.path("taken/y.npy")).unwrap(), "kept");
    golden("run_errors.txt", &text);
}

/// Replaces the memory of the program itself, which differs from run to run.
fn without_program_bytes(stderr: &str) -> String {
    let line = |line: &str| match line.split_once(", beside ") {
        Some((note, _)) if note.starts_with("note: the limit counts ") => {
            format!("{note}, beside SIZE of the program itself\n")
        }
        _ => format!("{line}\n"),
    };
    stderr.lines().map(line).collect()
}
