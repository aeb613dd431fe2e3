//! The builds for 64-bit Arm Linux, and of the libraries for Apple's.

use super::outcome::Outcome;
use crate::process::{cargo, output, run};
use crate::tree;
use anyhow::Result;
use std::process::Command;

pub fn check() -> Result<Outcome> {
    build("aarch64-unknown-linux-gnu", &["--workspace"])
}

pub fn check_apple() -> Result<Outcome> {
    build("aarch64-apple-darwin", &["-p", "melisma-kernels", "-p", "melisma"])
}

fn build(target: &str, packages: &[&str]) -> Result<Outcome> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    if !installed.lines().any(|line| line == target)
        && let Err(error) = run(Command::new("rustup").args(["target", "add", target]).current_dir(tree::root()))
    {
        return Ok(Outcome::Skipped(format!("the standard library for {target} cannot be added: {error:#}")));
    }
    // A check links nothing, so the C sources of build scripts need no cross compiler: `true`
    // replaces it.
    let name = target.replace('-', "_");
    run(cargo(["check", "--target", target])
        .args(packages)
        .env(format!("CC_{name}"), "true")
        .env(format!("AR_{name}"), "true"))?;
    Ok(Outcome::Passed)
}
