//! Where the time went: `--profile-table` and `--trace`, on the CPU and on a GPU.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox};
use crate::sound;

const TINY24: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/snac/tiny24");

/// The share in the line `cpu: ... busy 12.3 % of 1 s` of a table.
fn busy(text: &str, device: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{device}: "))).unwrap_or_else(|| panic!("{text}"));
    let share = line.split("busy ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    share.parse().unwrap()
}

fn two_wavs(sandbox: &Sandbox) {
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for seed in 0..2 {
        let wav = sound::wav(22_050, &sound::noise(seed, 22_050));
        std::fs::write(sandbox.path(&format!("w/{seed}.wav")), wav).unwrap();
    }
}

/// Names of the spans of `thread` in a trace.
fn spans(sandbox: &Sandbox, file: &str, thread: &str) -> BTreeSet<String> {
    let trace: Value = serde_json::from_slice(&std::fs::read(sandbox.path(file)).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let lane = events.iter().find(|event| event["ph"] == "M" && event["args"]["name"] == thread);
    let lane = lane.unwrap_or_else(|| panic!("no {thread} in {trace}"));
    let calls = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == lane["tid"]);
    calls.map(|event| event["name"].as_str().unwrap().to_owned()).collect()
}

/// Work in rooms without kernel spans counts too.
#[test]
fn the_cpu_is_busy_in_every_room() {
    let sandbox = Sandbox::new();
    let synth = ["synth", "preset:bright", "--seconds", "2", "--device", "cpu", "--threads", "1", "-o", "a.wav"];
    let ran = sandbox.run(&[&synth[..], &["--profile-table"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(busy(&ran.stderr, "cpu") > 0.0, "{}", ran.stderr);
    let header = ran.stderr.lines().find(|line| line.starts_with("name")).unwrap();
    assert!(header.contains("bytes") && header.contains("allocated"), "{header}");
    let pack = sandbox.run(&["pack", &format!("{TINY24}/model.safetensors"), "-o", "p.safetensors", "--profile-table"]);
    assert_eq!(pack.code, 0, "{}", pack.stderr);
    assert!(pack.stderr.contains("rans encode") && pack.stderr.contains("rans decode"), "{}", pack.stderr);
    two_wavs(&sandbox);
    let build = ["dataset", "build", "w", "-o", "d.h5", "--segment", "1s", "--device", "cpu", "--profile-table"];
    let ran = sandbox.run(&[&build[..], &["--trace", "t.json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows: BTreeSet<&str> = ran.stderr.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in ["read", "compute", "write", "mel"] {
        assert!(rows.contains(name), "{name} in {}", ran.stderr);
    }
    assert!(busy(&ran.stderr, "cpu") > 0.0, "{}", ran.stderr);
}

#[test]
fn a_build_has_device_times_on_cuda() {
    let sandbox = Sandbox::new();
    let args = ["dataset", "build", "w", "--segment", "1s", "--profile-table", "-f", "-o", "d.h5"];
    let Some(mut command) = sandbox.on_cuda(&[&args[..], &["--trace", "t.json", "--json"]].concat()) else { return };
    two_wavs(&sandbox);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(busy(&ran.stderr, "cuda:0") > 0.0, "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let [whole, kernels] = ["device_busy", "kernels_busy"].map(|key| report[key].as_f64().unwrap());
    assert!(0.0 < kernels && kernels <= whole && whole <= 1.0, "{report}");
    let gpu = ran.stderr.lines().find(|line| line.starts_with("cuda:0: ") && line.contains(" in use")).unwrap();
    if std::env::var_os("MELISMA_SHIM").is_some() {
        assert_eq!(gpu, "cuda:0: 1GiB of 4GiB in use, 37 % busy, 123 W");
    }
    let text = Ran::from(sandbox.on_cuda(&args).unwrap().output().unwrap()).stdout;
    let line =
        text.lines().find_map(|line| line.strip_prefix("the device was busy ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" % of the time, its kernels "), "{line}");
    let found = spans(&sandbox, "t.json", "cuda:0");
    assert!(found.contains("mel") && found.contains("copy"), "{found:?}");
}

/// A graph is one span, or its kernels where that is asked for; the sound is the same.
#[test]
fn graphs_are_timed_whole_or_by_kernel_on_cuda() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("codes.json"), "[[1,2],[3,4,5,6],[7,8,9,10,11,12,13,14]]").unwrap();
    let decode = |output: &str, trace: &str, more: &[&str]| {
        let args = ["decode", "codes.json", "--model", TINY24, "--chunk", "1", "-o", output, "--trace", trace];
        let ran = Ran::from(sandbox.on_cuda(&[&args[..], more].concat())?.output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        Some((std::fs::read(sandbox.path(output)).unwrap(), spans(&sandbox, trace, "cuda:0")))
    };
    let Some((sound, whole)) = decode("a.wav", "a.json", &[]) else { return };
    assert!(whole.contains("graph"), "{whole:?}");
    let (same, kernels) = decode("b.wav", "b.json", &["--profile-kernels"]).unwrap();
    assert!(same == sound, "timing is heard");
    assert!(!kernels.contains("graph"), "{kernels:?}");
    for name in ["embed", "upsample", "residual", "head"] {
        assert!(kernels.contains(name), "{name} in {kernels:?}");
    }
}
