//! The build for 64-bit Arm Linux.

use super::outcome::Outcome;
use crate::process::{cargo, output, run};
use crate::tree;
use anyhow::Result;
use std::process::Command;

const ARM: &str = "aarch64-unknown-linux-gnu";

pub fn check() -> Result<Outcome> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"]));
    if !installed.is_ok_and(|targets| targets.lines().any(|target| target == ARM)) {
        let added = run(Command::new("rustup").args(["target", "add", ARM]).current_dir(tree::root()));
        if let Err(error) = added {
            return Ok(Outcome::Skipped(format!("the standard library for {ARM} cannot be added: {error:#}")));
        }
    }
    // A check links nothing, so the C sources of build scripts need no cross compiler: `true`
    // replaces it.
    run(cargo(["check", "--target", ARM, "--workspace"])
        .env("CC_aarch64_unknown_linux_gnu", "true")
        .env("AR_aarch64_unknown_linux_gnu", "true"))?;
    Ok(Outcome::Passed)
}
