//! What no tracked text file may contain, and how long a source file may be.

mod flag;
mod include;

use super::outcome::Outcome;
use crate::process::output;
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;

/// Lines of a `.rs` or `.cu` file without a reason for more.
const LONGEST: usize = 400;
/// Within so many lines from the top, a longer file says `N lines because ...`.
const REASON_LINES: usize = 5;

/// Text that belongs to a machine or an index. Each is written in two parts, so that this file passes its own check.
const FOREIGN: &[&str] = &[
    concat!("/wor", "k/"),
    concat!("/roo", "t/"),
    concat!("../sha", "red"),
    concat!("--index", "-url"),
    concat!("--extra-index", "-url"),
    concat!("pypi", ".org/simple"),
    concat!("files.python", "hosted.org"),
    concat!("index.crates", ".io"),
];
const UNFINISHED: &str = concat!("todo", "!(");

pub fn check() -> Result<Outcome> {
    if !tree::root().join(".git").exists() {
        return Ok(Outcome::Skipped("not a git checkout, so what is tracked is not known".into()));
    }
    let listing = output(Command::new("git").args(["ls-files", "-z"]).current_dir(tree::root()))?;
    let mut wrong = Vec::new();
    let mut files = 0;
    for path in listing.split_terminator('\0') {
        let full = tree::root().join(path);
        // A tracked file may be deleted in the working tree, be a link, or be binary.
        if !full.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        let bytes = fs::read(&full).with_context(|| path.to_string())?;
        if let Ok(text) = String::from_utf8(bytes) {
            files += 1;
            wrong.extend(problems(path, &text));
        }
    }
    if !wrong.is_empty() {
        for line in &wrong {
            println!("{line}");
        }
        bail!("{} places: {}", wrong.len(), wrong[0]);
    }
    Ok(Outcome::Counted(format!("{files} text files")))
}

fn problems(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let code = path.ends_with(".rs") || path.ends_with(".cu");
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(foreign) = FOREIGN.iter().find(|foreign| contains(line, foreign)) {
            found.push(format!("{path}:{number}: mentions `{foreign}`"));
        }
        if path.ends_with(".rs") && line.contains(UNFINISHED) {
            found.push(format!("{path}:{number}: unfinished code"));
        }
    }
    if path.ends_with(".rs") {
        found.extend(flag::problems(path, text));
        found.extend(
            include::leaving(path, text).map(|file| format!("{path}: includes `{file}`, outside of its crate")),
        );
    }
    let lines = text.lines().count();
    if code && lines > LONGEST && !text.lines().take(REASON_LINES).any(|line| line.contains("lines because")) {
        found.push(format!("{path}: {lines} lines, more than {LONGEST}; split it, or say in its first lines why not"));
    }
    found
}

/// Whether `text` stands in `line`; where it is an absolute path, not as the middle of another path.
fn contains(line: &str, text: &str) -> bool {
    let inside = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "._-*}".contains(c));
    line.match_indices(text).any(|(at, _)| !text.starts_with('/') || !inside(&line[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_but_not_inside_other_paths() {
        let path = FOREIGN[0];
        assert_eq!(problems("a.md", &format!("see {path}x")).len(), 1);
        assert_eq!(problems("a.md", &format!("see art{path}x")).len(), 0);
    }

    #[test]
    fn long_files_need_a_reason() {
        let long = "\n".repeat(LONGEST + 1);
        assert_eq!(problems("a.rs", &long).len(), 1);
        assert_eq!(problems("a.md", &long).len(), 0);
        assert_eq!(problems("a.cu", &format!("// 401 lines because the table is one.{long}")).len(), 0);
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(problems("a.rs", &format!("{UNFINISHED})")), ["a.rs:1: unfinished code"]);
    }
}
