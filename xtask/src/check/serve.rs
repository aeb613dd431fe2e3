//! The server from outside: the clients of `docs/protocol.md` in Python, Node.js and curl, refusals as they
//! see them, OpenAI's own clients, its audio in other programs, and requests made from its OpenAPI document.

use super::outcome::Outcome;
use crate::process::tee;
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGES: &[&str] = &["openai==3.49.0", "schemathesis==4.32.5", "websockets==17.4"];
/// What reads audio, apart from the others: torchaudio wants a torch of its own version.
const READERS: &[&str] = &[
    "numpy==2.4.6",
    "scipy==1.16.3",
    "soundfile==0.13.1",
    "librosa==0.11.0",
    "torch==2.11.0",
    "torchaudio==2.11.0",
    "torchcodec==0.11.1",
];
const SCRIPTS: [(&str, &str); 5] = [
    ("check.py", include_str!("serve.py")),
    ("readers.py", include_str!("readers.py")),
    ("refusal.py", include_str!("refusal.py")),
    ("speech.py", include_str!("speech.py")),
    ("speech.mjs", include_str!("speech.mjs")),
];

pub fn check() -> Result<Outcome> {
    let python = venv::python(PACKAGES)?;
    let readers = venv::python_in("readers-venv", READERS)?;
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
        Command::new(python)
            .arg("-u")
            .arg(folder.join("check.py"))
            .arg(front::program())
            .arg(protocol)
            .arg(&folder)
            .arg(readers),
        |line| {
            skipped.extend(line.strip_prefix("SKIPPED: ").map(str::to_owned));
        },
    )?;
    Ok(if skipped.is_empty() { Outcome::Passed } else { Outcome::Counted(format!("SKIPPED {}", skipped.join("; "))) })
}
