//! API documentation, and what it lists.

use super::api;
use super::outcome::Outcome;
use crate::process::{cargo, run};
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    run(cargo(["doc", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Counted(format!("{} public items", api::check()?)))
}
