//! `melisma dataset build`: files that it leaves out or refuses, and where their names come from.

use std::process::Stdio;

use crate::dataset_build::{build, corpus};
use crate::sandbox::Sandbox;
use crate::sound::{self, noise, wav};

#[test]
fn a_build_without_a_single_row_is_an_error_that_writes_nothing() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    std::fs::write(sandbox.path("w/a.wav"), b"RIFF").unwrap();
    std::fs::write(sandbox.path("w/b.wav"), wav(22_050, &noise(1, 9000))).unwrap();
    std::fs::write(sandbox.path("w/c.wav"), wav(22_050, &noise(2, 8000))).unwrap();
    let args = ["w", "--drop-tail", "-o"];
    for name in ["a.h5", "folder"] {
        let (code, _, stderr) = build(&sandbox, &[&args[..], &[name]].concat());
        assert!(code == 2 && stderr.contains("no row can be made of 3 files"), "{stderr}");
        assert!(stderr.contains("2 too-short, 1 t") && stderr.contains("the first is a.wav: "), "{stderr}");
    }
    assert_eq!(sandbox.files(), ["w"]);
    // One of several shards may be empty, but not all of them.
    for shard in ["1/2", "2/2"] {
        let (code, json, stderr) =
            build(&sandbox, &[&args[..], &[&format!("{}.h5", &shard[..1]), "--shard", shard]].concat());
        assert_eq!((code, &json["segments"]), (1, &0.into()), "{stderr}");
    }
    let ran = sandbox.run(&["dataset", "merge", "1.h5", "2.h5", "-o", "all.h5"]);
    assert!(ran.code == 2 && ran.stderr.contains("2 shards without a single row"), "{}", ran.stderr);
    assert!(!sandbox.path("all.h5").exists());
}

#[test]
fn failures_are_counted_by_reason_and_the_printed_list_says_how_many_more_there_are() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    for i in 0..12 {
        std::fs::write(sandbox.path(&format!("w/x-{i:02}.wav")), if i < 5 { &b"RIFF"[..] } else { b"no sound" })
            .unwrap();
    }
    let (code, json, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "250ms"]);
    let counts = json["failures_by_code"].as_object().unwrap();
    let sum: u64 = counts.values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!((code, counts.len(), sum), (1, 2, 12), "{counts:?}");
    for (code, n) in counts {
        assert!(stderr.contains(&format!("{n} {code}")), "{stderr}");
    }
    assert!(
        stderr.contains("12 files were refused; ")
            && stderr.contains("  by reason: 7 ")
            && stderr.ends_with("  and 2 more\n"),
        "{stderr}"
    );
    for i in 10..12 {
        std::fs::remove_file(sandbox.path(&format!("w/x-{i:02}.wav"))).unwrap();
    }
    let (_, _, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "250ms", "-f"]);
    assert!(stderr.contains("10 files were refused") && !stderr.contains("more"), "{stderr}");
}

#[test]
fn filters_leave_files_out_and_belong_to_the_plan() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for (name, n) in [("a", 11_025), ("b", 22_050), ("c", 44_100)] {
        std::fs::write(sandbox.path(&format!("w/{name}.wav")), wav(22_050, &noise(1, n))).unwrap();
    }
    let args = ["w", "-o", "a.h5", "--segment", "1s"];
    let (code, json, stderr) = build(&sandbox, &[&args[..], &["--min-seconds", "0.6", "--max-seconds", "1"]].concat());
    assert_eq!(
        (code, &json["segments"], &json["files_ok"], &json["files_failed"]),
        (0, &1.into(), &1.into(), &0.into())
    );
    assert_eq!((&json["files_left_out"], &json["failures_by_code"]["too-short"]), (&2.into(), &1.into()));
    assert_eq!(json["failures"][1]["message"], "2.000 s; the most is 1 s");
    assert!(stderr.contains("2 files were left out by a filter; they are listed"), "{stderr}");
    for more in [&[][..], &["--min-seconds", "0.6"]] {
        let (code, _, stderr) = build(&sandbox, &[&args[..], more].concat());
        assert!(code == 2 && stderr.contains("is not of this plan"), "{more:?}: {stderr}");
    }
    for (more, message) in [
        (&["--min-seconds", "2", "--max-seconds", "1"][..], "no file has at least 2 and at most 1 seconds"),
        (&["--min-seconds", "-1"], "use a number of seconds"),
        (&["--max-seconds", "0.1"], "no row can be made of 3 files (3 too-long)"),
        (&["--max-failures", "1", "--on-error", "fail"], "cannot be used with"),
    ] {
        let (code, _, stderr) = build(&sandbox, &[&["w", "-o", "b.h5"][..], more].concat());
        assert!(code == 2 && stderr.contains(message), "{more:?}: {stderr}");
    }
    assert!(!sandbox.path("b.h5").exists());
}

#[test]
fn a_build_stops_when_too_many_files_fail_and_resumes_when_more_may() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 6);
    let mut floats = noise(2, 5000);
    floats[4000] = f32::NAN;
    for i in 0..3 {
        std::fs::write(sandbox.path(&format!("w/x-{i}.wav")), sound::wav_f32(22_050, &floats)).unwrap();
    }
    std::fs::write(sandbox.path("w/bad.wav"), b"RIFF").unwrap();
    let args = ["w", "-o", "a.h5", "--segment", "250ms", "--threads", "1", "--max-failures"];
    let (code, _, stderr) = build(&sandbox, &[&args[..], &["2"]].concat());
    assert!(code == 2 && stderr.contains("3 files failed, and at most 2 may; the last: x-1.wav: "), "{stderr}");
    assert!(!sandbox.path("a.h5").exists() && sandbox.path("a.h5.partial").exists());
    let (code, json, stderr) = build(&sandbox, &[&args[..], &["4"]].concat());
    assert_eq!((code, &json["files_failed"]), (1, &4.into()), "{stderr}");
    let (code, _, stderr) = build(&sandbox, &["w", "-o", "b.h5", "--max-failures", "0"]);
    assert!(code == 2 && stderr.starts_with("error: bad.wav: "), "{stderr}");
}

#[test]
fn several_folders_stay_apart_and_lists_come_from_stdin() {
    let sandbox = Sandbox::new();
    for (name, seed) in [("p/wavs", 1), ("q/wavs", 2)] {
        std::fs::create_dir_all(sandbox.path(name)).unwrap();
        std::fs::write(sandbox.path(name).join("a.wav"), wav(22_050, &noise(seed, 9000))).unwrap();
    }
    let paths =
        |name: &str| -> Vec<String> { sound::rows(&sandbox.path(name)).into_iter().map(|row| row.path).collect() };
    let (code, _, stderr) = build(&sandbox, &["q/wavs", "p/wavs", "-o", "a.h5"]);
    assert_eq!((code, paths("a.h5")), (0, ["p/wavs/a.wav", "q/wavs/a.wav"].map(str::to_owned).to_vec()), "{stderr}");
    assert_eq!(build(&sandbox, &["q/wavs", "-o", "b.h5"]).0, 0);
    assert_eq!(paths("b.h5"), ["a.wav"]);
    let lists = ["dataset build --list - -o c.h5", "dataset build --list - --root p -o d.h5 --min-seconds 0.1"];
    for (line, text) in lists.iter().zip(["p/wavs/a.wav\nq/wavs/a.wav\n", "wavs/a.wav\n"]) {
        let args: Vec<&str> = line.split(' ').collect();
        let mut command = sandbox.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{line}");
    }
    assert_eq!(paths("c.h5"), ["p/wavs/a.wav", "q/wavs/a.wav"]);
    assert_eq!(paths("d.h5"), ["wavs/a.wav"]);
}
