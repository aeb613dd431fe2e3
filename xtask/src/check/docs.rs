//! API documentation.

use super::outcome::Outcome;
use crate::process::{cargo, run};
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    run(cargo(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}
