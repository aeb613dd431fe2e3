//! The programs that a cargo command builds.

use crate::process::{cargo, output};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A program that cargo built.
pub struct Executable {
    pub name: String,
    pub path: PathBuf,
}

/// Returns the programs that a cargo command builds, from its JSON messages.
pub fn executables(arguments: &[&str]) -> Result<Vec<Executable>> {
    println!("$ cargo {}", arguments.join(" "));
    let format = "--message-format=json-render-diagnostics";
    let messages = output(&mut cargo(arguments.iter().copied().chain([format])))?;
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("a message of cargo")?;
        let Some(path) = message["executable"].as_str() else { continue };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let target = text(&message["target"]["name"]);
        let name = match message["profile"]["test"] == true {
            false => target,
            true => {
                let manifest = PathBuf::from(text(&message["manifest_path"]));
                let package = manifest.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
                match message["target"]["kind"][0] == "lib" {
                    true => package.into_owned(),
                    false => format!("{package}-{target}"),
                }
            }
        };
        found.push(Executable { name, path: path.into() });
    }
    if found.is_empty() {
        bail!("`cargo {}` built no executable", arguments.join(" "));
    }
    Ok(found)
}
