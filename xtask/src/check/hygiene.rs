//! Rules for tracked files, one source file per rule. A rule returns one line for each violation.

mod call;
mod cycle;
mod dependency;
mod doc;
mod figure;
mod flag;
mod golden;
mod import;
mod include;
mod link;
mod map;
mod name;
mod origin;
mod room;
mod rust;
mod safety;
mod size;
mod word;

pub use link::anchor;

use super::outcome::Outcome;
use crate::process::output;
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;

/// A tracked text file; `path` is relative to the repository.
struct File {
    path: String,
    text: String,
}

type Rule = fn(&[File]) -> Vec<String>;

const RULES: &[Rule] = &[
    word::problems,
    size::problems,
    include::problems,
    flag::problems,
    room::problems,
    map::problems,
    name::problems,
    dependency::problems,
    call::problems,
    cycle::problems,
    doc::problems,
    safety::problems,
    golden::problems,
    link::problems,
    origin::problems,
    figure::problems,
];

pub fn check() -> Result<Outcome> {
    if !tree::root().join(".git").exists() {
        return Ok(Outcome::Skipped("not a git checkout, so the tracked files are not known".into()));
    }
    let files = tracked()?;
    let wrong: Vec<String> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    if !wrong.is_empty() {
        wrong.iter().for_each(|line| println!("{line}"));
        bail!("{} places: {}", wrong.len(), wrong[0]);
    }
    Ok(Outcome::Counted(format!("{} text files", files.len())))
}

fn tracked() -> Result<Vec<File>> {
    let listing = output(Command::new("git").args(["ls-files", "-z"]).current_dir(tree::root()))?;
    let mut files = Vec::new();
    for path in listing.split_terminator('\0') {
        let full = tree::root().join(path);
        // A tracked file may be deleted in the working tree, be a link, or be binary.
        if !full.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        let bytes = fs::read(&full).with_context(|| path.to_string())?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path: path.to_string(), text });
        }
    }
    Ok(files)
}

impl File {
    fn has_suffix(&self, suffixes: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, suffix)| suffixes.contains(&suffix))
    }

    /// Returns the lines, numbered from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

#[cfg(test)]
fn file(path: &str, text: impl Into<String>) -> File {
    File { path: path.into(), text: text.into() }
}
