//! The library `melisma` without its optional parts: it must build without warnings when all or all
//! but one are left out. The CUDA interfaces exclude each other, and a wrong choice is refused in one
//! sentence.

use super::outcome::Outcome;
use crate::process::{cargo, run};
use anyhow::{Context, Result, ensure};

/// The CUDA interface is always needed; beside it, none or one of the optional parts.
const SELECTIONS: [&str; 3] = ["cuda-13", "cuda-13,codecs", "cuda-13,onnx"];

/// Selections that cannot be built, and what the build says.
const REFUSED: [(&str, &str); 2] = [
    ("cuda-12,cuda-13", "the features `cuda-12` and `cuda-13` exclude each other"),
    ("codecs", "one of the features `cuda-13` (the default) and `cuda-12` is needed"),
];

pub fn check() -> Result<Outcome> {
    let selection = |features| ["-p", "melisma", "--lib", "--no-default-features", "--features", features];
    for features in SELECTIONS {
        run(cargo(["clippy", "--quiet"]).args(selection(features)).args(["--", "-D", "warnings"]))?;
    }
    for (features, sentence) in REFUSED {
        let output = cargo(["check", "--quiet"]).args(selection(features)).output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "the features {features} were built");
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: melisma")).collect();
        ensure!(matches!(errors[..], [line] if line.contains(sentence)), "the features {features} gave\n{text}");
    }
    Ok(Outcome::Counted(format!("{} selections, {} refused", SELECTIONS.len(), REFUSED.len())))
}
