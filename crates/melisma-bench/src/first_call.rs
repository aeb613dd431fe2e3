//! The real first call: this program in a fresh process, from start to end. Only the system's file
//! cache and, on a GPU, the compiled kernels on disk are warm.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use melisma::{Error, ErrorKind, Result};

use super::Row;
use super::measure::of_times;

const RUNS: usize = 7;

/// Measures the milliseconds that this program takes with `arguments`.
pub(super) fn row(name: &str, arguments: &[&OsStr]) -> Result<Row> {
    let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
    // The first run fills the caches on disk.
    run(&program, arguments)?;
    let times = (0..RUNS).map(|_| run(&program, arguments)).collect::<Result<Vec<f64>>>()?;
    let row = of_times(times).seconds(name);
    Ok(Row { unit: "ms".to_owned(), median: 1e3 * row.median, ..row })
}

fn run(program: &Path, arguments: &[&OsStr]) -> Result<f64> {
    let start = Instant::now();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::io(program.display(), error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or_default();
        return Err(Error::new(ErrorKind::Check, format!("{} failed: {first}", program.display())));
    }
    Ok(start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Here this program is the test binary: it lists its tests and rejects a wrong flag.
    #[test]
    fn a_process_is_timed_and_a_failure_is_an_error() {
        let listed = row("listing", &["--list".as_ref()]).unwrap();
        assert_eq!((listed.unit.as_str(), listed.n), ("ms", RUNS as u64));
        assert!(listed.median > 0.0);
        assert_eq!(row("failing", &["--no-such-flag".as_ref()]).unwrap_err().kind(), ErrorKind::Check);
    }
}
