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
/// last line. When Python or a module is missing, or the script takes longer than five minutes, the reason goes to
/// stderr and into the record's notes.
pub fn peer(script: &str, args: &[&str]) -> Option<Value> {
    let python = std::env::var("MELISMA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    match run(&python, script, args, TIME) {
        Ok(value) => Some(value),
        Err(reason) => {
            let note = format!("a peer is left out: {}", package::reason(&reason));
            if let Some(note) = LEFT_OUT.lock().add(note) {
                eprintln!("note: {note}");
            }
            None
        }
    }
}

/// Row to peer to figure.
pub(super) type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Returns the figures of all parts of `script`. Each part runs in its own process, so that a missing package costs
/// only its own column.
pub(super) fn figures(script: &str, parts: &[&[&str]]) -> Figures {
    let mut figures = Figures::new();
    for part in parts {
        let found: Option<Figures> = peer(script, part).and_then(|value| serde_json::from_value(value).ok());
        for (row, peers) in found.into_iter().flatten() {
            figures.entry(row).or_default().extend(peers);
        }
    }
    figures
}

/// Why peers were left out, each reason once.
struct LeftOut(Vec<String>);

impl LeftOut {
    /// Adds a note, and returns it if it is new.
    fn add(&mut self, note: String) -> Option<&String> {
        if self.0.contains(&note) {
            return None;
        }
        self.0.push(note);
        self.0.last()
    }
}

static LEFT_OUT: Mutex<LeftOut> = Mutex::new(LeftOut(Vec::new()));

/// Returns why peers were left out since the last call.
pub(super) fn left_out() -> Vec<String> {
    std::mem::take(&mut LEFT_OUT.lock().0)
}

fn run(python: &str, script: &str, args: &[&str], time: Duration) -> Result<Value, String> {
    let mut child = Command::new(python)
        .arg("-")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{python}: {error}"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all([MEASURE, script].concat().as_bytes())));
        let out = scope.spawn(move || text_of(stdout));
        let err = scope.spawn(move || text_of(stderr));
        let success = wait(&mut child, time);
        let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
        let last = |text: &str| text.trim_end().lines().last().unwrap_or_default().to_owned();
        match success? {
            true => serde_json::from_str(&last(&out)).map_err(|error| format!("its last line is not JSON: {error}")),
            false => {
                Err(Some(last(&err)).filter(|reason| !reason.is_empty()).unwrap_or_else(|| format!("{python} failed")))
            }
        }
    })
}

fn wait(child: &mut Child, time: Duration) -> Result<bool, String> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if begin.elapsed() < time => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // An error here means that the process has just ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} s", time.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
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
        let mut add = |note: &str| left_out.add(note.to_owned()).cloned();
        assert_eq!([add("a"), add("b"), add("a")], [Some("a".to_owned()), Some("b".to_owned()), None]);
        assert_eq!(left_out.0, ["a", "b"]);
    }

    #[test]
    fn an_absent_python_is_a_reason() {
        let reason = run("/no/such/python", "", &[], TIME).unwrap_err();
        assert!(reason.contains("/no/such/python"), "{reason}");
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
        assert!(absent.contains("no_such_module_here"), "{absent}");
        let slow = run("python3", "import time; time.sleep(60)", &[], Duration::from_millis(300)).unwrap_err();
        assert!(slow.contains("longer"), "{slow}");
    }
}
