//! Counts of tests, from the closing lines of `cargo test`.

use super::outcome::Outcome;
use crate::process::tee;
use anyhow::{Context, Result};
use std::fmt;
use std::process::Command;

/// Runs a `cargo test` and sums its closing lines.
pub fn run_tests(command: &mut Command) -> Result<Outcome> {
    let mut total = Tally::default();
    total.run(command)?;
    Ok(Outcome::Counted(total.to_string()))
}

#[derive(Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tests passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}

impl Tally {
    /// Runs a `cargo test` and adds its closing lines.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let result = tee(command, |line| self.add(line));
        result.with_context(|| self.to_string())
    }

    /// `test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
    fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for part in counts.split("; ") {
            let Some((Ok(count), word)) = part.split_once(' ').map(|(count, word)| (count.parse::<u64>(), word)) else {
                continue;
            };
            match word {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn closing_lines_are_added_up() {
        let mut total = Tally::default();
        total.add("test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        total.add("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.02s");
        total.add("test on_cpu::empty ... ok");
        assert_eq!((total.passed, total.failed, total.ignored), (5, 2, 1));
    }
}
