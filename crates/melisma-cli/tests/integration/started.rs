//! What a process is started with: a closed or full stdout, few threads, pipes for files, odd names.

use std::process::{Command, Stdio};

use crate::sandbox::{Ran, Sandbox, golden_file};
use crate::sound::{noise, wav};

/// Runs `line` behind `before`, words of a shell.
fn shell(sandbox: &Sandbox, before: &str, line: &str, after: &str) -> Ran {
    let program = sandbox.command(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before} \"$0\" {line} {after}")]).arg(program.get_program());
    command.current_dir(sandbox.directory.path()).env("HOME", sandbox.directory.path());
    Ran::from(command.stdin(Stdio::null()).output().unwrap())
}

fn stocked() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for i in 0..4 {
        std::fs::write(sandbox.path(&format!("w/{i}.wav")), wav(24_000, &noise(i, 12_000))).unwrap();
    }
    std::fs::copy(golden_file("snac/tiny24/model.safetensors"), sandbox.path("m.safetensors")).unwrap();
    sandbox
}

#[test]
fn a_stdout_that_takes_nothing_is_an_error() {
    let sandbox = stocked();
    let tiny = golden_file("snac/tiny24");
    for line in [
        "--help",
        "--version",
        "mel --help",
        "doctor",
        "doctor --json",
        "completions bash",
        "--print-config",
        "mel --list",
        &format!("encode w/0.wav -o - --model {tiny}"),
        "synth preset:sleep --seconds 1 --rate 8000 -o -",
        "synth preset:sleep --seconds 1 --rate 8000 --endless -o -",
        "pack m.safetensors -o -",
    ] {
        let closed = shell(&sandbox, "", line, ">&-");
        assert_eq!(closed.code, 2, "{line}: {closed:?}");
        assert!(closed.stderr.contains("error: stdout: it is closed\nhint: "), "{line}: {closed:?}");
        let full = shell(&sandbox, "", line, "> /dev/full");
        assert_eq!(full.code, 4, "{line}: {full:?}");
        assert!(full.stderr.contains("error: stdout: ") && full.stderr.contains("No space left"), "{line}: {full:?}");
        // Nobody needs it where nothing is said.
        assert_eq!(shell(&sandbox, "", line, "> /dev/null").code, 0, "{line}");
    }
    assert_eq!(shell(&sandbox, "", "mel w/0.wav -o quiet.npy -q", ">&-").code, 0);
}

#[test]
fn a_command_without_its_command_says_which_there_are() {
    let sandbox = Sandbox::new();
    for (line, told) in [
        ("cache", "error: `melisma cache` needs a command\nhint: use one of list, verify, clear\n"),
        ("cache --json", "error: `melisma cache` needs a command\nhint: use one of list, verify, clear\n"),
        ("dataset", "error: `melisma dataset` needs a command\nhint: use one of build, info, verify, merge, plan\n"),
    ] {
        let ran = sandbox.line(line);
        assert_eq!((ran.code, ran.stderr.as_str()), (2, told), "{line}");
    }
}

#[test]
fn mel_reads_pipes() {
    let sandbox = stocked();
    assert_eq!(sandbox.line("mel w/0.wav -o file.npy").code, 0);
    let expected = std::fs::read(sandbox.path("file.npy")).unwrap();
    assert!(Command::new("mkfifo").arg(sandbox.path("pipe.wav")).status().unwrap().success());
    let temporary = sandbox.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    for (line, output) in [
        ("cat w/0.wav > pipe.wav & exec \"$0\" mel pipe.wav -o 1.npy", "1.npy"),
        ("exec \"$0\" mel - -o 2.npy < w/0.wav", "2.npy"),
    ] {
        let program = sandbox.command(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", line]).arg(program.get_program()).current_dir(sandbox.directory.path());
        let ran = Ran::from(command.env("HOME", sandbox.directory.path()).env("TMPDIR", &temporary).output().unwrap());
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        assert!(std::fs::read(sandbox.path(output)).unwrap() == expected, "{line}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{line}");
    }
}

#[test]
fn names_with_line_feeds_stay_on_their_line() {
    let sandbox = stocked();
    let (sound, bytes) = ("w/a\nerror: b.wav", wav(24_000, &noise(9, 12_000)));
    std::fs::write(sandbox.path(sound), &bytes).unwrap();
    std::fs::write(sandbox.path("w/cut\nnote: c.wav"), &bytes[..20]).unwrap();
    std::fs::copy(sandbox.path("m.safetensors"), sandbox.path("n\nm.safetensors")).unwrap();
    std::fs::copy(golden_file("optimize/control.onnx"), sandbox.path("c\no.onnx")).unwrap();
    std::fs::copy(golden_file("optimize/control.x.npy"), sandbox.path("x.npy")).unwrap();
    for (args, shown) in [
        (&["mel", sound, "-o", "a.npy"][..], "w/a\\nerror: b.wav"),
        (&["dataset", "build", "w", "-o", "a.h5", "--segment", "100ms"], "cut\\nnote: c.wav"),
        (&["dataset", "build", "w", "-o", "a\nb.h5", "--segment", "100ms"], "a\\nb.h5.failures.jsonl"),
        (&["pack", "n\nm.safetensors"], "n\\nm.packed.safetensors"),
        (&["pack", "-t", "n\nm.packed.safetensors"], "n\\nm.packed.safetensors"),
        (&["unpack", "n\nm.packed.safetensors", "-o", "u\nv.safetensors"], "u\\nv.safetensors"),
        (&["run", "c\no.onnx", "--input", "x=x.npy", "-o", "o\nut"], "o\\nut/"),
        (&["decode", "two\nlines", "-o", "x.wav"], "two\\nlines"),
    ] {
        let ran = sandbox.run(args);
        let said = ran.stdout + &ran.stderr;
        assert!(said.contains(shown), "{args:?}: {said}");
        for forged in ["\nerror: b", "\nnote: c", "\nb.h5", "\nm.packed", "\nm.safe", "\nv.safe", "\nut/", "\nlines"] {
            assert!(!said.contains(forged), "{args:?}: {said}");
        }
    }
}

/// Bytes of address space for a thread's stack, and for everything else.
const STACK: u64 = 1 << 30;

/// Room in the address space for `n` threads binds every user, the superuser as well.
#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let sandbox = stocked();
    let tiny = golden_file("snac/tiny24");
    let (vocoder, x) = (golden_file("optimize/control.onnx"), golden_file("optimize/control.x.npy"));
    for line in [
        "dataset build w -o a.h5 --segment 100ms".to_owned(),
        format!("encode w -o a.safetensors --model {tiny}"),
        format!("encode w/0.wav -o t.txt --model {tiny}"),
        "dataset verify b.h5".to_owned(),
        "dataset build --test-gpu-pipeline --segment 20ms --set n_fft=256".to_owned(),
        "synth preset:bright --seconds 1 --rate 8000 -o s.wav".to_owned(),
        "synth preset:bright --seconds 1 --rate 8000 -o s.wav --debug-capture captured".to_owned(),
        "synth preset:bright --seconds 1 --rate 8000 -o clips --clips 4".to_owned(),
        "mel w/0.wav -o a.npy".to_owned(),
        "pack m.safetensors -o p.safetensors".to_owned(),
        format!("run {vocoder} --input x={x} -o out"),
        "bench compare none none".to_owned(),
        "doctor".to_owned(),
    ] {
        assert_eq!(sandbox.line("dataset build w -o b.h5 --segment 100ms --device cpu").code, 0);
        let run = |n_threads: u64| {
            let kib = (n_threads * STACK + STACK * 3 / 4) >> 10;
            let before = format!("ulimit -v {kib}; RUST_MIN_STACK={STACK} MALLOC_ARENA_MAX=1 exec");
            shell(&sandbox, &before, &line, "--device cpu --threads 4 -f")
        };
        let mut n_refused = 0;
        for n_threads in 0..8 {
            let ran = run(n_threads);
            assert!(!ran.stderr.contains("panicked"), "{line} with {n_threads} threads: {ran:?}");
            if ran.code == 4 {
                n_refused += 1;
                assert!(
                    ran.stderr.contains("error: ") && ran.stderr.contains("a thread cannot be started: "),
                    "{line} with {n_threads}: {ran:?}"
                );
            } else {
                assert_eq!(ran.code, if line.starts_with("bench") { 2 } else { 0 }, "{line} with {n_threads}: {ran:?}");
            }
        }
        // Every command has a thread that waits for signals.
        assert!(n_refused >= 1, "{line}");
    }
}

#[test]
fn a_server_without_its_threads_is_an_error() {
    let sandbox = Sandbox::new();
    for n_threads in 0..4 {
        let kib = (n_threads * STACK + STACK * 3 / 4) >> 10;
        let before = format!("ulimit -v {kib}; RUST_MIN_STACK={STACK} MALLOC_ARENA_MAX=1 exec");
        let ran = shell(&sandbox, &before, "serve --port 0 --device cpu --threads 4", "");
        assert_eq!(ran.code, 4, "{n_threads}: {ran:?}");
        assert!(ran.stderr.contains("a thread cannot be started: ") && !ran.stderr.contains("panicked"), "{ran:?}");
    }
}
