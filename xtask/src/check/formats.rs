//! MP3 and Opus files, as independent decoders read them, and their fidelity beside LAME's and
//! libopus'.

use super::outcome::Outcome;
use crate::process::{exists, run};
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PROGRAMS: &[&str] = &["espeak-ng", "ffmpeg", "lame", "mpg123", "opusdec", "opusenc"];
const PACKAGES: &[&str] = &["numpy==2.4.6"];

pub fn check() -> Result<Outcome> {
    let missing: Vec<&str> = PROGRAMS.iter().copied().filter(|name| !exists(name)).collect();
    if !missing.is_empty() {
        return Ok(Outcome::Skipped(format!("not installed: {}", missing.join(", "))));
    }
    front::build()?;
    let convert = tree::target().join("debug/examples/convert_audio");
    let folder = tree::target().join("check/formats");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    }
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    let script = folder.join("check.py");
    fs::write(&script, include_str!("formats.py")).with_context(|| tree::shown(&script))?;
    run(Command::new(venv::python(PACKAGES)?).arg(&script).arg(front::program()).arg(convert).arg(&folder))?;
    Ok(Outcome::Passed)
}
