//! The messages in the first column of the guide's tables `| message |` are texts of the sources.

use super::Page;
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;

const HEAD: &str = "| message |";

/// Fails where a page names a message that no source has. `...` stands for what changes.
pub fn check(page: &Page) -> Result<()> {
    let wanted = messages(&page.text);
    if wanted.is_empty() {
        return Ok(());
    }
    let mut sources = String::new();
    for path in tree::sources("rs")?.into_iter().chain(tree::sources("py")?) {
        sources += &fs::read_to_string(&path).with_context(|| tree::shown(&path))?;
    }
    match wanted.into_iter().find(|(_, message)| !sources.lines().any(|line| contains(line, message))) {
        None => Ok(()),
        Some((number, message)) => bail!("{}:{number}: no source has the message `{message}`", page.path),
    }
}

/// Returns the messages in code, with their lines.
fn messages(page: &str) -> Vec<(usize, &str)> {
    let mut within = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        within = line.starts_with(HEAD) || within && line.starts_with('|');
        let message = line.strip_prefix("| `").and_then(|rest| rest.split_once("` |"));
        found.extend(message.filter(|_| within).map(|(message, _)| (number, message)));
    }
    found
}

/// Returns whether `line` has the parts of `message` in order.
fn contains(line: &str, message: &str) -> bool {
    let mut rest = Some(line);
    for part in message.split("...") {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let page = Page { path: "a.md".into(), text: text.into(), blocks: Vec::new() };
        check(&page).err().map(|error| error.to_string())
    }

    #[test]
    fn parts_of_a_message_keep_their_order() {
        assert!(contains("a 1 b 2 c", "a ...b ... c"));
        assert!(!contains("b 1 a", "a...b"));
        assert!(!contains("a", "a...a"));
    }

    #[test]
    fn messages_are_those_of_the_sources() {
        let table = |message: &str| format!("{HEAD} why |\n|---|---|\n| `{message}` | - |\n");
        assert_eq!(problem(&table("the file exists already")), None);
        assert_eq!(problem(&table("the system refused ... bytes of host memory")), None);
        let absent = concat!("the file exists", " perhaps");
        assert_eq!(problem(&table(absent)).unwrap(), format!("a.md:3: no source has the message `{absent}`"));
        assert_eq!(problem(&format!("| option | why |\n|---|---|\n| `{absent}` | - |\n")), None);
    }
}
