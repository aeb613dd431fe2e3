//! The fuzz targets build.

use super::outcome::Outcome;
use crate::process::{run, works};
use crate::toolchain::nightly;
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    if !works(&mut nightly(["fuzz", "--version"])) {
        return Ok(Outcome::Skipped("no nightly compiler with cargo-fuzz is installed".into()));
    }
    run(&mut nightly(["fuzz", "build"]))?;
    Ok(Outcome::Passed)
}
