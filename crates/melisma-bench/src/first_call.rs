//! The real first call: this program in a fresh process, from its start to its end or to its first output. Only the
//! system's file cache and, on a GPU, the compiled kernels on disk are warm.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use melisma::runtime::machine::peak_resident_bytes_of;
use melisma::{Error, ErrorKind, Result};

use super::Row;
use super::measure::of_times;

const RUNS: usize = 7;

/// Measures the milliseconds that this program takes with `arguments`.
pub(super) fn row(name: &str, arguments: &[&OsStr]) -> Result<Row> {
    let program = own()?;
    // The first run fills the caches on disk.
    run(&program, arguments)?;
    let times = (0..RUNS).map(|_| run(&program, arguments)).collect::<Result<Vec<f64>>>()?;
    let row = of_times(times).seconds(name);
    Ok(Row { unit: "ms".to_owned(), median: 1e3 * row.median, ..row })
}

/// Measures the milliseconds until this program with `arguments` writes to its stdout, and its peak memory where the
/// system tells it.
pub(super) fn output_rows(name: &str, arguments: &[&OsStr]) -> Result<Vec<Row>> {
    let program = own()?;
    // The first run fills the caches on disk.
    listen(&program, arguments)?;
    let runs = (0..RUNS).map(|_| listen(&program, arguments)).collect::<Result<Vec<_>>>()?;
    let first = of_times(runs.iter().map(|(first, _)| *first).collect()).seconds(&format!("{name}, first bytes"));
    let mut rows = vec![Row { unit: "ms".to_owned(), median: 1e3 * first.median, ..first }];
    let peaks: Vec<f64> = runs.iter().filter_map(|(_, peak)| Some((*peak)? as f64 / f64::from(1 << 20))).collect();
    if !peaks.is_empty() {
        rows.push(Row { unit: "MiB".to_owned(), ..of_times(peaks).seconds(&format!("{name}, peak memory")) });
    }
    Ok(rows)
}

fn own() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::io("this program", error))
}

fn run(program: &Path, arguments: &[&OsStr]) -> Result<f64> {
    let start = Instant::now();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    check(program, output)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Returns the seconds until the program writes to its stdout, and its peak memory in bytes.
fn listen(program: &Path, arguments: &[&OsStr]) -> Result<(f64, Option<u64>)> {
    let start = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| Error::io(program.display(), error))?;
    let heard = read(&mut child, start);
    check(program, child.wait_with_output())?;
    let (first, peak) = heard.map_err(|error| Error::io(program.display(), error))?;
    let silent = || Error::new(ErrorKind::Check, format!("{} wrote nothing", program.display()));
    Ok((first.ok_or_else(silent)?, peak))
}

/// Reads stdout to its end.
fn read(child: &mut Child, start: Instant) -> io::Result<(Option<f64>, Option<u64>)> {
    let Some(mut stdout) = child.stdout.take() else { return Ok((None, None)) };
    let (mut first, mut peak, mut bytes) = (None, None, [0; 8192]);
    while stdout.read(&mut bytes)? > 0 {
        first = first.or_else(|| Some(start.elapsed().as_secs_f64()));
        // A process that has ended tells no peak.
        peak = peak_resident_bytes_of(child.id()).or(peak);
    }
    Ok((first, peak))
}

/// Fails with the first line that a program wrote if it failed.
fn check(program: &Path, output: io::Result<Output>) -> Result<()> {
    let output = output.map_err(|error| Error::io(program.display(), error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or_default();
        return Err(Error::new(ErrorKind::Check, format!("{} failed: {first}", program.display())));
    }
    Ok(())
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
        let rows = output_rows("listing", &["--list".as_ref()]).unwrap();
        assert_eq!((rows[0].name.as_str(), rows[0].unit.as_str()), ("listing, first bytes", "ms"));
        let wrong: [&OsStr; 1] = ["--no-such-flag".as_ref()];
        assert_eq!(row("failing", &wrong).unwrap_err().kind(), ErrorKind::Check);
        assert_eq!(output_rows("failing", &wrong).unwrap_err().kind(), ErrorKind::Check);
    }

    #[test]
    fn output_is_timed_at_its_beginning() {
        let shell = |script: &str| listen(Path::new("sh"), &["-c".as_ref(), script.as_ref()]);
        let start = Instant::now();
        let (first, peak) = shell("echo one; sleep 1; echo two").unwrap();
        let whole = start.elapsed().as_secs_f64();
        assert!(first > 0.0 && first + 0.5 < whole, "{first} of {whole}");
        assert!(peak > Some(1 << 16) || !cfg!(target_os = "linux"), "{peak:?}");
        assert!(shell("true").unwrap_err().to_string().ends_with("sh wrote nothing"));
    }
}
