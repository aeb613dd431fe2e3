//! The server from outside: the clients of `docs/protocol.md` in Python, Node.js and curl, refusals as they
//! see them, OpenAI's own clients, and requests made from its OpenAPI document.

use super::outcome::Outcome;
use crate::process::tee;
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGES: &[&str] = &["openai==3.49.0", "schemathesis==4.32.5", "websockets==17.4"];
const SCRIPTS: [(&str, &str); 4] = [
    ("check.py", include_str!("serve.py")),
    ("refusal.py", include_str!("refusal.py")),
    ("speech.py", include_str!("speech.py")),
    ("speech.mjs", include_str!("speech.mjs")),
];

pub fn check() -> Result<Outcome> {
    let python = venv::python(PACKAGES)?;
    front::build()?;
    let folder = tree::target().join("serve");
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    for (name, text) in SCRIPTS {
        let script = folder.join(name);
        fs::write(&script, text).with_context(|| tree::shown(&script))?;
    }
    let protocol = tree::root().join("docs/protocol.md");
    let mut skipped = Vec::new();
    tee(
        Command::new(python).arg("-u").arg(folder.join("check.py")).arg(front::program()).arg(protocol).arg(&folder),
        |line| {
            skipped.extend(line.strip_prefix("SKIPPED: ").map(str::to_owned));
        },
    )?;
    Ok(if skipped.is_empty() { Outcome::Passed } else { Outcome::Counted(format!("SKIPPED {}", skipped.join("; "))) })
}
