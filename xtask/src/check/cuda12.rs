//! The build against CUDA 12.6.

use super::outcome::Outcome;
use crate::front;
use crate::process::{cargo, run};
use anyhow::Result;

pub fn check() -> Result<Outcome> {
    run(cargo(["check"]).args(front::SELECTION).args(["--no-default-features", "--features", "cuda-12,voice"]))?;
    Ok(Outcome::Passed)
}
