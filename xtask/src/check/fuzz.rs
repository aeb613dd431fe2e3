//! The fuzz targets: each runs on mutated inputs with the stable compiler, and builds for
//! cargo-fuzz if that is installed.

use super::outcome::Outcome;
use crate::process::{cargo, run, works};
use crate::toolchain::nightly;
use crate::tree;
use anyhow::Result;

/// How long each target runs.
const SECONDS: &str = "10";

pub fn check() -> Result<Outcome> {
    let mut mutate = cargo(["run", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--no-default-features"]);
    // The fuzz targets have their own workspace; its dependencies are those of the main one.
    run(mutate.arg("--target-dir").arg(tree::target()).args(["--bin", "mutate", "--", SECONDS]))?;
    if !works(&mut nightly(["fuzz", "--version"])) {
        return Ok(Outcome::Counted(format!("{SECONDS} s each; cargo-fuzz on a nightly compiler is not installed")));
    }
    run(&mut nightly(["fuzz", "build"]))?;
    Ok(Outcome::Counted(format!("{SECONDS} s each, and built for cargo-fuzz")))
}
