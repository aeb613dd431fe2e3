//! A GPU that disappears while it works: an error, nothing under a final name, no panic and no hang.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, golden_file, skip};
use crate::serve::tokens;
use crate::sound;

/// Longer than anything takes on a busy machine: only a command that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command whose GPU is lost after `n_calls` of the driver.
fn doomed(sandbox: &Sandbox, args: &[&str], n_calls: u32) -> Option<Command> {
    let mut command = sandbox.on_cuda(args)?;
    if std::env::var_os("MELISMA_SHIM").is_none() {
        skip("only the GPU of the shim can disappear");
        return None;
    }
    command.env("MELISMA_SHIM_LOST", n_calls.to_string());
    Some(command)
}

fn ended(command: &mut Command) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ran::from(child.wait_with_output().unwrap())
}

/// Loses the GPU later and later, until a run has ended before. All others end with an error.
fn lose(sandbox: &Sandbox, args: &[&str], output: &str) -> Option<Ran> {
    let mut n_calls = 1;
    loop {
        let ran = ended(&mut doomed(sandbox, args, n_calls)?);
        assert!(!ran.stderr.contains("panicked"), "{n_calls}: {}", ran.stderr);
        if ran.code == 0 {
            assert!(n_calls > 50, "{n_calls} calls are enough: {}", ran.stderr);
            return Some(ran);
        }
        let error = ran.stderr.lines().find_map(|line| line.strip_prefix("error: "));
        let error = error.unwrap_or_else(|| panic!("{n_calls}: {}", ran.stderr));
        assert!(ran.code == 4 && error.contains("CUDA"), "{n_calls}: {} {}", ran.code, ran.stderr);
        assert!(!sandbox.path(output).exists(), "{n_calls}: {}", ran.stderr);
        n_calls += 1 + n_calls / 2;
    }
}

#[test]
fn a_decode_ends_with_an_error_and_without_a_file_on_cuda() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("t.txt"), tokens(6).concat()).unwrap();
    let tiny = golden_file("snac/tiny24");
    let Some(ran) = lose(&sandbox, &["decode", "t.txt", "-o", "a.wav", "--model", &tiny, "--chunk", "1"], "a.wav")
    else {
        return;
    };
    assert!(sandbox.path("a.wav").exists(), "{}", ran.stderr);
    assert_eq!(sandbox.files(), ["a.wav", "t.txt"]);
}

#[test]
fn a_build_resumes_where_its_gpu_disappeared_on_cuda() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for seed in 0..8 {
        let wav = sound::wav(22_050, &sound::noise(seed, 11_025));
        std::fs::write(sandbox.path(&format!("w/{seed}.wav")), wav).unwrap();
    }
    let build = ["dataset", "build", "w", "--segment", "250ms", "--set", "n_fft=256", "--json"];
    let one = ["--technique", "segments_per_buffer=1", "-o"];
    let Some(ran) = lose(&sandbox, &[&build[..], &one, &["d.h5"]].concat(), "d.h5") else { return };
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["files_ok"], &report["files_failed"], &report["segments"]), (&8.into(), &0.into(), &16.into()));
    assert!(report["segments_resumed"].as_u64().unwrap() > 0, "{report}");
    let whole = ended(&mut sandbox.on_cuda(&[&build[..], &["-o", "e.h5"]].concat()).unwrap());
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let read = |name| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("d.h5") == read("e.h5"), "the resumed rows differ");
    assert_eq!(sandbox.files(), ["d.h5", "e.h5", "w"]);
}
