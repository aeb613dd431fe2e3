//! Counts of tests, from the closing lines of `cargo test`.

use super::outcome::Outcome;
use crate::process::tee;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
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
    /// Tests that passed because they did not test, by the reason that they gave.
    skipped: BTreeMap<String, u64>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_skipped: u64 = self.skipped.values().sum();
        let passed = self.passed.saturating_sub(n_skipped);
        write!(f, "{passed} tests passed, {} failed, {} ignored", self.failed, self.ignored)?;
        for (why, n) in &self.skipped {
            write!(f, ", {n} SKIPPED: {why}")?;
        }
        Ok(())
    }
}

impl Tally {
    /// Returns how many tests passed, those that skipped included.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Runs a `cargo test` and adds its closing lines.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let result = tee(command, |line| self.add(line));
        result.with_context(|| self.to_string())
    }

    /// Adds a line such as `test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered
    /// out; finished in 0.00s`.
    ///
    /// `SKIPPED: on_cuda::empty: no CUDA`, behind the name of a test if that runs alone
    fn add(&mut self, line: &str) {
        if let Some((_, said)) = line.split_once("SKIPPED: ") {
            let why = said.split_once(": ").map_or(said, |(_, why)| why);
            *self.skipped.entry(why.to_owned()).or_default() += 1;
        }
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
        total.add("SKIPPED: on_cuda::empty: no CUDA");
        total.add("test on_cuda::one ... SKIPPED: on_cuda::one: no CUDA");
        assert_eq!(total.to_string(), "3 tests passed, 2 failed, 1 ignored, 2 SKIPPED: no CUDA");
    }
}
