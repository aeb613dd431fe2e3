//! The builds for 64-bit Arm Linux, and of the libraries for Apple's.

use super::outcome::Outcome;
use crate::process::{cargo, output, run};
use crate::tree;
use anyhow::Result;
use std::process::Command;

/// 64-bit Arm Linux.
pub const LINUX: &str = "aarch64-unknown-linux-gnu";

pub fn check() -> Result<Outcome> {
    build(LINUX, &["--workspace"])
}

pub fn check_apple() -> Result<Outcome> {
    build("aarch64-apple-darwin", &["-p", "melisma-kernels", "-p", "melisma"])
}

/// Adds the standard library for `target` where it is not installed; returns why it cannot be.
pub fn missing_library(target: &str) -> Option<Outcome> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    if !installed.lines().any(|line| line == target)
        && let Err(error) = run(Command::new("rustup").args(["target", "add", target]).current_dir(tree::root()))
    {
        return Some(Outcome::Skipped(format!("the standard library for {target} cannot be added: {error:#}")));
    }
    None
}

fn build(target: &str, packages: &[&str]) -> Result<Outcome> {
    if let Some(skipped) = missing_library(target) {
        return Ok(skipped);
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
