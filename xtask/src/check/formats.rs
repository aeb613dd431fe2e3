//! MP3 and Opus files, as independent decoders read them, and their fidelity beside LAME's and
//! libopus'; Opus of libopus, as it and we decode it; speech at other speeds, as DNSMOS hears it.

use super::outcome::Outcome;
use crate::process::{find, run};
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PROGRAMS: &[&str] = &["espeak-ng", "ffmpeg", "lame", "mpg123", "opusdec", "opusenc"];
const PACKAGES: &[&str] = &["numpy==2.4.6", "speechmos==0.0.1.1"];
const SCRIPTS: &[(&str, &str)] = &[
    ("speed.py", include_str!("speed.py")),
    ("opus.py", include_str!("opus.py")),
    ("formats.py", include_str!("formats.py")),
];

pub fn check() -> Result<Outcome> {
    let missing: Vec<&str> = PROGRAMS.iter().copied().filter(|name| find(name).is_none()).collect();
    if !missing.is_empty() {
        return Ok(Outcome::Skipped(format!("not installed: {}", missing.join(", "))));
    }
    front::build()?;
    let convert = tree::target().join("debug/examples/convert_audio");
    let folder = tree::target().join("check/formats");
    tree::renew(&folder)?;
    let python = venv::python(PACKAGES)?;
    for (name, text) in SCRIPTS {
        let script = folder.join(name);
        fs::write(&script, text).with_context(|| tree::shown(&script))?;
        run(Command::new(&python).arg(&script).arg(front::program()).arg(&convert).arg(&folder))?;
    }
    Ok(Outcome::Passed)
}
