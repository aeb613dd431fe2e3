//! `melisma dataset build`: what it writes, what it refuses, and that a kill at any instant loses nothing.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use melisma::random::Lcg64;
use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::sound::{self, noise, wav};

pub fn corpus(sandbox: &Sandbox, n: usize) {
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for i in 0..n {
        std::fs::write(sandbox.path(&format!("w/{i:03}.wav")), wav(22_050, &noise(i as u64, 9000 + 1531 * (i % 9))))
            .unwrap();
    }
}

pub fn build(sandbox: &Sandbox, more: &[&str]) -> (i32, Value, String) {
    let mut args = vec!["dataset", "build", "--json", "--device", "cpu"];
    args.extend(more);
    let ran = sandbox.run(&args);
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_default(), ran.stderr)
}

fn bytes(sandbox: &Sandbox, name: &str) -> Vec<u8> {
    std::fs::read(sandbox.path(name)).unwrap()
}

#[test]
fn the_same_bytes_for_any_threads_and_batch() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 12);
    let (code, json, _) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "200ms", "--threads", "1"]);
    assert_eq!((code, json["files_ok"].as_u64(), json["files_failed"].as_u64()), (0, Some(12), Some(0)));
    assert!(json["segments"].as_u64().unwrap() > 24 && json["stages"]["compute"].as_f64().unwrap() > 0.0);
    let first = bytes(&sandbox, "a.h5");
    let cases = [
        ("b.h5", ["--threads", "3"]),
        ("c.h5", ["--seg-microbatch-segments", "1"]),
        ("d.h5", ["--memory-limit", "2MiB"]),
    ];
    for (name, more) in cases {
        let mut args = vec!["w", "-o", name, "--segment", "200ms"];
        args.extend(more);
        assert_eq!(build(&sandbox, &args).0, 0);
        assert!(bytes(&sandbox, name) == first, "{name} differs");
    }
    assert_eq!(sandbox.files(), ["a.h5", "b.h5", "c.h5", "d.h5", "w"]);
}

/// A segment of a second holds 9000 samples and zeros, which nobody reads.
#[test]
fn padding_is_not_read() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    std::fs::write(sandbox.path("w/a.wav"), wav(22_050, &noise(1, 9000))).unwrap();
    let (code, json, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "1s"]);
    assert_eq!((code, &json["segments"], &json["bytes_read"]), (0, &1.into(), &18_000.into()), "{stderr}");
}

#[test]
fn a_finished_dataset_is_left_alone_and_another_plan_is_refused() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 3);
    assert_eq!(build(&sandbox, &["w", "-o", "a.h5", "--segment", "1s"]).0, 0);
    let first = bytes(&sandbox, "a.h5");
    let (code, json, _) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "1s"]);
    assert_eq!((code, &json["segments_resumed"], &json["files_newer"]), (0, &json["segments"], &0.into()));
    // Its audio may have changed, and its length may be the same.
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    std::fs::File::open(sandbox.path("w/001.wav")).unwrap().set_modified(later).unwrap();
    let (code, json, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "1s"]);
    assert_eq!((code, &json["files_newer"]), (0, &1.into()));
    assert!(stderr.contains("warning: 1 file was written after a.h5, which was finished before"), "{stderr}");
    let (code, _, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "2s"]);
    assert!(
        code == 2 && stderr.contains("a.h5: the file exists already") && stderr.contains("hint: use -f"),
        "{stderr}"
    );
    assert!(bytes(&sandbox, "a.h5") == first);
    assert_eq!(build(&sandbox, &["w", "-o", "a.h5", "--segment", "2s", "-f"]).0, 0);
    assert!(bytes(&sandbox, "a.h5") != first);
}

#[test]
fn every_damaged_file_is_listed_and_no_good_one_is_lost() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 20);
    let good = wav(22_050, &noise(1, 9000));
    let write = |name: &str, bytes: &[u8]| std::fs::write(sandbox.path("w").join(name), bytes).unwrap();
    let patched = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    write("x-zero.wav", b"");
    write("x-header.wav", &good[..44]);
    write("x-short.wav", &good[..30]);
    write("x-cut.wav", &good[..good.len() / 2]);
    write("x-long.wav", &patched(40, &[0xff, 0xff, 0xff, 0x7f]));
    write("x-codec.wav", &patched(20, &[0x11, 0]));
    write("x-0hz.wav", &patched(24, &[0; 4]));
    write("x-channels.wav", &patched(22, &[0xe8, 3]));
    write("x-text.wav", b"this is no sound at all, whatever its name says");
    let mut floats = noise(2, 5000);
    floats[4000] = f32::NAN;
    write("x-nan.wav", &sound::wav_f32(22_050, &floats));
    floats[4000] = f32::INFINITY;
    write("x-infinite.wav", &sound::wav_f32(22_050, &floats));
    std::fs::create_dir(sandbox.path("w/x-folder.wav")).unwrap();
    write("x-unreadable.wav", &good);
    std::fs::set_permissions(sandbox.path("w/x-unreadable.wav"), PermissionsExt::from_mode(0o0)).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(sandbox.path("w/x-pipe.wav")).status();
    std::os::unix::fs::symlink("nowhere.wav", sandbox.path("w/x-link.wav")).unwrap();
    // Names that are long, or no UTF-8, are good files.
    write(&format!("{}.wav", "n".repeat(251)), &good);
    std::fs::create_dir(sandbox.path("w").join("m".repeat(60))).unwrap();
    write(&format!("{}/{}.wav", "m".repeat(60), "n".repeat(240)), &good);
    let odd = std::ffi::OsStr::from_bytes(b"y-\xff\xfe.wav");
    std::fs::write(sandbox.path("w").join(Path::new(odd)), &good).unwrap();

    let mut expected =
        vec!["zero", "header", "short", "cut", "long", "codec", "0hz", "channels", "text", "nan", "infinite"];
    expected.extend(["folder", "link"]);
    let reads_all = std::fs::File::open(sandbox.path("w/x-unreadable.wav")).is_ok();
    expected.extend((!reads_all).then_some("unreadable"));
    expected.extend(fifo.is_ok_and(|status| status.success()).then_some("pipe"));
    let (code, json, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "250ms"]);
    assert_eq!(code, 1, "{stderr}");
    assert_eq!(json["files_failed"].as_u64().unwrap(), expected.len() as u64, "{:#}", json["failures"]);
    assert_eq!(json["files_ok"].as_u64().unwrap(), 23 + u64::from(reads_all));
    let list = String::from_utf8(bytes(&sandbox, "a.h5.failures.jsonl")).unwrap();
    let failures: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for name in &expected {
        let found = failures.iter().find(|failure| failure["path"] == format!("x-{name}.wav"));
        let failure = found.unwrap_or_else(|| panic!("{name} is not listed"));
        let late = ["nan", "infinite"].contains(name);
        assert_eq!(failure["action"], if late { "zero-filled" } else { "skipped" }, "{failure}");
        assert!(!failure["message"].as_str().unwrap().is_empty() && failure["code"].is_string());
    }
    // Without the damaged files the good ones have the same rows.
    for name in &expected {
        let path = sandbox.path(&format!("w/x-{name}.wav"));
        std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path)).unwrap();
    }
    assert_eq!(build(&sandbox, &["w", "-o", "b.h5", "--segment", "250ms"]).0, 0);
    let (all, good) = (sound::rows(&sandbox.path("a.h5")), sound::rows(&sandbox.path("b.h5")));
    let kept: Vec<_> =
        all.iter().filter(|row| !expected.iter().any(|name| row.path == format!("x-{name}.wav"))).collect();
    assert_eq!(kept.len(), good.len());
    for (kept, good) in kept.iter().zip(&good) {
        assert_eq!((&kept.path, kept.status, kept.checksum), (&good.path, 0, good.checksum));
    }
    assert!(good.iter().any(|row| row.path == "y-%FF%FE.wav"));
    for row in all.iter().filter(|row| row.path == "x-nan.wav") {
        assert!(row.status != 0 || row.start < 4000, "{row:?}");
    }
    assert!(all.iter().any(|row| row.path == "x-nan.wav" && row.status == 3 && row.is_zero));
}

#[test]
fn one_damaged_file_in_a_hundred_costs_no_good_one() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 500);
    let (_, all, _) = build(&sandbox, &["w", "-o", "all.h5", "--segment", "250ms"]);
    let before = sound::rows(&sandbox.path("all.h5"));
    for i in (50..500).step_by(100) {
        let path = sandbox.path(&format!("w/{i:03}.wav"));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&b"RIFF"[..], &bytes[8..60]].concat()).unwrap();
    }
    let (code, json, _) = build(&sandbox, &["w", "-o", "some.h5", "--segment", "250ms"]);
    assert_eq!((code, json["files_failed"].as_u64(), json["files_ok"].as_u64()), (1, Some(5), Some(495)));
    assert_eq!(all["files_ok"].as_u64(), Some(500));
    let damaged: Vec<String> = (50..500).step_by(100).map(|i| format!("{i:03}.wav")).collect();
    let listed: Vec<&str> = json["failures"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    assert_eq!(listed, damaged);
    let good: Vec<_> = before.into_iter().filter(|row| !damaged.contains(&row.path)).collect();
    assert!(sound::rows(&sandbox.path("some.h5")) == good);
}

#[test]
fn the_pipeline_is_rehearsed_without_files() {
    let sandbox = Sandbox::new();
    let (code, json, stderr) = build(&sandbox, &["--test-gpu-pipeline", "--segment", "20ms", "--set", "n_fft=256"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(json["segments_per_second"].as_f64().unwrap() > 0.0 && json["limited_by"].is_string(), "{json:#}");
    assert!(sandbox.files().is_empty());
    let (code, _, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--technique", "reads=psychic"]);
    assert!(code == 2 && stderr.contains("direct, buffered, mapped"), "{stderr}");
}

#[test]
fn on_error_fail_stops() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 2);
    std::fs::write(sandbox.path("w/bad.wav"), b"RIFF").unwrap();
    let (code, _, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--on-error", "fail"]);
    assert!(code == 2 && stderr.starts_with("error: bad.wav: ") && stderr.contains("\nhint: "), "{stderr}");
    assert!(!sandbox.path("a.h5").exists());
}

#[test]
fn wrong_usage_is_refused_before_any_work() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 1);
    for (more, message) in [
        (&["w", "-o", "a.zip"][..], "unknown output suffix `.zip`"),
        (&["w", "-o", "rows.npy"], "rows.npy: a dataset is a folder of .npy files"),
        (&["-", "-o", "a.h5"], "use --list -"),
        (&["nowhere", "-o", "a.h5"], "nowhere: No such file"),
        (&["w", "-o", "a.h5", "--segment", "10"], "is not a duration"),
        (&["w", "-o", "a.h5", "--segment", "1ms"], "too few to reflect"),
        (&["w", "-o", "a.h5", "--shard", "0/4"], "shard 0 of 4 does not exist"),
        (&["w", "-o", "a.h5", "--shard", "3/2"], "shard 3 of 2 does not exist"),
        (&["w", "-o", "a.h5", "--shard", "half"], "this is not I/N"),
        (&["w", "-o", "a.h5", "--preset", "bilder"], "unknown preset"),
        (&["w", "-o", "a.h5", "--set", "n_mels=0"], "n_mels is 0"),
        (&["w", "-o", "no/such/a.h5"], "No such file"),
    ] {
        let (code, _, stderr) = build(&sandbox, more);
        assert!(code == 2 && stderr.contains(message) && stderr.contains("\nhint: "), "{more:?}: {stderr}");
    }
    assert_eq!(sandbox.files(), ["w"]);
}

#[test]
fn a_file_that_changed_is_noticed_before_a_build_goes_on() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 40);
    kill_at_work(&sandbox);
    // The same length: only its time tells.
    let old = std::fs::read(sandbox.path("w/000.wav")).unwrap();
    std::fs::write(sandbox.path("w/000.wav"), wav(22_050, &noise(77, 9000))).unwrap();
    assert_eq!(std::fs::metadata(sandbox.path("w/000.wav")).unwrap().len(), old.len() as u64);
    let file = std::fs::File::options().write(true).open(sandbox.path("w/000.wav")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    let (code, _, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "100ms"]);
    assert!(code == 2 && stderr.contains("an unfinished build of other files"), "{stderr}");
    assert_eq!(build(&sandbox, &["w", "-o", "a.h5", "--segment", "100ms", "-f"]).0, 0);
    assert_eq!(build(&sandbox, &["w", "-o", "whole.h5", "--segment", "100ms"]).0, 0);
    assert!(bytes(&sandbox, "a.h5") == bytes(&sandbox, "whole.h5"), "old rows stayed");
}

#[test]
fn a_setting_that_differs_is_named_with_both_values() {
    let sandbox = Sandbox::new();
    corpus(&sandbox, 40);
    kill_at_work(&sandbox);
    let other = ["w", "-o", "a.h5", "--segment", "200ms", "--segment-hop", "50ms", "--drop-tail", "--max-seconds", "9"];
    let (code, _, stderr) = build(&sandbox, &other);
    let names =
        ["max_seconds was not set, is 9.0; segment_hop_samples was ", "; segment_samples was ", "; tail was pad"];
    let is_named = names.iter().all(|name| stderr.contains(name));
    assert!(
        code == 2 && stderr.contains("an unfinished build of other settings is there: max") && is_named,
        "{stderr}"
    );
    assert_eq!(build(&sandbox, &["w", "-o", "a.h5", "--segment", "100ms"]).0, 0);
    let (code, _, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "100ms", "--drop-tail"]);
    assert!(code == 2 && stderr.contains(", and is not of this plan: tail was pad, is drop\n"), "{stderr}");
}

/// Lines of the journal: a header, and one for each batch of rows.
fn n_recorded(sandbox: &Sandbox) -> usize {
    std::fs::read_to_string(sandbox.path("a.h5.journal")).map_or(0, |text| text.matches('\n').count())
}

/// Starts a build, and kills it once it has recorded `more` lines than were there before; none at all kills it at once.
/// Whether it was killed before its end.
fn kill_after(sandbox: &Sandbox, more: usize) -> bool {
    let due = n_recorded(sandbox) + more;
    let mut child = sandbox
        .command(&["dataset", "build", "w", "-o", "a.h5", "--segment", "100ms", "--device", "cpu", "--threads", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while more > 0 && n_recorded(sandbox) < due && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(100));
    }
    let _ = child.kill();
    child.wait().unwrap();
    !sandbox.path("a.h5").exists()
}

/// Kills a build that has recorded rows. Where this test gets too little time to catch one at work, it tries again.
fn kill_at_work(sandbox: &Sandbox) {
    for _ in 0..100 {
        let _ = std::fs::remove_file(sandbox.path("a.h5"));
        if kill_after(sandbox, 2) && n_recorded(sandbox) >= 2 {
            return;
        }
    }
    panic!("no build was killed before its end");
}

/// Kills `n` builds, checks that what is there is valid each time, and compares the end with an undisturbed run.
fn kills(n: usize, files: usize) {
    let sandbox = Sandbox::new();
    corpus(&sandbox, files);
    assert_eq!(build(&sandbox, &["w", "-o", "whole.h5", "--segment", "100ms"]).0, 0);
    let mut random = Lcg64::new(12_345);
    let mut killed = 0;
    for _ in 0..100 * n {
        if killed == n {
            break;
        }
        if kill_after(&sandbox, random.bits() as usize % 8) {
            killed += 1;
            if sandbox.path("a.h5.partial").exists() {
                sound::rows(&sandbox.path("a.h5.partial"));
            }
        } else {
            // It ended before the kill: the next round begins anew.
            assert!(bytes(&sandbox, "a.h5") == bytes(&sandbox, "whole.h5"));
            std::fs::remove_file(sandbox.path("a.h5")).unwrap();
        }
    }
    assert_eq!(killed, n, "builds were killed");
    kill_at_work(&sandbox);
    let (code, json, stderr) = build(&sandbox, &["w", "-o", "a.h5", "--segment", "100ms"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(json["segments_resumed"].as_u64().unwrap() > 0, "{json}");
    assert!(bytes(&sandbox, "a.h5") == bytes(&sandbox, "whole.h5"));
    assert_eq!(sandbox.files(), ["a.h5", "w", "whole.h5"]);
}

#[test]
fn ten_kills_lose_nothing() {
    kills(10, 150);
}

#[test]
#[ignore = "extended: 60 kills on a corpus that takes seconds"]
fn sixty_kills_lose_nothing() {
    kills(60, 3000);
}
