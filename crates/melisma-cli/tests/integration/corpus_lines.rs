//! Lines of tokens: merged from shards of columns and of lines, and checked by themselves.

use serde_json::{Value, json};

use crate::corpus_files::{bytes, corpus, encode};
use crate::sandbox::{Ran, Sandbox};

const ORPHEUS: [&str; 3] = ["--format", "orpheus", "--drop-repeats"];

/// Encodes the corpus in three shards, and returns their names.
fn shards(sandbox: &Sandbox, suffix: &str, more: &[&str]) -> Vec<String> {
    let encode_one = |i: usize| {
        let (name, shard) = (format!("{i}.{suffix}"), format!("{i}/3"));
        let (code, _, stderr) = encode(sandbox, &[&["w", "-f", "-o", &name, "--shard", &shard], more].concat());
        assert!(code <= 1, "{stderr}");
        name
    };
    (1..=3).map(encode_one).collect()
}

fn merge(sandbox: &Sandbox, shards: &[String], more: &[&str]) -> Ran {
    let mut args = vec!["dataset", "merge"];
    args.extend(shards.iter().map(String::as_str));
    sandbox.run(&[&args[..], more].concat())
}

fn origin(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_slice(&bytes(sandbox, &format!("{name}.origin.json"))).unwrap()
}

#[test]
fn merged_lines_are_those_of_the_whole() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 7);
    std::fs::write(sandbox.path("w/002.txt"), "two").unwrap();
    std::fs::write(sandbox.path("w/005b.wav"), b"RIFFxxxxWAVE").unwrap();
    for form in [&[][..], &ORPHEUS] {
        assert_eq!(encode(&sandbox, &[&["w", "-f", "-o", "whole.jsonl"], form].concat()).0, 1);
        let mut stores = shards(&sandbox, "safetensors", &[]);
        stores.reverse();
        let ran = merge(&sandbox, &stores, &[&["-f", "-o", "columns.jsonl"], form].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "7 rows of 3 shards\n"), "{}", ran.stderr);
        assert_eq!(origin(&sandbox, "columns.jsonl"), origin(&sandbox, "whole.jsonl"));
        // It is the finished output of the whole.
        let (code, told, stderr) = encode(&sandbox, &[&["w", "-o", "columns.jsonl"], form].concat());
        assert_eq!((code, &told["rows_resumed"]), (1, &json!(7)), "{stderr}");
        let mut lines = shards(&sandbox, "jsonl", form);
        lines.swap(0, 2);
        let ran = merge(&sandbox, &lines, &["-f", "-o", "lines.jsonl"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "7 rows of 3 shards\n"), "{}", ran.stderr);
        let attributes = &origin(&sandbox, "lines.jsonl")["attributes"];
        assert!(attributes["shard"].is_null() && attributes["inputs"].is_null(), "{attributes}");
        for name in ["columns.jsonl", "lines.jsonl"] {
            assert!(bytes(&sandbox, name) == bytes(&sandbox, "whole.jsonl"), "{name} {form:?}");
            let list = |name: &str| bytes(&sandbox, &format!("{name}.failures.jsonl"));
            assert_eq!(list(name), list("whole.jsonl"));
            let ran = sandbox.run(&["dataset", "verify", name]);
            assert!(ran.code == 0 && !ran.stderr.contains("missing"), "{}", ran.stderr);
        }
        assert!(!sandbox.path("columns.jsonl.partial").exists());
    }
    // One that is missing, and one that has changed.
    let names: Vec<String> = ["3.jsonl", "1.jsonl"].map(String::from).to_vec();
    let ran = merge(&sandbox, &names, &["-o", "some.jsonl"]);
    assert!(ran.code == 2 && ran.stderr.contains("1 shard of 3 is missing: 2/3"), "{}", ran.stderr);
    let ran = merge(&sandbox, &names, &["-o", "some.jsonl", "--allow-missing"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(origin(&sandbox, "some.jsonl")["attributes"]["missing_shards"], "2/3");
    assert!(bytes(&sandbox, "some.jsonl") == [bytes(&sandbox, "1.jsonl"), bytes(&sandbox, "3.jsonl")].concat());
    let mut changed = bytes(&sandbox, "3.jsonl");
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(sandbox.path("3.jsonl"), changed).unwrap();
    let before = sandbox.files();
    let ran = merge(&sandbox, &names, &["-o", "other.jsonl", "--allow-missing"]);
    assert!(ran.code == 3 && ran.stderr.contains("3.jsonl: these are not the lines"), "{}", ran.stderr);
    assert_eq!(sandbox.files(), before);
}

#[test]
fn what_is_not_one_form_of_lines_is_refused() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    let (stores, lines) = (shards(&sandbox, "safetensors", &[]), shards(&sandbox, "jsonl", &ORPHEUS));
    for (name, more) in [("keep.jsonl", &[][..]), ("keep-3.jsonl", &["--shard", "3/3"])] {
        assert_eq!(encode(&sandbox, &[&["w", "-o", name], more].concat()).0, 0);
    }
    let spectrograms = ["dataset", "build", "w", "-o", "mel.h5", "--segment", "50ms"];
    assert_eq!(sandbox.run(&spectrograms).code, 0);
    std::fs::write(sandbox.path("2.jsonl.failures.jsonl"), "").unwrap();
    let before = sandbox.files();
    let named = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
    for (shards, more, message) in [
        (
            lines.clone(),
            &["-o", "a.safetensors"][..],
            "1.jsonl: lines have no columns: frames that repeat were dropped",
        ),
        (named(&["keep.jsonl"]), &["-o", "a.h5"], "keep.jsonl: lines have no columns: files that failed"),
        (
            named(&["1.jsonl", "2.jsonl", "2.jsonl.failures.jsonl"]),
            &["-o", "a.jsonl"],
            "2.jsonl.failures.jsonl: this is a list of failures, not a shard",
        ),
        (named(&["1.jsonl", "2.safetensors"]), &["-o", "a.jsonl"], "some shards are lines, and some are not"),
        (
            named(&["1.jsonl", "2.jsonl", "keep-3.jsonl"]),
            &["-o", "a.jsonl"],
            "keep-3.jsonl: its lines have another form",
        ),
        (named(&["1.jsonl", "1.jsonl"]), &["-o", "a.jsonl"], "does not belong to the others"),
        (
            lines.clone(),
            &["-o", "a.jsonl", "--format", "codes"],
            "these lines have another form than the one asked for",
        ),
        (lines, &["-o", "1.jsonl", "-f"], "1.jsonl: this file is an input"),
        (stores.clone(), &["-o", "a.h5", "--format", "orpheus"], "--format orpheus: a.h5 holds codes of every frame"),
        (stores.clone(), &["-o", "a.h5", "--drop-repeats"], "--drop-repeats: a.h5 holds codes of every frame"),
        (stores, &["-o", "a.jsonl", "--store", "hdf5"], "--store hdf5: a.jsonl is a file of lines"),
        (named(&["mel.h5"]), &["-o", "a.jsonl"], "mel.h5: spectrograms have no lines"),
    ] {
        let ran = merge(&sandbox, &shards, more);
        assert!(ran.code == 2 && ran.stderr.contains(message), "{shards:?} {more:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("\nhint: "), "{message}: {}", ran.stderr);
        assert_eq!(sandbox.files(), before, "{message}");
    }
}

#[test]
fn joined_lines_are_checked_one_by_one() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 5);
    let joined: Vec<u8> = shards(&sandbox, "jsonl", &[]).iter().flat_map(|name| bytes(&sandbox, name)).collect();
    std::fs::write(sandbox.path("all.jsonl"), &joined).unwrap();
    let ran = sandbox.run(&["dataset", "verify", "all.jsonl", "--json"]);
    let told = ran.json();
    assert_eq!((ran.code, &told["rows"], &told["bytes"]), (0, &json!(5), &json!(joined.len())), "{}", ran.stderr);
    assert_eq!(told["missing_origin"], "all.jsonl.origin.json");
    let text = String::from_utf8(joined).unwrap();
    let wrong = text.replacen("\"codes\":[[", "\"codes\":[[7,", 1);
    for (content, message) in [
        (&wrong[..], "1 row damaged, the first is row 0, of 000.wav (line 1: its levels have"),
        (&text[..text.len() - 9], "(line 5: "),
    ] {
        std::fs::write(sandbox.path("all.jsonl"), content).unwrap();
        let ran = sandbox.run(&["dataset", "verify", "all.jsonl"]);
        assert!(ran.code == 3 && ran.stderr.contains(message), "{}", ran.stderr);
        assert!(!ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
}
