//! What is released: a version, and a commit with its time, which is the time of every file.

use crate::process::output;
use crate::tree;
use anyhow::{Context, Result, bail};
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
        let version = env!("CARGO_PKG_VERSION");
        check_tags(&git(&["tag", "--points-at", "HEAD"])?, version)?;
        let last = |format: &str| git(&["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", format]);
        Ok(Self {
            version,
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

/// Refuses the tag of another version.
fn check_tags(tags: &str, version: &str) -> Result<()> {
    let mut versions = tags.lines().filter_map(|tag| tag.strip_prefix('v'));
    match versions.find(|tagged| *tagged != version) {
        None => Ok(()),
        Some(tagged) => bail!("the commit has the tag v{tagged}, but Cargo.toml says {version}: see docs/release.md"),
    }
}

fn git(arguments: &[&str]) -> Result<String> {
    let text = output(Command::new("git").args(arguments).env("TZ", "UTC").current_dir(tree::root()));
    Ok(text.context("a release is made from a clone with its history, by git")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_of_another_version_is_refused() {
        assert!(check_tags("", "0.1.0").is_ok() && check_tags("v0.1.0\nnightly", "0.1.0").is_ok());
        assert!(check_tags("v0.2.0", "0.1.0").unwrap_err().to_string().contains("has the tag v0.2.0"));
    }
}
