//! `melisma encode` of many files: what it writes, that a kill loses nothing, and shards.

use std::process::Stdio;
use std::time::Duration;

use melisma::dataset::store::Store;
use melisma::random::Lcg64;
use serde_json::{Value, json};

use crate::corpus_files::{bytes, corpus, encode, lines, model};
use crate::sandbox::Sandbox;
use crate::sound::wav;

/// The codes of a row of a store, by level, in the order of Orpheus' slots.
fn levels(store: &Store, row: u64) -> Value {
    let column = |name: &str| store.layout.column(name).unwrap();
    let mut offsets = [0; 16];
    store.read(column("offsets"), row, &mut offsets).unwrap();
    let at = |i: usize| u64::from_le_bytes(offsets[i..i + 8].try_into().unwrap());
    let mut codes = vec![0; (at(8) - at(0)) as usize * 14];
    store.read(column("codes"), at(0), &mut codes).unwrap();
    let codes: Vec<u16> = codes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut levels = [vec![], vec![], vec![]];
    for frame in codes.chunks(7) {
        for (level, code) in [0, 1, 2, 2, 1, 2, 2].into_iter().zip(frame) {
            levels[level].push(*code);
        }
    }
    json!(levels)
}

#[test]
fn every_output_holds_the_codes_of_each_file_alone() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 7);
    std::fs::write(sandbox.path("w/002.txt"), " Good\tmorning \"all\"\n").unwrap();
    let (code, told, stderr) = encode(&sandbox, &["w", "-o", "a.safetensors"]);
    assert_eq!((code, told["files_ok"].as_u64(), told["files_failed"].as_u64()), (0, Some(7), Some(0)), "{stderr}");
    for key in ["frames", "audio_seconds", "wall_seconds", "x_realtime"] {
        assert!(told[key].as_f64().unwrap() > 0.0, "{key}: {told}");
    }
    assert_eq!(told["failures"], json!([]));
    assert_eq!(encode(&sandbox, &["w", "-o", "a.jsonl", "--threads", "3"]).0, 0);
    assert_eq!(encode(&sandbox, &["w", "-o", "folder", "--threads", "1"]).0, 0);
    let stores = ["a.safetensors", "folder"].map(|name| Store::open(sandbox.path(name)).unwrap());
    let rows = lines(&sandbox, "a.jsonl");
    assert_eq!(rows.len(), 7);
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["path"], format!("{index:03}.wav"));
        assert_eq!(row.get("text"), (index == 2).then(|| json!("Good\tmorning \"all\"")).as_ref());
        let name = format!("w/{index:03}.wav");
        let (code, _, stderr) = encode(&sandbox, &[&name, "-o", "one.json", "-f"]);
        assert_eq!(code, 0, "{stderr}");
        let alone: Value = serde_json::from_slice(&bytes(&sandbox, "one.json")).unwrap();
        assert_eq!(row["codes"], alone["codes"], "{name}");
        stores.iter().for_each(|store| assert_eq!(levels(store, index as u64), alone["codes"], "{name}"));
    }
    let attributes = &stores[0].layout.attributes;
    assert_eq!((&attributes["melisma.kind"], &attributes["melisma.levels"]), (&json!("tokens"), &json!(3)));
    assert_eq!(attributes["melisma.model"], told["model"]["hash"]);
    // Again: nothing to do.
    for name in ["a.safetensors", "a.jsonl", "folder"] {
        let (code, again, stderr) = encode(&sandbox, &["w", "-o", name]);
        assert_eq!((code, &again["rows_resumed"]), (0, &json!(7)), "{name}: {stderr}");
    }
}

#[test]
fn lines_are_verified_and_belong_to_their_plan() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    assert_eq!(encode(&sandbox, &["w", "-o", "a.jsonl", "--verify-audio"]).0, 0);
    let whole = bytes(&sandbox, "a.jsonl");
    let ran = sandbox.run(&["dataset", "verify", "a.jsonl", "--json"]);
    let told = ran.json();
    assert_eq!((ran.code, &told["rows"], &told["bytes"]), (0, &json!(3), &json!(whole.len())), "{}", ran.stderr);
    let info = sandbox.run(&["dataset", "info", "a.jsonl"]);
    assert!(info.code == 0 && info.stdout.contains("melisma.kind: tokens"), "{}{}", info.stdout, info.stderr);
    // The limit is not a part of the plan; the form of the lines is.
    let (code, told, stderr) = encode(&sandbox, &["w", "-o", "a.jsonl", "--verify-audio", "--min-snr", "60"]);
    assert_eq!((code, &told["below_min_snr"], &told["rows_resumed"]), (3, &json!(3), &json!(3)), "{stderr}");
    for more in [&["--verify-audio", "--format", "orpheus"][..], &["--verify-audio", "--drop-repeats"], &[]] {
        let (code, _, stderr) = encode(&sandbox, &[&["w", "-o", "a.jsonl"], more].concat());
        assert!(code == 2 && stderr.contains("is not of this plan") && stderr.contains("-f"), "{more:?}: {stderr}");
    }
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for content in [&changed[..], &whole[..whole.len() - 1], b""] {
        std::fs::write(sandbox.path("a.jsonl"), content).unwrap();
        let ran = sandbox.run(&["dataset", "verify", "a.jsonl"]);
        assert!(ran.code == 3 && ran.stderr.contains("not the lines that were written"), "{}", ran.stderr);
        assert_eq!(encode(&sandbox, &["w", "-o", "a.jsonl", "--verify-audio"]).0, 3);
    }
    assert_eq!(encode(&sandbox, &["w", "-o", "a.jsonl", "--verify-audio", "-f"]).0, 0);
    assert!(bytes(&sandbox, "a.jsonl") == whole);
    std::fs::remove_file(sandbox.path("a.jsonl.origin.json")).unwrap();
    let ran = sandbox.run(&["dataset", "info", "a.jsonl"]);
    assert!(ran.code != 0 && ran.stderr.contains("a.jsonl.origin.json"), "{}", ran.stderr);
    let ran = sandbox.run(&["dataset", "verify", "a.jsonl"]);
    assert!(ran.code == 0 && ran.stderr.contains("note: a.jsonl.origin.json is missing"), "{}", ran.stderr);
    std::fs::write(sandbox.path("a.jsonl"), &whole[..whole.len() - 2]).unwrap();
    let ran = sandbox.run(&["dataset", "verify", "a.jsonl"]);
    assert!(ran.code == 3 && ran.stderr.contains("line 3: "), "{}", ran.stderr);
    encode(&sandbox, &["w", "-f", "-o", "a.jsonl"]);
    let ran = sandbox.run(&["dataset", "merge", "a.jsonl", "-o", "b.safetensors"]);
    assert!(ran.code == 2 && ran.stderr.contains("lines have no columns"), "{}", ran.stderr);
    // A file of somebody else with this name stays.
    std::fs::write(sandbox.path("c.jsonl.origin.json"), "mine").unwrap();
    let (code, _, stderr) = encode(&sandbox, &["w", "-o", "c.jsonl"]);
    assert!(code == 2 && stderr.contains("c.jsonl.origin.json: the file is not of a build"), "{stderr}");
}

#[test]
fn orpheus_lines_are_the_ids_of_fine_tuning_scripts() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    // Silence has the same code in every frame.
    std::fs::write(sandbox.path("w/999.wav"), wav(24_000, &[0.0; 20_000])).unwrap();
    assert_eq!(encode(&sandbox, &["w", "-o", "codes.jsonl"]).0, 0);
    assert_eq!(encode(&sandbox, &["w", "-o", "ids.jsonl", "--format", "orpheus"]).0, 0);
    assert_eq!(encode(&sandbox, &["w", "-o", "few.jsonl", "--format", "orpheus", "--drop-repeats"]).0, 0);
    let [codes, ids, few] = ["codes.jsonl", "ids.jsonl", "few.jsonl"].map(|name| lines(&sandbox, name));
    let mut n_dropped = 0;
    for ((codes, ids), few) in codes.iter().zip(&ids).zip(&few) {
        let level = |level: usize, at: usize| codes["codes"][level][at].as_u64().unwrap();
        let n_frames = codes["codes"][0].as_array().unwrap().len();
        let mut expected = Vec::new();
        for i in 0..n_frames {
            let frame = [
                level(0, i),
                level(1, 2 * i) + 4096,
                level(2, 4 * i) + 2 * 4096,
                level(2, 4 * i + 1) + 3 * 4096,
                level(1, 2 * i + 1) + 4 * 4096,
                level(2, 4 * i + 2) + 5 * 4096,
                level(2, 4 * i + 3) + 6 * 4096,
            ];
            expected.extend(frame.map(|id| id + 128_266));
        }
        assert_eq!(ids["codes_list"], json!(expected));
        let mut kept = expected[..7].to_vec();
        for frame in expected[7..].chunks(7) {
            if frame[0] != kept[kept.len() - 7] {
                kept.extend(frame);
            }
        }
        n_dropped += (expected.len() - kept.len()) / 7;
        assert_eq!(few["codes_list"], json!(kept));
    }
    assert!(n_dropped > 0);
    for (args, message) in [
        (&["w", "-o", "x.safetensors", "--drop-repeats"][..], "--drop-repeats"),
        (&["w", "-o", "x.safetensors", "--format", "orpheus"], "--format orpheus"),
        (&["w", "-o", "x.jsonl", "--format", "ids"], "--format ids"),
        (&["w", "-o", "-"], "pipe"),
        (&["w", "-o", "x.txt"], "x.txt: `.txt` holds the tokens of one audio file"),
        (&["w", "-o", "x.zip"], "unknown output suffix `.zip`"),
        (&["w", "-o", "x.jsonl", "--shard", "3/2"], "--shard 3/2"),
    ] {
        let (code, _, stderr) = encode(&sandbox, args);
        assert!(code == 2 && stderr.contains(message), "{args:?}: {stderr}");
    }
}

#[test]
fn merged_shards_are_the_bytes_of_the_whole() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 11);
    std::fs::write(sandbox.path("w/004.txt"), "four").unwrap();
    std::fs::write(sandbox.path("w/005b.wav"), b"RIFFxxxxWAVE").unwrap();
    let metadata = "000|zero\n004|four\n010|ten\n777|nobody\n";
    std::fs::write(sandbox.path("metadata.csv"), metadata).unwrap();
    let texts: [&str; 4] = ["--metadata", "metadata.csv", "--text-column", "2"];
    for more in [&[][..], &texts] {
        for suffix in ["safetensors", "h5"] {
            let whole = format!("whole.{suffix}");
            assert_eq!(encode(&sandbox, &[&["w", "-f", "-o", &whole], more].concat()).0, 1);
            let mut names = Vec::new();
            for i in 1..=3 {
                let (name, shard) = (format!("{i}.{suffix}"), format!("{i}/3"));
                let (code, _, stderr) =
                    encode(&sandbox, &[&["w", "-f", "-o", &name, "--shard", &shard], more].concat());
                assert!(code == 0 || code == 1, "{stderr}");
                names.push(name);
            }
            let merged = format!("merged.{suffix}");
            let args = ["dataset", "merge", &names[2], &names[0], &names[1], "-o", &merged, "-f"];
            let ran = sandbox.run(&args);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            assert!(bytes(&sandbox, &merged) == bytes(&sandbox, &whole), "{merged} {more:?}");
            let failures = |name: &str| bytes(&sandbox, &format!("{name}.failures.jsonl"));
            assert_eq!(String::from_utf8(failures(&merged)), String::from_utf8(failures(&whole)));
        }
    }
    // Lines of shards follow each other.
    assert_eq!(encode(&sandbox, &["w", "-o", "whole.jsonl"]).0, 1);
    let mut joined = Vec::new();
    for i in 1..=3 {
        let (name, shard) = (format!("{i}.jsonl"), format!("{i}/3"));
        encode(&sandbox, &["w", "-o", &name, "--shard", &shard]);
        joined.extend(bytes(&sandbox, &name));
    }
    assert!(joined == bytes(&sandbox, "whole.jsonl"));
    // More shards than files: some are empty.
    let names: Vec<String> = (1..=14).map(|i| format!("of-14-{i}.safetensors")).collect();
    for (i, name) in (1..).zip(&names) {
        encode(&sandbox, &["w", "-o", name, "--shard", &format!("{i}/14")]);
    }
    let mut args = vec!["dataset", "merge", "-o", "of-14.safetensors"];
    args.extend(names.iter().map(String::as_str));
    let ran = sandbox.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    encode(&sandbox, &["w", "-o", "all.safetensors"]);
    assert!(bytes(&sandbox, "of-14.safetensors") == bytes(&sandbox, "all.safetensors"));
    let ran = sandbox.run(&["dataset", "merge", "1.safetensors", "2.safetensors", "-o", "two.safetensors"]);
    assert!(ran.code == 2 && ran.stderr.contains("1 shard of 3 is missing: 3/3"), "{}", ran.stderr);
    let foreign = ["w", "-o", "foreign.safetensors", "--shard", "3/3", "--model", "builtin:mini24"];
    assert!(sandbox.run(&[&["encode"], &foreign[..]].concat()).code <= 1);
    let shards = ["1.safetensors", "2.safetensors", "foreign.safetensors"];
    let ran = sandbox.run(&[&["dataset", "merge", "-o", "three.safetensors"], &shards[..]].concat());
    assert!(ran.code == 2 && ran.stderr.contains("foreign.safetensors: its codes are of the model "), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("hint: encode all shards with the same model\n"), "{}", ran.stderr);
}

#[test]
fn verify_finds_any_flipped_byte() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 4);
    std::fs::write(sandbox.path("w/001.txt"), "one").unwrap();
    assert_eq!(encode(&sandbox, &["w", "-o", "a.safetensors"]).0, 0);
    let ran = sandbox.run(&["dataset", "verify", "a.safetensors", "--json"]);
    let told = ran.json();
    assert_eq!((ran.code, &told["rows"], &told["damaged"]), (0, &json!(4), &json!(0)), "{}", ran.stderr);
    let info = sandbox.run(&["dataset", "info", "a.safetensors"]);
    assert!(info.code == 0 && info.stdout.contains("melisma.kind: tokens"), "{}", info.stdout);
    let whole = bytes(&sandbox, "a.safetensors");
    let file = safetensors::SafeTensors::deserialize(&whole).unwrap();
    let start = whole.as_ptr() as usize;
    for (name, tensor) in file.tensors() {
        let data = tensor.data();
        for at in [0, data.len() / 2, data.len() - 1] {
            let mut changed = whole.clone();
            changed[data.as_ptr() as usize - start + at] ^= 4;
            std::fs::write(sandbox.path("b.safetensors"), &changed).unwrap();
            let ran = sandbox.run(&["dataset", "verify", "b.safetensors"]);
            assert_eq!(ran.code, 3, "{name}, byte {at}: {}{}", ran.stdout, ran.stderr);
        }
    }
}

#[test]
fn five_kills_lose_nothing() {
    kills(5, 24);
}

#[test]
#[ignore = "extended: 60 kills on a corpus that takes seconds"]
fn sixty_kills_lose_nothing() {
    kills(60, 1500);
}

/// Kills runs at `n` instants and compares the end with an undisturbed run.
fn kills(n: u64, files: usize) {
    let sandbox = Sandbox::new();
    corpus(&sandbox, files);
    let model = model();
    for name in ["safetensors", "jsonl"] {
        let (whole, output) = (format!("whole.{name}"), format!("a.{name}"));
        assert_eq!(encode(&sandbox, &["w", "-o", &whole, "--threads", "1"]).0, 0);
        let journal = sandbox.path(&format!("{output}.journal"));
        // A header, and a line for each file.
        let n_recorded = || std::fs::read_to_string(&journal).map_or(0, |text| text.matches('\n').count());
        let mut random = Lcg64::new(12_345);
        let mut killed = 0;
        // The last one must have recorded files.
        for _ in 0..100 * n {
            if killed >= n && n_recorded() >= 2 {
                break;
            }
            let more = random.bits() as usize % 6;
            let due = n_recorded() + more;
            let args = ["encode", "w", "-o", &output, "--device", "cpu", "--threads", "2", "--model", &model];
            let mut child = sandbox.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            while more > 0 && n_recorded() < due && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(100));
            }
            let _ = child.kill();
            child.wait().unwrap();
            if sandbox.path(&output).exists() && !journal.exists() {
                // It ended before the kill: the next round begins anew.
                assert!(bytes(&sandbox, &output) == bytes(&sandbox, &whole));
                std::fs::remove_file(sandbox.path(&output)).unwrap();
            } else {
                killed += 1;
            }
        }
        let (code, told, stderr) = encode(&sandbox, &["w", "-o", &output]);
        assert_eq!(code, 0, "{stderr}");
        assert!(killed >= n && told["rows_resumed"].as_u64().unwrap() > 0, "{killed} of {n} were killed: {told}");
        assert!(bytes(&sandbox, &output) == bytes(&sandbox, &whole));
    }
    let left = [
        "a.jsonl",
        "a.jsonl.origin.json",
        "a.safetensors",
        "w",
        "whole.jsonl",
        "whole.jsonl.origin.json",
        "whole.safetensors",
    ];
    assert_eq!(sandbox.files(), left);
}
