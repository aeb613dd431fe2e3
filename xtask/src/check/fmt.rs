//! Formatting.

use super::outcome::Outcome;
use crate::process::{cargo, run};
use crate::toolchain::component;
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    component("rustfmt", "fmt")?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    Ok(Outcome::Passed)
}
