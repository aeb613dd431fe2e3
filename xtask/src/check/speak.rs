//! A voice of one's own, from recordings to speech: `melisma encode`, a tiny model trained by `transformers`, and
//! `melisma speak`, whose greedy tokens are those that `transformers` generates.

use super::outcome::Outcome;
use crate::process::run;
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

/// Those of the long Python tests, in the venv that they share.
const PACKAGES: &[&str] = &["numpy==2.4.6", "torch==2.15.0", "safetensors==0.8.0", "transformers==5.22.2"];

pub fn check() -> Result<Outcome> {
    let python = venv::python_in(venv::TORCH, PACKAGES)?;
    front::build()?;
    let folder = tree::target().join("check/speak");
    tree::renew(&folder)?;
    let script = folder.join("train_voice.py");
    fs::write(&script, include_str!("speak.py")).with_context(|| tree::shown(&script))?;
    run(Command::new(&python).arg(&script).arg(front::program()).arg(&folder))?;
    Ok(Outcome::Passed)
}
