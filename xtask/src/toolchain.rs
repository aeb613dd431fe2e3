//! The steps that are a cargo command or two.

use crate::check::Outcome;
use crate::process::{cargo, run, tee, works};
use crate::tree;
use anyhow::{Context, Result};
use std::fmt as text;
use std::process::Command;

const ARM: &str = "aarch64-unknown-linux-gnu";

pub fn fmt() -> Result<Outcome> {
    component("rustfmt", "fmt")?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed)
}

pub fn clippy() -> Result<Outcome> {
    component("clippy", "clippy")?;
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Outcome::Passed)
}

pub fn docs() -> Result<Outcome> {
    // The program and the library are both called melisma and would write the same pages: the library comes last.
    for scope in [&["-p", "melisma-cli"][..], &["--workspace", "--exclude", "melisma-cli"]] {
        run(cargo(["doc", "--no-deps"]).args(scope).env("RUSTDOCFLAGS", "-D warnings"))?;
    }
    Ok(Outcome::Passed)
}

pub fn test() -> Result<Outcome> {
    run_tests(&mut cargo(["test", "--workspace"]))
}

pub fn long_tests() -> Result<Outcome> {
    run_tests(&mut cargo(["test", "--workspace", "--lib", "--tests", "--", "--ignored"]))
}

/// The command line and the Python module in one build: apart, each would build the library again for its own features.
pub fn fronts() -> Result<()> {
    run(&mut cargo(["build", "-p", "melisma-cli", "-p", "melisma-py"]))
}

pub fn cuda12() -> Result<Outcome> {
    run(&mut cargo(["check", "-p", "melisma-cli", "--no-default-features", "--features", "cuda-12"]))?;
    Ok(Outcome::Passed)
}

pub fn aarch64() -> Result<Outcome> {
    let installed = crate::process::output(Command::new("rustup").args(["target", "list", "--installed"]));
    if !installed.is_ok_and(|targets| targets.lines().any(|target| target == ARM)) {
        let added = run(Command::new("rustup").args(["target", "add", ARM]).current_dir(tree::root()));
        if let Err(error) = added {
            return Ok(Outcome::Skipped(format!("the standard library for {ARM} cannot be added: {error:#}")));
        }
    }
    // A check links nothing, so the C sources of build scripts need no cross compiler: `true` stands in for it.
    run(cargo(["check", "--target", ARM, "--workspace"])
        .env("CC_aarch64_unknown_linux_gnu", "true")
        .env("AR_aarch64_unknown_linux_gnu", "true"))?;
    Ok(Outcome::Passed)
}

pub fn miri() -> Result<Outcome> {
    if !works(&mut nightly(["miri", "--version"])) {
        return Ok(Outcome::Skipped("no nightly compiler with the miri component is installed".into()));
    }
    // Miri knows neither CUDA's libraries nor every vector instruction.
    run_tests(
        nightly(["miri", "test", "-p", "melisma-kernels", "--lib", "--", "--skip", "on_cuda", "--skip", "on_avx"])
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("MELISMA_ISA", "scalar"),
    )
}

pub fn fuzz() -> Result<Outcome> {
    if !works(&mut nightly(["fuzz", "--version"])) {
        return Ok(Outcome::Skipped("no nightly compiler with cargo-fuzz is installed".into()));
    }
    run(&mut nightly(["fuzz", "build"]))?;
    Ok(Outcome::Passed)
}

/// Runs a `cargo test` and adds up its closing lines.
pub fn run_tests(command: &mut Command) -> Result<Outcome> {
    let mut total = Tally::default();
    count_tests(command, &mut total)?;
    Ok(Outcome::Counted(total.to_string()))
}

/// Runs a `cargo test` and adds its closing lines to `total`.
pub fn count_tests(command: &mut Command, total: &mut Tally) -> Result<()> {
    let result = tee(command, |line| total.add(line));
    result.with_context(|| total.to_string())
}

#[derive(Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl text::Display for Tally {
    fn fmt(&self, f: &mut text::Formatter<'_>) -> text::Result {
        write!(f, "{} tests passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}

impl Tally {
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

/// Adds a component of the pinned toolchain where a minimal installation lacks it.
fn component(name: &str, subcommand: &str) -> Result<()> {
    if works(&mut cargo([subcommand, "--version"])) {
        return Ok(());
    }
    run(Command::new("rustup").args(["component", "add", name]).current_dir(tree::root()))
        .with_context(|| format!("the component {name} is missing and could not be added"))
}

fn nightly<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(arguments).current_dir(tree::root());
    command
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
