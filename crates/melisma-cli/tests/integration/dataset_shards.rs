//! Shards, stores, `dataset info`, `verify` and `merge`, and `melisma mel`.

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::sound::{self, noise, wav};

fn corpus(sandbox: &Sandbox) {
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for i in 0..9 {
        let name = format!("w/{}.wav", "n".repeat(1 + i));
        std::fs::write(sandbox.path(&name), wav(16_000, &noise(i as u64, 4000 + 900 * i))).unwrap();
    }
    std::fs::write(sandbox.path("w/nnnnbad.wav"), b"RIFFxxxxWAVE").unwrap();
}

fn json(sandbox: &Sandbox, code: i32, args: &[&str]) -> Value {
    let mut all = vec!["--json", "--device", "cpu"];
    all.extend(args);
    let ran = sandbox.run(&all);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap_or_default()
}

const PRESET: [&str; 4] = ["--preset", "whisper-80", "--segment", "150ms"];

#[test]
fn merged_shards_are_the_bytes_of_the_whole() {
    let sandbox = Sandbox::new();
    corpus(&sandbox);
    for (suffix, merged) in [("h5", "m.h5"), ("safetensors", "m.safetensors")] {
        let whole = format!("whole.{suffix}");
        json(&sandbox, 1, &[&["dataset", "build", "w", "-o", &whole][..], &PRESET].concat());
        let mut shards = Vec::new();
        for i in 1..=3 {
            let (name, shard) = (format!("{i}.{suffix}"), format!("{i}/3"));
            let args = [&["dataset", "build", "w", "-o", &name, "--shard", &shard][..], &PRESET].concat();
            let ran = sandbox.run(&args);
            assert!(ran.code == 0 || ran.code == 1, "{}", ran.stderr);
            shards.push(name);
        }
        let args = ["dataset", "merge", &shards[2], &shards[0], &shards[1], "-o", merged];
        json(&sandbox, 0, &args);
        let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
        assert!(read(merged) == read(&whole), "{merged} differs from {whole}");
        assert_eq!(read(&format!("{merged}.failures.jsonl")), read(&format!("{whole}.failures.jsonl")));
        assert_eq!(sandbox.run(&["dataset", "merge", &shards[0], &shards[0], "-o", "twice.h5"]).code, 2);
    }
}

#[test]
fn every_store_holds_the_same_rows_and_damage_is_found() {
    let sandbox = Sandbox::new();
    corpus(&sandbox);
    let mut all = Vec::new();
    for name in ["a.h5", "a.safetensors", "a"] {
        json(&sandbox, 1, &[&["dataset", "build", "w", "-o", name][..], &PRESET].concat());
        let info = json(&sandbox, 0, &["dataset", "info", name]);
        assert_eq!(info["columns"]["mel"]["shape"][1], 80);
        assert_eq!(info["attributes"]["preset"], "whisper-80");
        let verified = json(&sandbox, 0, &["dataset", "verify", name]);
        assert_eq!((&verified["rows"], verified["damaged"].as_u64()), (&info["rows"], Some(0)));
        all.push(sound::rows(&sandbox.path(name)));
        // Again: nothing to do, and the same code.
        json(&sandbox, 1, &[&["dataset", "build", "w", "-o", name][..], &PRESET].concat());
    }
    assert!(all[0] == all[1] && all[0] == all[2] && !all[0].is_empty());
    let mut bytes = std::fs::read(sandbox.path("a.h5")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(sandbox.path("a.h5"), &bytes).unwrap();
    let ran = sandbox.run(&["dataset", "verify", "a.h5"]);
    assert!(ran.code == 3 && ran.stderr.contains("1 row damaged, the first is row"), "{}", ran.stderr);
    for name in ["w/n.wav", "absent.h5", "w"] {
        assert_eq!(sandbox.run(&["dataset", "info", name]).code, 2, "{name}");
    }
}

#[test]
fn other_rates_and_formats_are_taken() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    std::fs::write(sandbox.path("w/a.wav"), wav(44_100, &noise(1, 30_000))).unwrap();
    std::fs::write(sandbox.path("w/b.wav"), wav(16_000, &noise(2, 12_000))).unwrap();
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/mel");
    std::fs::copy(golden.join("tone.flac"), sandbox.path("w/c.flac")).unwrap();
    std::fs::copy(golden.join("tone.mp3"), sandbox.path("w/d.mp3")).unwrap();
    let built = |name: &str, more: &[&str]| {
        let args =
            [&["dataset", "build", "w", "-o", name, "--segment", "100ms", "--segment-hop", "60ms"][..], more].concat();
        json(&sandbox, 0, &args)
    };
    let first = built("a.h5", &["--threads", "1"]);
    assert_eq!((first["files_ok"].as_u64(), first["files_resampled"].as_u64()), (Some(4), Some(4)));
    built("b.h5", &["--threads", "3", "--seg-microbatch-segments", "2"]);
    assert!(std::fs::read(sandbox.path("a.h5")).unwrap() == std::fs::read(sandbox.path("b.h5")).unwrap());
    assert!(sound::rows(&sandbox.path("a.h5")).iter().all(|row| row.status == 0 && !row.is_zero));
}

#[test]
fn mel_writes_npy_safetensors_and_pictures() {
    let sandbox = Sandbox::new();
    for name in ["a.wav", "b.wav"] {
        std::fs::write(sandbox.path(name), wav(16_000, &noise(3, 16_000))).unwrap();
    }
    let done = json(&sandbox, 0, &["mel", "a.wav", "-o", "a.npy", "--preset", "whisper-80"]);
    assert_eq!(done["files"][0]["shape"], serde_json::json!([80, 100]));
    assert_eq!(done["files"][0]["resampled"], false);
    assert!(std::fs::read(sandbox.path("a.npy")).unwrap().starts_with(b"\x93NUMPY"));
    json(&sandbox, 0, &["mel", "a.wav", "-o", "a.png", "--preset", "torchaudio"]);
    json(&sandbox, 0, &["mel", "a.wav", "b.wav", "-o", "ab.safetensors", "--preset", "kaldi-fbank"]);
    let file = std::fs::read(sandbox.path("ab.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    assert_eq!(tensors.tensor("a").unwrap().shape(), [98, 80]);
    assert_eq!(tensors.tensor("a").unwrap().data(), tensors.tensor("b").unwrap().data());
    json(&sandbox, 0, &["mel", "a.wav", "b.wav", "-o", "both", "--preset", "hifigan", "--set", "sample_rate=16000"]);
    assert!(sandbox.path("both/a.npy").exists() && sandbox.path("both/b.npy").exists());
    for (args, message) in [
        (&["mel", "a.wav", "-o", "a.npy"][..], "exists already"),
        (&["mel", "a.wav", "b.wav", "-o", "c.npy"], "one file cannot hold 2"),
        (&["mel", "a.wav", "-o", "c.jpg"], "unknown output suffix `.jpg`"),
        (&["mel", "absent.wav", "-o", "c.npy"], "absent.wav: "),
        (&["mel", "a.wav", "-o", "c.npy", "--set", "n_mel=3"], "unknown key"),
    ] {
        let ran = sandbox.run(args);
        assert!(ran.code == 2 && ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn mel_lists_presets_and_keys() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["mel", "--list", "--preset", "whisper-80", "--set", "n_mels=64"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for text in ["kaldi-fbank", "center-drop-last", "Keys of --set, with the values of `whisper-80`:"] {
        assert!(ran.stdout.contains(text), "{}", ran.stdout);
    }
    let line = |key: &str| ran.stdout.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(
        line("n_mels").contains(" 64 ") && line("hop_length").contains(" 160 ") && line("f_max").contains(" none ")
    );
    let listed = json(&sandbox, 0, &["mel", "--list"]);
    let keys: Vec<&str> = listed["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect();
    let help = sandbox.run(&["mel", "--help"]).stdout;
    assert!(keys.len() == 23 && keys.iter().all(|key| help.contains(key)), "{keys:?}");
    assert_eq!(sandbox.run(&["mel", "--list", "a.wav", "-o", "a.npy"]).code, 2);
    assert_eq!(sandbox.run(&["mel"]).code, 2);
}

#[test]
fn plans_name_the_limit() {
    let sandbox = Sandbox::new();
    let record = r#"{"machine": "m", "device": "cpu", "rows": [
        {"name": "dataset/build, times real time", "unit": "x", "median": 20000.0},
        {"name": "pack/encode layer bf16 avx2 2t", "unit": "GB/s", "median": 2.0},
        {"name": "pack/decode layer bf16 avx2 2t", "unit": "GB/s", "median": 2.0}]}"#;
    std::fs::write(sandbox.path("m.json"), record).unwrap();
    let plan = |args: &[&str]| json(&sandbox, 0, &[&["dataset", "plan", "--machine", "m.json"], args].concat());
    let hours = plan(&["--hours", "1000000", "--within", "24h"]);
    assert_eq!((&hours["machines"], &hours["build_seconds"]), (&3.into(), &60_000.0.into()), "{hours}");
    assert_eq!((&hours["limited_by"], &hours["merge_seconds"]), (&"computing".into(), &Value::Null));
    let slow = plan(&["--hours", "1000", "--storage", "100MB"]);
    assert_eq!(slow["limited_by"], "the shared storage");
    let packed = plan(&["--job", "pack", "--size", "8GB"]);
    assert_eq!((&packed["seconds"], &packed["storage_bytes"]), (&8.0.into(), &16_000_000_000_u64.into()));
    for (args, text) in [
        (&["--hours", "0"][..], "use a number of hours above 0"),
        (&["--hours", "1", "--job", "pack"], "--job pack needs --size"),
        (&["--size", "1GB"], "--job mel needs --hours"),
        (&["--hours", "1", "--job", "tokens"], "no row for a build of this dataset"),
        (&["--hours", "1", "--network", "0"], "--network 0: must be more than 0"),
        (&["--hours", "1", "--network", "fast"], "--network"),
        (&["--hours", "1", "--machine", "w.json"], "w.json"),
    ] {
        let ran = sandbox.run(&[&["dataset", "plan", "--machine", "m.json"], args].concat());
        assert!(ran.code == 2 && ran.stderr.contains(text), "{args:?}: {}", ran.stderr);
    }
}
