//! Runs the test models of the `onnx` package through the embedded engine.

use super::outcome::Outcome;
use crate::process::run;
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGES: &[&str] = &["onnx==1.23.2", "numpy==2.4.6"];

/// Writes passed, unsupported and failed cases to `target/onnx-node-tests.json`; a failed case
/// fails the step.
pub fn check() -> Result<Outcome> {
    let python = venv::python(PACKAGES)?;
    front::build()?;
    let folder = tree::target().join("onnx");
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    // Must not have the name of a module that the package imports.
    let script = folder.join("check_onnx_cases.py");
    fs::write(&script, include_str!("onnx.py")).with_context(|| tree::shown(&script))?;
    let record = tree::target().join("onnx-node-tests.json");
    run(Command::new(python).arg(&script).arg(front::program()).arg(folder.join("cases")).arg(record))?;
    Ok(Outcome::Passed)
}
