//! Other programs, measured in the same run through their Python packages.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use melisma::lock::Mutex;
use serde_json::Value;

use super::package;

/// Timing functions that every script may call.
const MEASURE: &str = include_str!("../peers/measure.py");
const TIME: Duration = Duration::from_secs(300);
/// The longest output; our scripts print one line.
const MAX_OUTPUT: u64 = 1 << 20;

/// Runs `peers/measure.py` and then `script` with Python (`MELISMA_PYTHON`, else `python3`) and returns the JSON of the
/// last line. When Python, a module or a program is missing, or the script of the peer `name` fails or takes longer than
/// five minutes, the reason goes into the record's notes.
pub(super) fn peer(name: &str, script: &str, args: &[&str]) -> Option<Value> {
    let python = std::env::var("MELISMA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    run(&python, script, args, TIME).map_err(|reason| LEFT_OUT.lock().add(reason.note(name))).ok()
}

/// Why there is no figure of a peer.
#[derive(Debug)]
enum Reason {
    /// Python does not start, so no peer can be measured.
    NoPython(String),
    /// The last line that the script printed.
    Ended(String),
    /// The script did not end.
    TooLong(Duration),
}

impl Reason {
    /// Returns the note about the peer `name`: the same one for all peers that need the same package.
    fn note(&self, name: &str) -> String {
        match self {
            Self::NoPython(reason) => format!("a peer is left out: {reason}"),
            Self::Ended(line) => match package::missing(line) {
                Some(missing) => format!("a peer is left out: {missing}"),
                None => format!("the peer {name} is left out: {line}"),
            },
            Self::TooLong(time) => format!("the peer {name} is left out: it took longer than {} s", time.as_secs()),
        }
    }
}

/// Row to peer to figure.
pub(super) type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Returns the figures of all parts of `script`, which measures `programs`. Each part runs in its own process, so that a
/// missing package costs only its own column.
pub(super) fn figures(programs: &str, script: &str, parts: &[&[&str]]) -> Figures {
    let mut figures = Figures::new();
    for part in parts {
        let name = format!("{programs} ({})", part.first().copied().unwrap_or_default());
        let found: Option<Figures> = peer(&name, script, part).and_then(|value| serde_json::from_value(value).ok());
        for (row, peers) in found.into_iter().flatten() {
            figures.entry(row).or_default().extend(peers);
        }
    }
    figures
}

/// Why peers were left out, each reason once.
struct LeftOut(Vec<String>);

impl LeftOut {
    /// Adds a note if it is new.
    fn add(&mut self, note: String) {
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }
}

static LEFT_OUT: Mutex<LeftOut> = Mutex::new(LeftOut(Vec::new()));

/// Returns why peers were left out since the last call.
pub(super) fn left_out() -> Vec<String> {
    std::mem::take(&mut LEFT_OUT.lock().0)
}

fn run(python: &str, script: &str, args: &[&str], time: Duration) -> Result<Value, Reason> {
    let mut child = Command::new(python)
        .arg("-")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Reason::NoPython(format!("{python}: {error}")))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all([MEASURE, script].concat().as_bytes())));
        let out = scope.spawn(move || text_of(stdout));
        let err = scope.spawn(move || text_of(stderr));
        let success = wait(&mut child, time);
        let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
        let last = |text: &str| text.trim_end().lines().last().unwrap_or_default().to_owned();
        match success? {
            true => serde_json::from_str(&last(&out))
                .map_err(|error| Reason::Ended(format!("its last line is not JSON: {error}"))),
            false => {
                let said = Some(last(&err)).filter(|reason| !reason.is_empty());
                Err(Reason::Ended(said.unwrap_or_else(|| format!("{python} failed"))))
            }
        }
    })
}

fn wait(child: &mut Child, time: Duration) -> Result<bool, Reason> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if begin.elapsed() < time => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // An error here means that the process has just ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Reason::TooLong(time));
            }
            Err(error) => return Err(Reason::Ended(error.to_string())),
        }
    }
}

fn text_of(pipe: Option<impl Read>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut bytes = Vec::new();
    // An error ends the text; the rest is drained so that the peer does not block.
    let _ = pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_noted_once() {
        let mut left_out = LeftOut(Vec::new());
        ["a", "b", "a"].into_iter().for_each(|note| left_out.add(note.to_owned()));
        assert_eq!(left_out.0, ["a", "b"]);
    }

    #[test]
    fn an_absent_python_is_a_reason() {
        let reason = run("/no/such/python", "", &[], TIME).unwrap_err();
        let notes = ["numpy", "torch"].map(|name| reason.note(name));
        assert!(notes[0].contains("/no/such/python") && notes[0] == notes[1], "{notes:?}");
    }

    #[test]
    fn a_note_names_the_peer_or_what_installs_it() {
        let ended = |line: &str| Reason::Ended(line.to_owned()).note("nvCOMP");
        assert_eq!(ended("No module named 'lz4'"), "a peer is left out: lz4 is not installed: pip install lz4");
        assert_eq!(ended("MemoryError"), "the peer nvCOMP is left out: MemoryError");
        let slow = Reason::TooLong(TIME).note("FluidSynth");
        assert_eq!(slow, "the peer FluidSynth is left out: it took longer than 300 s");
    }

    #[test]
    fn the_last_line_counts() {
        if Command::new("python3").arg("--version").output().is_err() {
            let said = writeln!(std::io::stdout(), "SKIPPED: peer::tests::the_last_line_counts: no python3");
            return said.unwrap();
        }
        let script = "import sys, json\nprint('talk')\nprint(json.dumps({'n': int(sys.argv[1])}))";
        assert_eq!(run("python3", script, &["7"], TIME).unwrap()["n"], 7);
        let timed = "print(len(times(lambda: None, least=3, seconds=0)) >= 3 and median_seconds(int) > 0 and 1)";
        assert_eq!(run("python3", timed, &[], TIME).unwrap(), 1);
        let absent = run("python3", "import no_such_module_here", &[], TIME).unwrap_err();
        assert!(absent.note("").contains("no_such_module_here is not installed"), "{absent:?}");
        let slow = run("python3", "import time; time.sleep(60)", &[], Duration::from_millis(300)).unwrap_err();
        assert!(matches!(slow, Reason::TooLong(_)), "{slow:?}");
    }
}
