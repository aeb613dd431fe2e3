//! The server from outside: the clients of `docs/protocol.md` in Python, Node.js and curl, and requests
//! made from its OpenAPI document.

use super::outcome::Outcome;
use crate::process::tee;
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGES: &[&str] = &["schemathesis==4.32.5", "websockets==17.4"];

pub fn check() -> Result<Outcome> {
    let python = venv::python(PACKAGES)?;
    front::build()?;
    let folder = tree::target().join("serve");
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    let script = folder.join("check.py");
    fs::write(&script, include_str!("serve.py")).with_context(|| tree::shown(&script))?;
    let protocol = tree::root().join("docs/protocol.md");
    let mut skipped = Vec::new();
    tee(Command::new(python).arg("-u").arg(&script).arg(front::program()).arg(protocol).arg(&folder), |line| {
        skipped.extend(line.strip_prefix("SKIPPED: ").map(str::to_owned));
    })?;
    Ok(if skipped.is_empty() { Outcome::Passed } else { Outcome::Counted(format!("SKIPPED {}", skipped.join("; "))) })
}
