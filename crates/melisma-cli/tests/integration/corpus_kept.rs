//! Columns of a table in corpora, speakers before texts, silence and loudness, and rows that are repaired.

use serde_json::json;

use crate::corpus_files::{bytes, corpus, encode, lines, model};
use crate::sandbox::Sandbox;
use crate::sound::{noise, wav};

const TABLE: &str = "path|text|lang|who\n000.wav|One.|en|tara\n001.wav|Two.|de|leo\n002.wav|Three.|fr|\n";

#[test]
fn columns_and_speakers_of_a_table_are_in_the_lines() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    std::fs::write(sandbox.path("t.csv"), TABLE).unwrap();
    let table = ["w", "--metadata", "t.csv", "--text-column", "text"];
    let kept = ["--keep-column", "lang,who", "--speaker-column", "who"];
    let args = [&table[..], &kept, &["-o", "a.jsonl", "--format", "orpheus", "--drop-repeats"]].concat();
    let (code, _, stderr) = encode(&sandbox, &args);
    assert_eq!(code, 0, "{stderr}");
    let rows = lines(&sandbox, "a.jsonl");
    let row = &rows[1];
    assert_eq!((&row["text"], &row["source"], &row["who"]), (&json!("leo: Two."), &json!("leo"), &json!("leo")));
    assert_eq!((&row["lang"], &rows[2]["text"]), (&json!("de"), &json!("Three.")));
    assert_eq!(sandbox.run(&["dataset", "verify", "a.jsonl"]).code, 0);
    let info = sandbox.run(&["dataset", "info", "a.jsonl"]);
    assert!(info.stdout.contains("melisma.kept: source,lang,who"), "{}", info.stdout);
    for (more, words) in [
        (&["--keep-column", "age"][..], "no column `age` in its first line"),
        (&["--keep-column", "text"], "`text` cannot be kept"),
        (&["--speaker-column", "voice"], "no column `voice` in its first line"),
    ] {
        let (code, _, stderr) = encode(&sandbox, &[&table[..], more, &["-o", "b.h5"]].concat());
        assert!(code == 2 && stderr.contains(words), "{more:?}: {stderr}");
    }
    let (code, _, stderr) = encode(&sandbox, &["w", "-o", "b.h5", "--keep-column", "lang"]);
    assert!(code == 2 && stderr.contains("--metadata"), "{stderr}");
}

#[test]
fn silence_and_loudness_are_counted_by_reason() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 2);
    std::fs::write(sandbox.path("w/silent.wav"), wav(24_000, &[0.0; 24_000])).unwrap();
    let mut click: Vec<f32> = noise(5, 24_000).iter().map(|sample| sample / 20.0).collect();
    click[9000] = 0.9;
    std::fs::write(sandbox.path("w/click.wav"), wav(24_000, &click)).unwrap();
    let short = ["w", "--trim", "--trim-margin", "0", "--loudness", "-20", "-o", "a.safetensors"];
    let (code, told, stderr) = encode(&sandbox, &short);
    assert_eq!((code, &told["files_ok"], &told["files_peak_limited"]), (1, &json!(1), &json!(1)), "{stderr}");
    assert_eq!(told["failures_by_code"], json!({ "peak-limited": 1, "silent": 1, "too-short": 2 }), "{stderr}");
    assert!(stderr.contains("1 file is quieter than asked, because of its peaks"), "{stderr}");
    assert!(stderr.contains("by reason: 2 too-short, 1 silent"), "{stderr}");
    for (more, words) in [
        (&["--trim", "--trim-threshold", "0"][..], "a threshold of silence of 0 dB is out of range"),
        (&["--trim", "--trim-margin", "-1"], "a margin of silence of -1 s is out of range"),
        (&["--loudness", "1"], "a loudness of 1 LUFS is out of range"),
        (&["--trim-margin", "1"], "--trim"),
    ] {
        let (code, _, stderr) = encode(&sandbox, &[&["w", "-o", "b.h5"], more].concat());
        assert!(code == 2 && stderr.contains(words), "{more:?}: {stderr}");
    }
}

#[test]
fn damaged_rows_are_rebuilt_from_the_original_audio() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    std::fs::write(sandbox.path("t.csv"), TABLE).unwrap();
    let table = ["--metadata", "t.csv", "--text-column", "text", "--speaker-column", "who"];
    let args = [&["w", "-o", "a.h5", "--keep-column", "lang", "--trim"], &table[..]].concat();
    assert_eq!(encode(&sandbox, &args).0, 0);
    let whole = bytes(&sandbox, "a.h5");
    let at = whole.windows(12).position(|bytes| bytes == b"leo: Two.Thr").unwrap();
    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    std::fs::write(sandbox.path("a.h5"), &damaged).unwrap();
    assert_eq!(sandbox.run(&["dataset", "verify", "a.h5"]).code, 3);
    let model = model();
    let verify = ["dataset", "verify", "a.h5", "--json", "--device", "cpu"];
    let repair = [&verify[..], &["--repair", "--from", "w", "--model", &model], &table].concat();
    let ran = sandbox.run(&repair);
    let told = ran.json();
    assert_eq!((ran.code, &told["rebuilt"], &told["damaged"]), (0, &json!([1]), &json!(0)), "{}", ran.stderr);
    assert!(bytes(&sandbox, "a.h5") == whole);
    std::fs::write(sandbox.path("a.h5"), &damaged).unwrap();
    std::fs::remove_file(sandbox.path("w/002.wav")).unwrap();
    let ran = sandbox.run(&repair);
    assert!(ran.code == 2 && ran.stderr.contains("002.wav is missing among them"), "{}", ran.stderr);
    let ran = sandbox.run(&[&verify[..], &["--repair", "--from", "w"]].concat());
    assert!(ran.code == 2 && ran.stderr.contains("its codes are of the model"), "{}", ran.stderr);
    let ran = sandbox.run(&[&verify[..], &["--repair"]].concat());
    assert!(ran.code == 2 && ran.stderr.contains("--from"), "{}", ran.stderr);
    assert!(bytes(&sandbox, "a.h5") == damaged);
}

#[test]
fn a_corpus_of_a_list_is_repaired_with_that_list() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    std::fs::write(sandbox.path("names"), "000.wav\n002.wav\n").unwrap();
    assert_eq!(encode(&sandbox, &["--list", "names", "--root", "w", "-o", "a.h5"]).0, 0);
    let whole = bytes(&sandbox, "a.h5");
    let mut damaged = whole.clone();
    let at = damaged.windows(14).position(|bytes| bytes == b"000.wav002.wav").unwrap();
    damaged[at] ^= 1;
    let model = model();
    let verify =
        ["dataset", "verify", "a.h5", "--json", "--device", "cpu", "--model", &model, "--repair", "--root", "w"];
    for list in ["names", "-"] {
        std::fs::write(sandbox.path("a.h5"), &damaged).unwrap();
        let mut command = sandbox.command(&[&verify[..], &["--list", list]].concat());
        command.stdin(std::fs::File::open(sandbox.path("names")).unwrap());
        let told = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.code(), Some(0), "{list}: {stderr}");
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(told["rebuilt"], json!([0]), "{list}");
        assert!(bytes(&sandbox, "a.h5") == whole, "{list}");
    }
    let ran = sandbox.run(&["dataset", "verify", "a.h5", "--list", "names"]);
    assert!(ran.code == 2 && ran.stderr.contains("--repair"), "{}", ran.stderr);
}
