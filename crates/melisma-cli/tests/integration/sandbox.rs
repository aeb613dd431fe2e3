//! Runs the binary away from the user's own settings.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

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

/// The most memory that a run has held, in bytes.
#[derive(Debug)]
pub struct Peak {
    /// Physical memory of the process.
    pub resident: f64,
    /// What the budget counted on the host; none where the command counts nothing.
    pub counted: Option<f64>,
}

impl Peak {
    /// Fails unless the budget stayed within `limit` bytes, and the process within 96 MiB more.
    pub fn check(&self, limit: u64) {
        let counted = self.counted.expect("the command counts its memory");
        assert!(counted > 0.0 && counted <= limit as f64, "{self:?} under a limit of {limit}");
        assert!(self.resident < (limit + (96 << 20)) as f64, "{self:?} under a limit of {limit}");
    }
}

impl Ran {
    /// The JSON that it printed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

impl Sandbox {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        hear_signals();
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
        skip(found.stderr);
        None
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Runs a command that succeeds, for the JSON that it prints.
    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        ran.json()
    }

    /// Runs the words of `line`.
    pub fn line(&self, line: &str) -> Ran {
        self.run(&line.split(' ').collect::<Vec<_>>())
    }

    /// Starts with pipes for input and output.
    pub fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until `child` has made the file `name`, and sends it `signal`.
    pub fn signal_at(&self, child: &mut Child, name: &str, signal: &str) {
        wait_until(child, || self.path(name).exists());
        send(child, signal);
    }

    /// Runs with `-v`, whose table on stderr says what memory was held.
    pub fn measure(&self, args: &[&str]) -> (Ran, Peak) {
        let ran = self.run(&[args, &["-v"]].concat());
        let line = |start: &str| ran.stderr.lines().find_map(|line| line.strip_prefix(start).map(str::to_owned));
        let resident = line("peak resident memory of the process: ").unwrap_or_else(|| panic!("{}", ran.stderr));
        // calls, then now and peak of host, pinned and device.
        let counted = line("all ").map(|row| {
            let cells: Vec<&str> = row.split_whitespace().collect();
            bytes(cells[2]) + bytes(cells[4])
        });
        let peak = Peak { resident: bytes(&resident), counted };
        (ran, peak)
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

/// Lets the programs that are started hear SIGINT, SIGTERM and SIGHUP, even if these tests were started
/// where they are ignored: a program inherits what is ignored, but no handlers. The handlers end this
/// process as the signals would.
fn hear_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let always = std::sync::Arc::new(true.into());
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, always).unwrap();
        }
    });
}

/// Waits until `is_due`, while `child` must not end.
pub fn wait_until(child: &mut Child, is_due: impl Fn() -> bool) {
    while !is_due() {
        assert!(child.try_wait().unwrap().is_none(), "ended too early");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

pub fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Says that the test that runs on this thread does not test: past the harness, which hides what a test
/// prints. `cargo xtask check` counts these lines.
pub fn skip(why: impl std::fmt::Display) {
    use std::io::Write;
    let (thread, why) = (std::thread::current(), why.to_string());
    let name = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stdout(), "SKIPPED: {name}: {}", why.lines().next().unwrap_or_default());
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

/// The bytes of a size as tables show it, such as `1.46MiB`.
fn bytes(text: &str) -> f64 {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
    let unit = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|unit| *unit == &text[at..]).unwrap();
    text[..at].parse::<f64>().unwrap() * 1024f64.powi(unit as i32)
}

/// A golden file of the repository.
pub fn golden_file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name).to_str().unwrap().to_owned()
}

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
