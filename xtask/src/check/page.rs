//! The server's page in a browser: Playwright with the system's Chromium, in `target/page`.

use super::outcome::Outcome;
use crate::process::{exists, find, output, run};
use crate::{front, tree};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

const CHROMIUM: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
/// The first version of Node.js whose test runner has what the tests use.
const NODE: u32 = 20;

pub fn check() -> Result<Outcome> {
    run_tests("test.js")
}

pub fn check_long() -> Result<Outcome> {
    run_tests("long.js")
}

fn run_tests(suffix: &str) -> Result<Outcome> {
    // Playwright wants the full path.
    let Some(chromium) = CHROMIUM.iter().find_map(|name| find(name)) else {
        return Ok(Outcome::Skipped("no Chromium; `.ci/run` installs it on Debian".into()));
    };
    if !has_node() || !exists("npm") {
        return Ok(Outcome::Skipped(format!("no Node.js {NODE} or newer with npm; `.ci/run` installs it on Debian")));
    }
    front::build()?;
    let folder = tree::target().join("page");
    copy(&tree::root().join("crates/melisma-server/web-tests"), &folder)?;
    run(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder))
        .context("npm packages could not be installed; is the registry reachable?")?;
    let mut files: Vec<_> = tree::files(&folder)?;
    files.retain(|path| path.parent() == Some(&*folder) && path.to_string_lossy().ends_with(&format!(".{suffix}")));
    run(Command::new("node")
        .args(["--test", "--test-concurrency=1", "--test-force-exit", "--test-reporter=spec"])
        .args(&files)
        .current_dir(&folder)
        .env("MELISMA", front::program())
        .env("CHROMIUM", chromium))?;
    Ok(Outcome::Counted(format!("{} files of tests", files.len())))
}

fn has_node() -> bool {
    let version = output(Command::new("node").arg("--version")).unwrap_or_default();
    version
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
        .is_some_and(|n: u32| n >= NODE)
}

/// Copies the tests; packages that are installed already stay.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| tree::shown(to))?;
    for path in tree::files(from)? {
        if let Some(name) = path.file_name() {
            fs::copy(&path, to.join(name)).with_context(|| tree::shown(&path))?;
        }
    }
    Ok(())
}
