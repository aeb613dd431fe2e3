//! The builds for 64-bit Arm Linux, and of the libraries for Apple's.

use super::outcome::Outcome;
use crate::process::{cargo, output, run};
use crate::tree;
use anyhow::Result;
use std::process::Command;

const TARGETS: [(&str, &[&str]); 2] = [
    ("aarch64-unknown-linux-gnu", &["--workspace"]),
    ("aarch64-apple-darwin", &["-p", "melisma-kernels", "-p", "melisma"]),
];

pub fn check() -> Result<Outcome> {
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    let mut missing = Vec::new();
    for (target, packages) in TARGETS {
        if !installed.lines().any(|line| line == target)
            && let Err(error) = run(Command::new("rustup").args(["target", "add", target]).current_dir(tree::root()))
        {
            missing.push(format!("the standard library for {target} cannot be added: {error:#}"));
            continue;
        }
        // A check links nothing, so the C sources of build scripts need no cross compiler: `true`
        // replaces it.
        let name = target.replace('-', "_");
        run(cargo(["check", "--target", target])
            .args(packages)
            .env(format!("CC_{name}"), "true")
            .env(format!("AR_{name}"), "true"))?;
    }
    Ok(if missing.is_empty() { Outcome::Passed } else { Outcome::Skipped(missing.join("; ")) })
}
