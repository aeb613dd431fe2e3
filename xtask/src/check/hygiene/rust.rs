//! Rust sources without comments and tests, as the rules see them.

use super::File;
use std::collections::BTreeSet;

const TEST: &str = "#[cfg(test)]";

/// Returns `text` with comments and `#[cfg(test)]` items blanked; line numbers stay the same.
pub fn code(text: &str) -> String {
    let mut found = String::new();
    let mut skipped: Option<Skip> = None;
    for line in text.lines() {
        match &mut skipped {
            Some(skip) => {
                if skip.ends_with(line) {
                    skipped = None;
                }
            }
            None if line.trim_start().starts_with(TEST) => skipped = Some(Skip { indent: indent(line), begun: false }),
            None => found += without_comment(line),
        }
        found.push('\n');
    }
    found
}

/// An item to skip: its other attributes, its head, and everything up to the closing brace.
struct Skip {
    indent: usize,
    begun: bool,
}

impl Skip {
    fn ends_with(&mut self, line: &str) -> bool {
        let text = line.trim();
        if !self.begun && (text.starts_with("#[") || text.starts_with("//")) {
            return false;
        }
        let head = !self.begun;
        self.begun = true;
        let closed = indent(line) <= self.indent && (text.starts_with('}') || text.starts_with(')'));
        closed || (head && (text.ends_with(';') || text.ends_with('}')))
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the part of `line` before `//`, unless the `//` is inside a string.
fn without_comment(line: &str) -> &str {
    let in_string = |at: usize| line[..at].replace("\\\"", "").matches('"').count() % 2 == 1;
    let comment = line.match_indices("//").map(|(at, _)| at).find(|at| !in_string(*at));
    comment.map_or(line, |at| &line[..at])
}

/// Returns the sources below `folder` that are not test code: neither named as tests nor modules
/// under `#[cfg(test)]`.
pub fn production<'a>(files: &'a [File], folder: &str) -> Vec<&'a File> {
    let inside = |file: &&File| file.path.starts_with(folder) && file.has_suffix(&["rs"]);
    let tests = test_modules(files.iter().filter(inside));
    let below =
        |path: &str, module: &str| path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    let is_test = |path: &str| {
        path.ends_with("/tests.rs") || path.contains("/tests/") || tests.iter().any(|module| below(path, module))
    };
    files.iter().filter(inside).filter(|file| !is_test(&file.path)).collect()
}

/// Returns the module of the source at `path` below `folder`, such as `mel::plan`; empty for the crate's root.
pub fn module(path: &str, folder: &str) -> String {
    let path = path.strip_prefix(folder).unwrap_or(path).trim_end_matches(".rs");
    let (around, name) = path.rsplit_once('/').unwrap_or(("", path));
    if ["lib", "main", "mod"].contains(&name) { around } else { path }.replace('/', "::")
}

/// Returns the paths, without `.rs`, of modules declared as `#[cfg(test)] mod name;`.
fn test_modules<'a>(sources: impl Iterator<Item = &'a File>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources {
        let folder = match file.path.rsplit_once('/') {
            Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder,
            _ => file.path.trim_end_matches(".rs"),
        };
        let mut under_test = false;
        for line in file.text.lines().map(str::trim) {
            if let (true, Some(name)) = (under_test, declared(line)) {
                found.insert(format!("{folder}/{name}"));
            }
            under_test = line.starts_with(TEST) || (under_test && line.starts_with("#["));
        }
    }
    found
}

/// Returns the name in `mod name;`, with any visibility.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.split_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn comments_and_tests_are_left_out() {
        let text = "use a; // b\nlet url = \"http://c\";\n#[cfg(test)]\nmod tests {\n    fn d() {\n    }\n}\nfn e() {}\n#[cfg(test)]\nmod f;\nfn g() {}\n";
        let found = code(text);
        assert_eq!(
            found.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(),
            ["use a; ", "let url = \"http://c\";", "fn e() {}", "fn g() {}"]
        );
        assert_eq!(found.lines().count(), text.lines().count());
    }

    #[test]
    fn a_folder_is_the_module_of_its_root() {
        for (path, expected) in [("lib", ""), ("mel", "mel"), ("mel/mod", "mel"), ("mel/plan", "mel::plan")] {
            assert_eq!(module(&format!("a/src/{path}.rs"), "a/src/"), expected);
        }
    }

    #[test]
    fn test_modules_are_not_production() {
        let files = [
            file("src/lib.rs", "#[cfg(test)]\n#[macro_use]\nmod suite;\nmod room;\n"),
            file("src/suite.rs", ""),
            file("src/suites.rs", ""),
            file("src/room.rs", "#[cfg(test)]\npub(crate) mod recorder;\n"),
            file("src/room/recorder/noun.rs", ""),
            file("src/room/tests.rs", ""),
        ];
        let found: Vec<&str> = production(&files, "src/").iter().map(|file| &*file.path).collect();
        assert_eq!(found, ["src/lib.rs", "src/suites.rs", "src/room.rs"]);
    }
}
