//! The built-in voice beside its teacher, flite's `slt`: words that pocketsphinx understands, DNSMOS, and lengths.

use super::outcome::Outcome;
use crate::process::{find, run};
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGES: &[&str] =
    &["numpy==2.4.6", "onnxruntime==1.31.1", "pocketsphinx==5.1.1", "scipy==1.16.3", "speechmos==0.0.1.1"];

pub fn check() -> Result<Outcome> {
    if find("flite").is_none() {
        return Ok(Outcome::Skipped("not installed: flite".to_owned()));
    }
    front::build()?;
    let folder = tree::target().join("check/voice");
    tree::renew(&folder)?;
    let python = venv::python(PACKAGES)?;
    let script = folder.join("voice.py");
    fs::write(&script, include_str!("voice.py")).with_context(|| tree::shown(&script))?;
    run(Command::new(&python).arg(&script).arg(front::program()).arg(tree::root().join("golden/voice")).arg(&folder))?;
    Ok(Outcome::Passed)
}
