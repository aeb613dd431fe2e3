//! A disk that is full: a clear error, and a state that the same command goes on from.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::sandbox::{self, Sandbox};
use crate::sound::{noise, wav};

/// A small file system in memory.
struct Disk(PathBuf);

impl Disk {
    /// None where this user may not mount one.
    fn new(path: PathBuf) -> Option<Self> {
        std::fs::create_dir(&path).unwrap();
        let disk = Self(path);
        disk.mount("size=300k").then_some(disk)
    }

    fn mount(&self, options: &str) -> bool {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// The stocked folder `w`.
fn corpus(sandbox: &Sandbox) {
    std::fs::create_dir(sandbox.path("w")).unwrap();
    for i in 0..60 {
        std::fs::write(sandbox.path(&format!("w/{i:03}.wav")), wav(22_050, &noise(i, 11_025))).unwrap();
    }
}

/// `ulimit -f`, which any user may lower: the signal is an error too.
#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let sandbox = Sandbox::new();
    corpus(&sandbox);
    let model = sandbox::golden_file("snac/tiny24/model.safetensors");
    for line in [
        "dataset build w -o a.h5 --segment 500ms --device cpu",
        "dataset build w -o a.h5 --segment 500ms --device cpu --technique writes=mapped",
        "synth preset:focus --seconds 3 -o a.wav --device cpu",
        "synth preset:focus --seconds 3 -o a.flac --device cpu",
        "mel w/000.wav -o a.npy",
        &format!("pack {model} -o a.safetensors"),
    ] {
        let program = sandbox.command(&[]);
        let mut command = Command::new("sh");
        // Blocks of 512 or 1024 bytes, depending on the shell.
        command.args(["-c", "ulimit -f 8; exec \"$@\"", "sh"]).arg(program.get_program()).args(line.split(' '));
        command.current_dir(sandbox.directory.path()).env("HOME", sandbox.directory.path());
        let ran = sandbox::Ran::from(command.output().unwrap());
        assert_eq!(ran.code, 4, "{line}: {ran:?}");
        assert!(ran.stderr.contains("File too large") && ran.stderr.contains("\nhint: raise the limit"), "{ran:?}");
        assert!(!sandbox.files().iter().any(|name| name.starts_with("a.") && !name.starts_with("a.h5.")), "{line}");
    }
    assert_eq!(sandbox.line("dataset build w -o a.h5 --segment 500ms --device cpu").code, 0);
}

#[test]
fn a_full_disk_ends_with_a_clear_error_and_a_resumable_state() {
    let sandbox = Sandbox::new();
    corpus(&sandbox);
    let Some(disk) = Disk::new(sandbox.path("disk")) else {
        return sandbox::skip("no right to mount a file system");
    };
    let build = |output: &str, more: &[&str]| {
        let mut args = vec!["dataset", "build", "w", "-o", output, "--segment", "500ms", "--device", "cpu"];
        args.extend(more);
        sandbox.run(&args)
    };
    for writes in ["direct", "mapped"] {
        let technique = format!("writes={writes}");
        let more = ["--technique", &technique, "--seg-microbatch-segments", "4"];
        let full = build("disk/a.h5", &more);
        assert_eq!(full.code, 4, "{writes}: {}", full.stderr);
        assert!(full.stderr.contains("No space left"), "{}", full.stderr);
        assert!(disk.0.join("a.h5.partial").exists() && !disk.0.join("a.h5").exists());
        assert!(disk.mount("remount,size=4m"));
        let resumed = build("disk/a.h5", &more);
        assert_eq!(resumed.code, 0, "{writes}: {}", resumed.stderr);
        assert_eq!(build("whole.h5", &["-f"]).code, 0);
        assert!(std::fs::read(disk.0.join("a.h5")).unwrap() == std::fs::read(sandbox.path("whole.h5")).unwrap());
        std::fs::remove_file(disk.0.join("a.h5")).unwrap();
        assert!(disk.mount("remount,size=300k"));
    }
}
