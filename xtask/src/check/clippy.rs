//! Lints.

use super::outcome::Outcome;
use crate::process::{cargo, run};
use crate::toolchain::component;
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    component("clippy", "clippy")?;
    run(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Outcome::Passed)
}
