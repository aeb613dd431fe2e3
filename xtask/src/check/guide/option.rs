//! Options that the guide names, in its blocks and in the first column of its tables, are those of the program's help.

use super::Page;
use super::block::Language;
use crate::process::output;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Commands that have commands of their own.
const PARENTS: [&str; 3] = ["bench", "cache", "dataset"];

/// The help of every command, by its name.
pub struct Commands(BTreeMap<String, String>);

impl Commands {
    pub fn read(program: &Path) -> Result<Self> {
        let help = |name: &str| output(Command::new(program).args(name.split_whitespace()).arg("--help"));
        let front = help("")?;
        let mut found = BTreeMap::new();
        for name in listed(&front) {
            let text = help(&name)?;
            if PARENTS.contains(&&*name) {
                for below in listed(&text) {
                    let name = format!("{name} {below}");
                    found.insert(name.clone(), help(&name)?);
                }
            }
            found.insert(name, text);
        }
        found.insert(String::new(), front);
        Ok(Self(found))
    }

    /// Fails where a page names an option that its command does not have.
    pub fn check(&self, page: &Page) -> Result<()> {
        for block in page.blocks.iter().filter(|block| block.language == Language::Shell) {
            for words in calls(&block.text) {
                let (name, help) = self.find(&words).with_context(|| format!("{}:{}", page.path, block.line))?;
                if let Some(flag) = flags(words.iter().copied()).find(|flag| !has(help, flag)) {
                    bail!("{}:{}: `melisma {name}` has no option `{flag}`", page.path, block.line);
                }
            }
        }
        for (number, line) in (1..).zip(page.text.lines()) {
            let spans = line.strip_prefix("| `").and_then(|rest| rest.split(" |").next()).unwrap_or_default();
            let mut named = flags(spans.split([' ', '`', ',']));
            if let Some(flag) = named.find(|flag| !self.0.values().any(|help| has(help, flag))) {
                bail!("{}:{number}: no command has the option `{flag}`", page.path);
            }
        }
        Ok(())
    }

    /// Returns the name and the help of the command that begins with these words.
    fn find(&self, words: &[&str]) -> Result<(String, &str)> {
        let is_name = |word: &&&str| word.chars().all(|letter| letter.is_ascii_lowercase());
        let names: Vec<&str> = words.iter().take_while(is_name).copied().collect();
        let n = match names.first() {
            Some(first) if PARENTS.contains(first) => 2,
            _ => 1,
        };
        let longest = (0..=n.min(names.len())).rev().map(|n| names[..n].join(" "));
        let known = longest.clone().find_map(|name| Some((name.clone(), self.0.get(&name)?.as_str())));
        known
            .filter(|(name, _)| !name.is_empty() || names.is_empty())
            .with_context(|| format!("there is no command `{}`", names[..n.min(names.len())].join(" ")))
    }
}

/// Returns the commands that a help lists: indented by two spaces, below a line that ends in a colon.
fn listed(help: &str) -> Vec<String> {
    let names = help.lines().filter_map(|line| line.strip_prefix("  ")).filter_map(|line| line.split_once("  "));
    let is_name = |name: &&str| *name != "help" && name.chars().all(|letter| letter.is_ascii_lowercase());
    names.map(|(name, _)| name).filter(|name| !name.is_empty()).filter(is_name).map(str::to_owned).collect()
}

/// Returns the words behind each `melisma` of a shell block.
fn calls(shell: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest: Vec<&str> = Vec::new();
    for line in shell.lines() {
        let line = line.split(" #").next().unwrap_or_default();
        let (text, goes_on) = match line.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (line, false),
        };
        for (at, part) in text.split(['|', ';', '&', '(', ')']).enumerate() {
            if at > 0 {
                found.extend(call(&rest));
                rest.clear();
            }
            rest.extend(part.split_whitespace());
        }
        if !goes_on {
            found.extend(call(&rest));
            rest.clear();
        }
    }
    found
}

/// Returns the words behind `melisma` where it is a program, not the name of an image or a folder.
fn call<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let at = words.iter().position(|word| *word == "melisma")?;
    let is_program = words[..at].iter().all(|word| word.contains('=') || ["!", "do", "time"].contains(word));
    is_program.then(|| words[at + 1..].to_vec())
}

fn flags<'a>(words: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(|word| word.split('=').next().unwrap_or(word))
}

/// Returns whether a help text has the option as a whole word.
fn has(help: &str, flag: &str) -> bool {
    help.split(|letter: char| letter.is_whitespace() || ",]".contains(letter)).any(|word| word == flag)
}

#[cfg(test)]
mod tests {
    use super::super::block::blocks;
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let help = [
            ("", "Commands:\n  dataset  Build\n  run      Run\n  help  Print\n\n  -q, --quiet\n"),
            ("dataset", "Commands:\n  build  Build\n"),
            ("dataset build", "  --shard <I/N>\n  -q, --quiet\n"),
            ("run", "  --input <NAME>\n  [alias: --in]"),
        ];
        let commands = Commands(help.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        let page = Page { path: "a.md".into(), text: text.into(), blocks: blocks(text).unwrap() };
        commands.check(&page).err().map(|error| format!("{error:#}"))
    }

    #[test]
    fn options_of_blocks_are_those_of_their_command() {
        let block = |line: &str| problem(&format!("```sh\n{line}\n```\n"));
        for good in [
            "melisma dataset build a \\\n    --shard 1/2 # --none",
            "A=1 melisma run a --input x=1 --in y && docker run --rm melisma",
            "melisma --quiet | other --flag",
            "mkdir melisma --parents",
        ] {
            assert_eq!(block(good), None, "{good}");
        }
        assert_eq!(block("melisma run a --shard 1/2").unwrap(), "a.md:1: `melisma run` has no option `--shard`");
        assert_eq!(block("true; melisma run \\\n --inp 2").unwrap(), "a.md:1: `melisma run` has no option `--inp`");
        assert_eq!(block("melisma walk a").unwrap(), "a.md:1: there is no command `walk`");
    }

    #[test]
    fn options_of_tables_are_those_of_some_command() {
        assert_eq!(problem("| `--shard I/N`, `--input` | `--none` |\n"), None);
        assert_eq!(problem("a\n| `--shards` | all |\n").unwrap(), "a.md:2: no command has the option `--shards`");
    }

    #[test]
    fn the_names_of_commands_are_listed() {
        let help = "Usage: a\n\nSpeech:\n  speak        Speak text\n  help  Print\n\n      --device <D>  auto\n  -h, --help  P\n";
        assert_eq!(listed(help), ["speak"]);
    }
}
