//! Parts of the Rust toolchain that a machine may lack.

use crate::process::{cargo, run, works};
use crate::tree;
use anyhow::{Context, Result};
use std::process::Command;

/// Adds a component of the pinned toolchain if a minimal installation lacks it.
pub fn component(name: &str, subcommand: &str) -> Result<()> {
    if works(&mut cargo([subcommand, "--version"])) {
        return Ok(());
    }
    run(Command::new("rustup").args(["component", "add", name]).current_dir(tree::root()))
        .with_context(|| format!("the component {name} is missing and could not be added"))
}

/// Returns a command of the nightly cargo.
pub fn nightly<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(arguments).current_dir(tree::root());
    command
}
