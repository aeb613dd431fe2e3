//! Runs the binary away from the user's own settings.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own, and the binary with no settings but those given.
pub struct Sandbox {
    pub directory: tempfile::TempDir,
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_melisma"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MELISMA_") || name.to_string_lossy().starts_with("XDG_") {
                command.env_remove(name);
            }
        }
        command.args(args).current_dir(self.directory.path()).env("HOME", self.directory.path()).env("COLUMNS", "100");
        command
    }

    /// With `--device cuda`; None where there is no GPU, which with `REQUIRE_CUDA=1` is a failure. Tests of it have `cuda`
    /// in their names, so that `cargo xtask check shim` runs them.
    pub fn on_cuda(&self, args: &[&str]) -> Option<Command> {
        let mut command = self.command(args);
        command.args(["--device", "cuda"]);
        for (name, value) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MELISMA_SHIM") || name == "MELISMA_CACHE_DIR" {
                command.env(name, value);
            }
        }
        let found = self.run(&["doctor", "--device", "cuda"]);
        if found.code == 0 {
            return Some(command);
        }
        assert!(std::env::var("REQUIRE_CUDA").map_or(true, |value| value != "1"), "{}", found.stderr);
        println!("SKIPPED: {}", found.stderr);
        None
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Files below the folder, to see that nothing is left behind.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[allow(dead_code, reason = "not every test file compares")]
/// Compares with `tests/golden/NAME`; `UPDATE_GOLDEN=1` writes it instead.
pub fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let at = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
    assert!(
        expected == found,
        "{name} differs from line {:?}; UPDATE_GOLDEN=1 rewrites it\n{found}",
        at.map(|line| line + 1)
    );
}
