//! Datasets as read by h5py, numpy and safetensors: structure, values, and a build that was killed.

use super::outcome::Outcome;
use crate::process::run;
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGES: &[&str] = &["h5py==3.16.0", "numpy==2.4.6", "safetensors==0.8.0"];

pub fn check() -> Result<Outcome> {
    let python = venv::python(PACKAGES)?;
    front::build()?;
    let folder = tree::target().join("dataset");
    tree::renew(&folder)?;
    let script = folder.join("check.py");
    fs::write(&script, include_str!("dataset.py")).with_context(|| tree::shown(&script))?;
    run(Command::new(python).arg(&script).arg(front::program()).arg(&folder))?;
    Ok(Outcome::Passed)
}
