//! `melisma encode` of many files, some of which are bad, and of their texts.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use melisma::dataset::store::Store;
use serde_json::{Value, json};

use crate::corpus_files::{corpus, encode, lines, model};
use crate::sandbox::{self, Sandbox};
use crate::sound::{self, noise, wav};

#[test]
fn every_bad_file_is_listed_and_no_good_one_is_lost() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 5);
    let write = |name: &str, bytes: &[u8]| std::fs::write(sandbox.path("w").join(name), bytes).unwrap();
    let good = wav(24_000, &noise(1, 9000));
    let rated = |rate: u32| {
        let mut bytes = good.clone();
        bytes[24..28].copy_from_slice(&rate.to_le_bytes());
        bytes
    };
    write("x-zero.wav", b"");
    write("x-header.wav", &good[..44]);
    write("x-cut.wav", &good[..good.len() / 2]);
    write("x-text.wav", b"this is no sound at all, whatever its name says");
    for rate in [0, 1, 999, 768_001, u32::MAX] {
        write(&format!("x-{rate}hz.wav"), &rated(rate));
    }
    let mut floats = noise(2, 50_000);
    floats[45_000] = f32::NAN;
    write("x-nan.wav", &sound::wav_f32(24_000, &floats));
    floats[45_000] = f32::NEG_INFINITY;
    write("x-infinite.wav", &sound::wav_f32(24_000, &floats));
    floats[45_000] = f32::NAN;
    write("x-nan-16k.wav", &sound::wav_f32(16_000, &floats));
    // Good ones: one sample, less than a frame, clipped, 7.1, odd rates, a name that is not UTF-8.
    write("y-one.wav", &wav(24_000, &[0.5]));
    write("y-short.wav", &wav(24_000, &noise(3, 100)));
    write("y-clipped.wav", &wav(24_000, &vec![1.0; 5000]));
    let stereo = |at: usize| [0.1, if (200..300).contains(&at) { 1.0 } else { 0.0 }];
    let stereo =
        melisma::audio::Clip { sample_rate: 24_000, n_channels: 2, samples: (0..3000).flat_map(stereo).collect() };
    write(
        "y-clipped-right.wav",
        &melisma::audio::wav::encode(&stereo, melisma::audio::wav::SampleFormat::S16).unwrap(),
    );
    let surround = melisma::audio::Clip { sample_rate: 48_000, n_channels: 8, samples: noise(4, 64_000) };
    write("y-71.wav", &melisma::audio::wav::encode(&surround, melisma::audio::wav::SampleFormat::S16).unwrap());
    write("y-1000hz.wav", &rated(1000));
    let odd = std::ffi::OsStr::from_bytes(b"y-\xff\xfe.wav");
    std::fs::write(sandbox.path("w").join(Path::new(odd)), &good).unwrap();
    let (code, told, stderr) = encode(&sandbox, &["w", "-o", "a.jsonl"]);
    assert_eq!((code, told["files_ok"].as_u64(), told["files_failed"].as_u64()), (1, Some(12), Some(12)), "{stderr}");
    let failures = lines(&sandbox, "a.jsonl.failures.jsonl");
    let (clipped, failed): (Vec<&Value>, Vec<&Value>) =
        failures.iter().partition(|failure| failure["code"] == "clipped");
    let named: Vec<&str> = failed.iter().map(|failure| failure["path"].as_str().unwrap()).collect();
    assert!(named.len() == 12 && named.iter().all(|name| name.starts_with("x-")), "{named:?}");
    let message = |path: &str| {
        let found = failures.iter().find(|failure| failure["path"] == path);
        found.map(|failure| failure["message"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    assert!(message("x-nan.wav").contains("sample 45000"), "{failures:?}");
    assert!(message("x-nan-16k.wav").contains("sample 45000"), "before it is resampled: {failures:?}");
    assert!(message("x-999hz.wav").contains("999 Hz; 1000 to 768000 are read (correct the rate"), "{failures:?}");
    let places: Vec<&str> = clipped.iter().map(|failure| failure["path"].as_str().unwrap()).collect();
    assert_eq!(places, ["y-clipped-right.wav", "y-clipped.wav"]);
    assert!(
        message("y-clipped-right.wav")
            .ends_with("100 samples at full scale in 1 run, the first at sample 200 of channel 2")
    );
    assert_eq!((&told["files_clipped"], &clipped[0]["action"]), (&json!(2), &json!("kept")));
    let rows = lines(&sandbox, "a.jsonl");
    let paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert!(paths.len() == 12 && paths.contains(&"y-%FF%FE.wav") && paths.contains(&"y-one.wav"), "{paths:?}");
    assert_eq!(rows[10]["path"], "y-one.wav");
    assert_eq!(rows[10]["codes"][0].as_array().unwrap().len(), 1);
    // The rows of the files that failed late are zero, and the rest of the dataset is sound.
    assert_eq!(encode(&sandbox, &["w", "-o", "a.safetensors", "--memory-limit", "300MiB"]).0, 1);
    let ran = sandbox.run(&["dataset", "verify", "a.safetensors", "--json"]);
    let verified = ran.json();
    assert_eq!((ran.code, &verified["zero_filled"], &verified["rows"]), (0, &json!(3), &json!(15)), "{}", ran.stderr);
    let (code, _, stderr) = encode(&sandbox, &["w", "-o", "b.safetensors", "--on-error", "fail"]);
    assert!(code == 2 && stderr.contains("x-") && stderr.contains("--on-error skip"), "{stderr}");
}

#[test]
fn texts_travel_along_and_what_does_not_match_is_named() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 4);
    let table =
        "client\tpath\tsentence\nx\t000.wav\tZero, \"null\"\nx\t001.mp3\tOne\nx\t009.wav\tNine\nx\t002.wav\t\u{e9}\n";
    std::fs::write(sandbox.path("train.tsv"), table).unwrap();
    let args = ["w", "-o", "a.jsonl", "--metadata", "train.tsv", "--text-column", "sentence"];
    let (code, told, stderr) = encode(&sandbox, &args);
    assert_eq!((code, &told["files_ok"], &told["files_failed"]), (1, &json!(4), &json!(0)), "{stderr}");
    assert_eq!(told["without_text"], 2);
    assert!(stderr.contains("train.tsv:4: no audio file `009.wav` among the inputs"), "{stderr}");
    assert!(stderr.contains("003.wav: train.tsv has no row for this file"), "{stderr}");
    assert!(stderr.contains("1 row of the table matches no file, 1 row lacks a text; they are listed in"), "{stderr}");
    assert_eq!(told["failures_by_code"], json!({ "no-file": 1, "text": 1 }));
    let texts: Vec<Value> = lines(&sandbox, "a.jsonl").iter().map(|row| row["text"].clone()).collect();
    assert_eq!(texts, [json!("Zero, \"null\""), json!("One"), json!("\u{e9}"), Value::Null]);
    for (more, message) in [
        (&["--metadata", "train.tsv", "--text-column", "words"][..], "no column `words`"),
        (&["--metadata", "absent.tsv", "--text-column", "2"], "absent.tsv"),
        (&["--metadata", "train.tsv"], "--text-column"),
        (
            &["--metadata", "train.tsv", "--text-column", "sentence", "--path-column", "client"],
            "train.tsv: no row matches an input file: line 2 names `x`, the first file is 000.wav\n\
             hint: name the column with the names of the audio files with --path-column",
        ),
    ] {
        let (code, _, stderr) = encode(&sandbox, &[&["w", "-o", "b.jsonl"], more].concat());
        assert!(code == 2 && stderr.contains(message), "{stderr}");
    }
    // Another text is another plan.
    let store = ["w", "-o", "a.safetensors", "--metadata", "train.tsv", "--text-column", "sentence"];
    assert_eq!(encode(&sandbox, &store).0, 1);
    std::fs::write(sandbox.path("train.tsv"), table.replace("One", "Two")).unwrap();
    let (code, _, stderr) = encode(&sandbox, &store);
    assert!(code == 2 && stderr.contains("is not of this plan"), "{stderr}");
}

#[test]
fn a_table_and_a_list_of_more_than_is_there_end_with_a_count_and_a_hint() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 2);
    let rows = |from: usize| (from..40).map(|row| format!("{row:03}|Text {row}.\n")).collect::<String>();
    std::fs::write(sandbox.path("t.csv"), "file|text\n".to_owned() + &rows(0)).unwrap();
    let table = ["w", "-o", "a.jsonl", "--metadata", "t.csv", "--text-column", "text"];
    let (code, told, stderr) = encode(&sandbox, &table);
    assert_eq!((code, &told["files_ok"], &told["failures_by_code"]), (1, &json!(2), &json!({ "no-file": 38 })));
    assert!(stderr.contains("38 rows of the table match no file; they are listed in "), "{stderr}");
    let start = "a.jsonl.failures.jsonl\n  t.csv:4: no audio file `002` among the inputs\n";
    let end = "  and 28 more\nhint: name every folder of the table's files, or keep only the rows of the inputs\n";
    assert!(stderr.contains(start) && stderr.contains(end), "{stderr}");
    let names = |from: usize| (from..40).map(|file| format!("w/{file:03}.wav\n")).collect::<String>();
    std::fs::write(sandbox.path("all.txt"), "w/000.wav\n".to_owned() + &names(10)).unwrap();
    let (code, told, stderr) = encode(&sandbox, &["--list", "all.txt", "-o", "b.jsonl"]);
    assert_eq!((code, &told["files_ok"], &told["failures_by_code"]), (1, &json!(1), &json!({ "missing": 30 })));
    assert!(stderr.contains("30 files were refused") && stderr.contains("  by reason: 30 missing\n"), "{stderr}");
    assert!(stderr.contains("  and 20 more\nhint: relative paths of a list begin at its folder"), "{stderr}");
    std::fs::write(sandbox.path("none.txt"), names(10)).unwrap();
    let (code, _, stderr) = encode(&sandbox, &["--list", "none.txt", "-o", "c.jsonl"]);
    assert!(code == 2 && stderr.contains("no row can be made of 30 files (30 missing)"), "{stderr}");
    assert!(stderr.contains("hint: relative paths of a list begin at its folder"), "{stderr}");
}

#[test]
fn files_without_a_text_are_left_out_where_one_is_required() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 4);
    std::fs::write(sandbox.path("w/000.txt"), "zero").unwrap();
    std::fs::write(sandbox.path("w/001.txt"), " \n").unwrap();
    std::fs::write(sandbox.path("w/002.txt"), b"\xff").unwrap();
    let (code, told, stderr) = encode(&sandbox, &["w", "-o", "a.jsonl", "--require-text"]);
    // A text that cannot be read is a failure.
    assert_eq!((code, &told["files_ok"], &told["files_left_out"]), (1, &json!(1), &json!(2)), "{stderr}");
    let codes = json!({ "corrupt": 1, "no-text": 2 });
    assert_eq!((&told["failures_by_code"], &told["without_text"]), (&codes, &json!(0)));
    assert_eq!(lines(&sandbox, "a.jsonl").len(), 1);
    assert!(stderr.contains("  by reason: ") && stderr.contains("2 no-text"), "{stderr}");
    let table = "path|text\n001|one\n003|three\n";
    std::fs::write(sandbox.path("t.csv"), table).unwrap();
    let args = ["--list", "w.txt", "-o", "b.jsonl", "--metadata", "t.csv", "--text-column", "text", "--require-text"];
    std::fs::write(sandbox.path("w.txt"), "w/001.wav\nw/002.wav\nw/003.wav\n").unwrap();
    let (code, told, stderr) = encode(&sandbox, &args);
    assert_eq!((code, &told["rows"], &told["files_left_out"]), (0, &json!(2), &json!(1)), "{stderr}");
    let (code, _, stderr) = encode(&sandbox, &["w", "-o", "a.jsonl"]);
    assert!(code == 2 && stderr.contains("is not of this plan"), "{stderr}");
}

#[test]
fn a_file_that_shrinks_while_it_is_verified_fails_alone() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 4);
    let long = sandbox.path("w/000.wav");
    std::fs::write(&long, wav(44_100, &noise(1, 44_100 * 60))).unwrap();
    let model = model();
    let args = ["encode", "w", "-o", "a.safetensors", "--device", "cpu", "--threads", "1", "--model", &model];
    let mut child = sandbox.start(&[&args[..], &["--verify-audio"]].concat());
    // Its codes are written before they are decoded again.
    let has_codes = || {
        Store::open(sandbox.path("a.safetensors.partial")).is_ok_and(|store| {
            let mut codes = [0; 14];
            store.read(store.layout.column("codes").unwrap(), 0, &mut codes).is_ok() && codes != [0; 14]
        })
    };
    sandbox::wait_until(&mut child, has_codes);
    std::fs::OpenOptions::new().write(true).open(&long).unwrap().set_len(44).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let failures = lines(&sandbox, "a.safetensors.failures.jsonl");
    assert_eq!((failures.len(), &failures[0]["path"]), (1, &json!("000.wav")), "{failures:?}");
    assert_eq!(sandbox.run(&["dataset", "verify", "a.safetensors"]).code, 0);
}

#[test]
fn decoded_audio_is_measured_and_files_below_the_limit_are_listed() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    std::fs::write(sandbox.path("w/silence.wav"), wav(24_000, &[0.0; 5000])).unwrap();
    assert_eq!(encode(&sandbox, &["w", "-o", "a.jsonl", "--verify-audio"]).0, 0);
    let rows = lines(&sandbox, "a.jsonl");
    for row in &rows[..3] {
        assert!(row["snr_db"].as_f64().unwrap() < 60.0 && row["log_mel_distance"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(rows[3]["snr_db"].is_null(), "silence has no ratio: {}", rows[3]);
    let (code, _, stderr) = encode(&sandbox, &["w/000.wav", "-o", "one.json", "--verify-audio"]);
    assert_eq!(code, 0, "{stderr}");
    let args = ["w", "-o", "a.safetensors", "--verify-audio", "--min-snr", "60", "--threads", "2"];
    for _ in 0..2 {
        let (code, told, stderr) = encode(&sandbox, &args);
        assert_eq!((code, &told["below_min_snr"], &told["files_ok"]), (3, &json!(3), &json!(4)), "{stderr}");
        assert!(stderr.contains("3 of 4 files are below --min-snr"), "{stderr}");
        let failures = lines(&sandbox, "a.safetensors.failures.jsonl");
        assert_eq!(
            (failures.len(), &failures[0]["code"], &failures[0]["action"]),
            (3, &json!("low-snr"), &json!("kept"))
        );
    }
    // The limit is not a part of the plan.
    assert_eq!(encode(&sandbox, &["w", "-o", "a.safetensors", "--verify-audio", "--min-snr", "-99"]).0, 0);
    assert_eq!(sandbox.run(&["dataset", "verify", "a.safetensors"]).code, 0);
}

#[test]
fn clipped_files_alone_are_no_failure() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    std::fs::write(sandbox.path("w/loud.wav"), wav(24_000, &vec![1.0; 5000])).unwrap();
    let (code, told, stderr) = encode(&sandbox, &["w", "-o", "a.jsonl"]);
    assert_eq!(
        (code, told["files_clipped"].as_u64(), told["files_failed"].as_u64()),
        (0, Some(1), Some(0)),
        "{stderr}"
    );
    assert_eq!(lines(&sandbox, "a.jsonl.failures.jsonl").len(), 1);
}
