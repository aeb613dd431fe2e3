//! `speak`: texts, pipes and lists, and what is said about bad ones.

use std::io::Write;

use melisma::audio::wav;
use melisma::snac::Model;
use melisma::speak::synthetic::{self, Shape};
use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, golden_file, send, wait_until};

/// A sandbox with a random voice model that ends after some frames.
pub fn stocked() -> Sandbox {
    let sandbox = Sandbox::new();
    let codec = Model::open(golden_file("snac/tiny24")).unwrap();
    synthetic::write(&sandbox.path("voice"), &codec, Shape { end: 2.2, ..Shape::default() }, 5).unwrap();
    sandbox
}

pub fn run(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let model = golden_file("snac/tiny24");
    sandbox.run(&[&["speak", "--voice-model", "voice", "--model", &model], args].concat())
}

pub fn done(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let ran = run(sandbox, args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    ran
}

fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    serde_json::from_str(&done(sandbox, &[args, &["--json"]].concat()).stdout).unwrap()
}

pub fn bytes(sandbox: &Sandbox, name: &str) -> Vec<u8> {
    std::fs::read(sandbox.path(name)).unwrap()
}

#[test]
fn a_text_becomes_audio_and_tokens() {
    let sandbox = stocked();
    let text = "Good morning. It is 12 o'clock!";
    let said = json(&sandbox, &[text, "-o", "a.wav", "--tokens", "a.txt"]);
    let n_frames = said["frames"].as_u64().unwrap();
    assert!((1..200).contains(&n_frames) && said["samples"] == n_frames * 2048, "{said}");
    assert_eq!((&said["voice"], &said["tokens"]["rejected"]), (&Value::from("ann"), &Value::from(0)));
    let expected = &said["expected"];
    assert_eq!(expected["texts_at_once"], 1);
    for figure in ["real_time_factor", "step_seconds", "most_seconds"] {
        assert!(expected[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure} of {expected}");
    }
    // The tokens decode to the same samples.
    let model = golden_file("snac/tiny24");
    let ran = sandbox.run(&["decode", "a.txt", "-o", "b.wav", "--model", &model]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(bytes(&sandbox, "a.wav") == bytes(&sandbox, "b.wav"));

    done(&sandbox, &[text, "-o", "c.wav", "--threads", "1"]);
    assert!(bytes(&sandbox, "a.wav") == bytes(&sandbox, "c.wav"));
    done(&sandbox, &[text, "-o", "d.wav", "--seed", "1"]);
    assert!(bytes(&sandbox, "a.wav") != bytes(&sandbox, "d.wav"));
    let fast = json(&sandbox, &[text, "-o", "fast.flac", "--speed", "2"]);
    assert_eq!((&fast["frames"], &fast["samples"]), (&said["frames"], &Value::from(n_frames * 1024)));
    let greedy = ["-o", "greedy.wav", "--temperature", "0", "--voice", "bob", "--repetition-penalty", "1.2"];
    assert_eq!(json(&sandbox, &[&[text], &greedy[..]].concat())["voice"], "bob");
}

#[test]
fn the_words_of_a_text_are_printed_and_nothing_is_spoken() {
    let sandbox = stocked();
    let before = sandbox.files();
    let text = "Dr. Smith paid\n$3.50. \u{1f600}";
    let words = "Doctor Smith paid three dollars and fifty cents.";
    let ran = done(&sandbox, &[text, "--print-words", "--normalize"]);
    assert_eq!(ran.stdout, format!("{words}\n"));
    assert!(ran.stderr.contains("note: left out"), "{}", ran.stderr);
    assert_eq!(done(&sandbox, &[text, "--print-words", "--normalise=off"]).stdout, "Dr. Smith paid $3.50. \u{1f600}\n");
    assert_eq!(done(&sandbox, &["--print-words", "--", "-5 degrees"]).stdout, "-5 degrees\n");
    assert_eq!(json(&sandbox, &[text, "--print-words", "--normalise"])["words"], words);
    assert_eq!(sandbox.files(), before);
    let said = json(&sandbox, &[text, "-o", "a.wav", "--normalise", "--seed", "three"]);
    assert_eq!((&said["words"], &said["seed"]), (&words.into(), &melisma::synth::seed("three").into()));
}

/// On a GPU a text has the same bytes alone, beside others and again; f32 weights need a permission.
#[test]
fn texts_become_audio_on_cuda() {
    let sandbox = stocked();
    let model = golden_file("snac/tiny24");
    let on_cuda = |args: &[&str]| -> Option<Ran> {
        let common = ["speak", "--voice-model", "voice", "--model", &model, "--json"];
        Some(Ran::from(sandbox.on_cuda(&[&common, args].concat())?.output().unwrap()))
    };
    let Some(ran) = on_cuda(&["Good morning.", "-o", "a.wav"]) else { return };
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    let n_frames = said["frames"].as_u64().unwrap();
    assert_eq!((&said["device"], said["samples"].as_u64().unwrap()), (&Value::from("cuda:0"), n_frames * 2048));
    let lines = [r#"{"text": "Good morning.", "name": "a"}"#, r#"{"text": "Hi.", "voice": "bob", "name": "b"}"#];
    std::fs::write(sandbox.path("list.jsonl"), lines.join("\n")).unwrap();
    let ran = on_cuda(&["--list", "list.jsonl", "-o", "clips"]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(bytes(&sandbox, "a.wav") == bytes(&sandbox, "clips/a.wav"));
    let ran = on_cuda(&["Hi.", "-o", "x.wav", "--memory-limit", "100KiB"]).unwrap();
    assert!(ran.code != 0 && ran.stderr.contains("hint: use --memory-limit"), "{}", ran.stderr);

    let wide = golden_file("llama/three_to_one");
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(std::path::Path::new(&wide).join(name), sandbox.path("voice").join(name)).unwrap();
    }
    let ran = on_cuda(&["Hi.", "-o", "x.wav"]).unwrap();
    assert!(ran.stderr.contains("f32 weights; a GPU computes language models in bf16"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: use --precision bf16"), "{}", ran.stderr);
    // With the permission the weights are read; they are those of another tokenizer.
    let ran = on_cuda(&["Hi.", "-o", "x.wav", "--precision", "bf16"]).unwrap();
    assert!(ran.stderr.contains("tokenizer.json has"), "{}", ran.stderr);
}

#[test]
fn files_and_pipes_are_the_same_text() {
    let sandbox = stocked();
    std::fs::write(sandbox.path("text.txt"), "Good morning.\n").unwrap();
    done(&sandbox, &["Good morning.", "-o", "a.wav"]);
    done(&sandbox, &["--file", "text.txt", "-o", "b.wav"]);
    assert!(bytes(&sandbox, "a.wav") == bytes(&sandbox, "b.wav"));
    let model = golden_file("snac/tiny24");
    let mut child = sandbox.start(&["speak", "-", "-o", "-", "--voice-model", "voice", "--model", &model]);
    // Of several pieces, which are spoken together for a file.
    let long = "Out at sea, beyond the last of the sandbanks, a ship is waiting. ".repeat(20);
    let said = json(&sandbox, &[&long, "-o", "long.wav"]);
    assert!(said["pieces"].as_u64() > Some(4) && said["expected"]["texts_at_once"] == said["pieces"], "{said}");
    child.stdin.take().unwrap().write_all(long.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let samples = |bytes: &[u8]| wav::decode(bytes).unwrap().to_clip().samples;
    assert_eq!(samples(&output.stdout), samples(&bytes(&sandbox, "long.wav")));
}

#[test]
fn a_list_speaks_what_it_can_and_resumes() {
    let sandbox = stocked();
    let lines = [
        r#"{"text": "Good morning.", "name": "a"}"#,
        r#"{"text": "How are you?", "voice": "bob", "seed": 4, "name": "b.flac"}"#,
        "not json",
        r#"{"text": "", "name": "c"}"#,
        r#"{"text": "Hi.", "voice": "eve"}"#,
        "",
        r#"{"text": "Hi.", "name": "../d"}"#,
        r#"{"text": "Hi.", "name": "a"}"#,
        r#"{"text": "Hi.", "speed": 2}"#,
        r#"{"text": "🎉"}"#,
        r#"{"text": "Without a name."}"#,
    ];
    std::fs::write(sandbox.path("list.jsonl"), lines.join("\n")).unwrap();
    let ran = run(&sandbox, &["--list", "list.jsonl", "-o", "clips", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&said["texts"], said["failures"].as_array().unwrap().len()), (&Value::from(3), 7), "{said}");
    assert_eq!(said["expected"]["texts_at_once"], 3, "{said}");
    for expected in [
        "line 3: this is not JSON, at column 2",
        "line 4: the text is empty",
        "line 5: unknown voice `eve`",
        "line 7: `../d` cannot be the name of a file",
        "line 8: the name `a.wav` is taken",
        "line 9: unknown field `speed`",
        "line 10: the text has no word to speak",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
    // Alone, a text gives the same bytes.
    done(&sandbox, &["Good morning.", "-o", "alone.wav"]);
    assert!(bytes(&sandbox, "clips/a.wav") == bytes(&sandbox, "alone.wav"));
    done(&sandbox, &["How are you?", "--voice", "bob", "--seed", "4", "-o", "alone.flac"]);
    assert!(bytes(&sandbox, "clips/b.flac") == bytes(&sandbox, "alone.flac"));

    let before = bytes(&sandbox, "clips/000011.wav");
    std::fs::remove_file(sandbox.path("clips/000011.wav")).unwrap();
    std::fs::write(
        sandbox.path("list.jsonl"),
        [lines[0], lines[1], "", "", "", "", "", "", "", "", lines[10]].join("\n"),
    )
    .unwrap();
    let said = json(&sandbox, &["--list", "list.jsonl", "-o", "clips"]);
    assert_eq!((&said["texts"], &said["texts_kept"]), (&Value::from(1), &Value::from(2)));
    assert!(before == bytes(&sandbox, "clips/000011.wav"));
    let said = json(&sandbox, &["--list", "list.jsonl", "-o", "clips"]);
    assert_eq!((&said["texts"], &said["texts_kept"]), (&Value::from(0), &Value::from(3)));
    assert_eq!(said["expected"], Value::Null);
    // A folder, and a list with something to say.
    for (args, expected) in [
        (["--list", "list.jsonl", "-o", "clips.wav"], "--list needs a folder"),
        (["--list", "voice/speak.yaml", "-o", "more"], "no line of it can be spoken"),
    ] {
        let ran = run(&sandbox, &args);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

/// Writes a list of `n` texts, of which the fourth line is damaged.
fn write_list(sandbox: &Sandbox, n: usize) {
    let line = |index: usize| match index {
        3 => "not json".to_owned(),
        _ => format!("{{\"text\": \"This is text {index}.\", \"seed\": {index}, \"name\": \"t{index}\"}}"),
    };
    std::fs::write(sandbox.path("list.jsonl"), (0..n).map(line).collect::<Vec<_>>().join("\n")).unwrap();
}

/// Kills the program as soon as `is_due`, and runs it to its end. Returns how many texts were there already.
fn killed(sandbox: &Sandbox, args: &[&str], is_due: impl Fn(&Sandbox) -> bool) -> u64 {
    let model = golden_file("snac/tiny24");
    let all = [&["speak", "--voice-model", "voice", "--model", &model, "--json"], args].concat();
    let mut child = sandbox.start(&all);
    wait_until(&mut child, || is_due(sandbox));
    send(&child, "-KILL");
    child.wait().unwrap();
    let ran = sandbox.run(&all);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    serde_json::from_str::<Value>(&ran.stdout).unwrap()["texts_kept"].as_u64().unwrap()
}

#[test]
fn lists_resume_after_a_kill_with_the_same_bytes() {
    let sandbox = stocked();
    write_list(&sandbox, 200);
    for (first, second) in [("whole", "parts"), ("a.safetensors", "b.safetensors"), ("a.jsonl", "b.jsonl")] {
        let ran = run(&sandbox, &["--list", "list.jsonl", "-o", first]);
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        let is_due = |sandbox: &Sandbox| match second {
            "parts" => std::fs::read_dir(sandbox.path(second)).is_ok_and(|entries| entries.count() > 20),
            _ => std::fs::read(sandbox.path(&format!("{second}.journal")))
                .is_ok_and(|journal| journal.iter().filter(|&&byte| byte == b'\n').count() > 20),
        };
        let n_kept = killed(&sandbox, &["--list", "list.jsonl", "-o", second], is_due);
        assert!((15..199).contains(&n_kept), "{second}: {n_kept} texts kept");
    }
    for index in (0..200).filter(|&index| index != 3) {
        let name = |folder: &str| format!("{folder}/t{index}.wav");
        assert!(bytes(&sandbox, &name("whole")) == bytes(&sandbox, &name("parts")), "{index}");
    }
    assert_eq!(std::fs::read_dir(sandbox.path("parts")).unwrap().count(), 199);
    for suffix in ["safetensors", "jsonl", "safetensors.failures.jsonl", "jsonl.failures.jsonl", "jsonl.origin.json"] {
        assert!(bytes(&sandbox, &format!("a.{suffix}")) == bytes(&sandbox, &format!("b.{suffix}")), "{suffix}");
    }
}

#[test]
fn a_list_becomes_a_corpus() {
    let sandbox = stocked();
    write_list(&sandbox, 12);
    let list = ["--list", "list.jsonl", "-o"];
    let spoken = |args: &[&str]| {
        let ran = run(&sandbox, &[&list, args, &["--json"]].concat());
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let said = spoken(&["all.safetensors"]);
    assert_eq!(
        (&said["texts"], &said["rows"], &said["samples"]),
        (&Value::from(11), &Value::from(11), &Value::from(0))
    );
    assert_eq!(
        (&said["failures"][0]["path"], &said["expected"]["texts_at_once"]),
        (&"list.jsonl:4".into(), &11.into())
    );
    let found = |args: &[&str]| {
        let ran = sandbox.run(&[&["dataset"], args].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    found(&["verify", "all.safetensors"]);
    assert!(found(&["info", "all.safetensors"]).contains("tokens"));
    // Shards join to the same bytes.
    for shard in ["1/3", "3/3", "2/3"] {
        let output = format!("{}.safetensors", &shard[..1]);
        let ran = run(&sandbox, &[&list, &[output.as_str(), "--shard", shard][..]].concat());
        assert_eq!(ran.code, i32::from(shard == "1/3"), "{}", ran.stderr);
    }
    found(&["merge", "2.safetensors", "1.safetensors", "3.safetensors", "-o", "merged.safetensors"]);
    assert!(bytes(&sandbox, "merged.safetensors") == bytes(&sandbox, "all.safetensors"));
    // The rows are those of audio: the first text alone has the codes of the first line.
    spoken(&["lines.jsonl"]);
    found(&["verify", "lines.jsonl"]);
    let text = String::from_utf8(bytes(&sandbox, "lines.jsonl")).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&line["path"], &line["text"]), (&Value::from("t0"), &Value::from("This is text 0.")));
    done(&sandbox, &["This is text 0.", "-o", "x.wav", "--tokens", "x.json"]);
    assert_eq!(serde_json::from_slice::<Value>(&bytes(&sandbox, "x.json")).unwrap()["codes"], line["codes"]);
    assert_eq!(spoken(&["lines.jsonl"])["texts_kept"], 11);
    spoken(&["orpheus.jsonl", "--format", "orpheus", "--drop-repeats"]);
    let text = String::from_utf8(bytes(&sandbox, "orpheus.jsonl")).unwrap();
    assert!(text.contains("\"text\":\"This is text 11.\",\"codes_list\":[12"), "{text}");
    // Other settings, forms and inputs are refused and leave everything as it is.
    let before = sandbox.files();
    for (args, expected) in [
        (&["all.safetensors", "--seed", "1", "--temperature", "0.5"][..], "is not of this request"),
        (&["lines.jsonl", "--drop-repeats"], "is not of this request"),
        (&["x.safetensors", "--drop-repeats"], "--drop-repeats: this is for lines"),
        (&["x", "--format", "orpheus"], "--format orpheus: this is for lines"),
        (&["x.safetensors", "--speed", "2"], "tokens have no speed"),
        (&["x.safetensors", "--shard", "3/2"], "shard 3 of 2 does not exist"),
        (&["list.jsonl", "-f"], "list.jsonl"),
        (&["x.npz"], "--list needs a folder, or a corpus"),
    ] {
        let ran = run(&sandbox, &[&list, args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(sandbox.files(), before);
}

#[test]
fn a_trace_names_the_parts_of_the_work() {
    const PARTS: [&str; 7] = ["estimate", "prompt", "step", "sample", "population", "codec", "encode"];
    let sandbox = stocked();
    std::fs::write(sandbox.path("list.jsonl"), "{\"text\": \"Good morning.\"}\n").unwrap();
    for args in [["Good morning.", "-o", "a.wav"].as_slice(), &["--list", "list.jsonl", "-o", "clips"]] {
        let ran = done(&sandbox, &[args, &["--trace", "t.json", "--profile-table", "-f"]].concat());
        let rows: Vec<&str> = ran.stderr.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let trace: Value = serde_json::from_slice(&bytes(&sandbox, "t.json")).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        for part in PARTS {
            assert!(rows.contains(&part), "{part} in {}", ran.stderr);
            assert!(events.iter().any(|event| event["ph"] == "X" && event["name"] == part), "{part} in {events:?}");
        }
    }
}

#[test]
fn bad_texts_voices_and_models_are_refused_and_leave_nothing() {
    let sandbox = stocked();
    std::fs::write(sandbox.path("latin1.txt"), b"caf\xe9").unwrap();
    let before = sandbox.files();
    for (args, expected) in [
        (&["", "-o", "x.wav"][..], "the text is empty"),
        (&["🎉", "-o", "x.wav"], "the text has no word to speak"),
        (&["Hi.", "-o", "x.wav", "--voice", "eve"], "hint: the voices are ann, bob"),
        (&["Hi.", "-o", "x.aac"], ".wav, .flac, .mp3 or .opus"),
        (&["Hi.", "-o", "x.wav", "--tokens", "x.tokens"], "hint: name it .txt, .json, .npy or .safetensors\n"),
        (&["-5 degrees", "-o", "x.wav"], "hint: put `--` after all flags, before a text that begins with `-`"),
        (&["Hi.", "-o", "x.wav", "--print-words"], "cannot be used with"),
        (&["Hi.", "-o", "x.wav", "--top-p", "2"], "a top-p of 2 is not possible"),
        (&["Hi.", "-o", "x.wav", "--temperature", "nan"], "temperature"),
        (&["Hi.", "-o", "x.wav", "--speed", "9"], "speed"),
        (&["Hi.", "-o", "x.wav", "--model", "builtin:mini24"], "the voice model was trained with"),
        (&["--file", "latin1.txt", "-o", "x.wav"], "latin1.txt: this is not UTF-8 text\nhint: convert it to UTF-8"),
        (&["--file", "none.txt", "-o", "x.wav"], "none.txt"),
        (&["Hi.", "-o", "-", "--json"], "--json and -o - both need stdout"),
        (&["-o", "x.wav"], "TEXT"),
        (&["Hi.", "-o", "x.wav", "--voice-model", "none"], "none"),
    ] {
        let model = golden_file("snac/tiny24");
        let given = |flag: &str| args.contains(&flag);
        let mut line = vec!["speak"];
        if !given("--voice-model") {
            line.extend(["--voice-model", "voice"]);
        }
        if !given("--model") {
            line.extend(["--model", &model]);
        }
        let ran = sandbox.run(&[&line, args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(sandbox.files(), before);
}

#[test]
fn free_drawing_and_small_memory_say_what_they_do() {
    let sandbox = stocked();
    // Each hint names a limit with which the next part of the work succeeds.
    let mut limit = "1MiB".to_owned();
    for _ in 0..3 {
        let ran = run(&sandbox, &["Hi.", "-o", "x.wav", "--memory-limit", &limit]);
        if ran.code == 0 {
            break;
        }
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        let (_, hint) = ran.stderr.split_once("hint: use --memory-limit ").unwrap();
        limit = hint.split_whitespace().next().unwrap().to_owned();
    }
    assert!(sandbox.path("x.wav").exists(), "not with {limit}");
    let ran = run(&sandbox, &["Hi.", "-o", "free.wav", "--free", "--json"]);
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    let is_counted = said["tokens"]["rejected"].as_u64().is_some_and(|n| n > 0);
    assert!(is_counted || said["error"]["message"].as_str().is_some_and(|text| text.contains("no speech")), "{said}");
}
