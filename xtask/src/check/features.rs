//! The library `melisma` without its optional parts: it must build without warnings when all or all
//! but one are left out.

use super::outcome::Outcome;
use crate::process::{cargo, run};
use anyhow::Result;

/// The CUDA interface is always needed; beside it, none or one of the optional parts.
const SELECTIONS: [&str; 3] = ["cuda-13", "cuda-13,codecs", "cuda-13,onnx"];

pub fn check() -> Result<Outcome> {
    for features in SELECTIONS {
        let selection = ["-p", "melisma", "--lib", "--no-default-features", "--features", features];
        run(cargo(["clippy", "--quiet"]).args(selection).args(["--", "-D", "warnings"]))?;
    }
    Ok(Outcome::Counted(format!("{} selections", SELECTIONS.len())))
}
