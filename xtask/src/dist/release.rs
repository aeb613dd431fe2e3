//! What is released: a version, and a commit with its time, which is the time of every file.

use crate::process::output;
use crate::tree;
use anyhow::{Context, Result};
use std::process::Command;

pub struct Release {
    pub version: &'static str,
    pub commit: String,
    /// Seconds since 1970.
    pub epoch: String,
    /// The same time, as in `2026-01-31T18:00:00Z`.
    pub time: String,
}

impl Release {
    pub fn read() -> Result<Self> {
        if !git(&["status", "--porcelain"])?.is_empty() {
            println!("note: the tree has changes without a commit; `--version` names the last commit all the same");
        }
        let last = |format: &str| git(&["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", format]);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: git(&["rev-parse", "--short=12", "HEAD"])?,
            epoch: last("--format=%ct")?,
            time: last("--format=%cd")?,
        })
    }

    /// Returns the day of the commit.
    pub fn date(&self) -> &str {
        self.time.split('T').next().unwrap_or_default()
    }
}

fn git(arguments: &[&str]) -> Result<String> {
    let text = output(Command::new("git").args(arguments).env("TZ", "UTC").current_dir(tree::root()));
    Ok(text.context("a release is made from a clone with its history, by git")?.trim().to_owned())
}
