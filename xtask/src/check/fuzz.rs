//! The fuzz targets: each runs on mutated inputs on the stable compiler, and builds for cargo-fuzz where that is installed.

use super::outcome::Outcome;
use crate::process::{cargo, run, works};
use crate::toolchain::nightly;
use anyhow::Result;

/// How long each target runs.
const SECONDS: &str = "10";

pub fn check() -> Result<Outcome> {
    let manifest = ["--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"];
    run(cargo(["run", "--quiet"]).args(manifest).args(["--no-default-features", "--bin", "mutate", "--", SECONDS]))?;
    if !works(&mut nightly(["fuzz", "--version"])) {
        return Ok(Outcome::Counted(format!("{SECONDS} s each; cargo-fuzz on a nightly compiler is not installed")));
    }
    run(&mut nightly(["fuzz", "build"]))?;
    Ok(Outcome::Counted(format!("{SECONDS} s each, and built for cargo-fuzz")))
}
