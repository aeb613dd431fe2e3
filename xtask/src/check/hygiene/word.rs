//! Text that belongs to one machine, an index or the project's history, and unfinished code.

use super::File;

/// Each is written in two parts, so that this file passes its own check.
const FOREIGN: &[&str] = &[
    concat!("/wor", "k/"),
    concat!("/roo", "t/"),
    concat!("../sha", "red"),
    concat!("--index", "-url"),
    concat!("--extra-index", "-url"),
    concat!("pypi", ".org/simple"),
    concat!("files.python", "hosted.org"),
    concat!("index.crates", ".io"),
    concat!("seed ", "document"),
    concat!("seed", "'s"),
];
const UNFINISHED: &str = concat!("todo", "!(");

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let path = &file.path;
        for (number, line) in file.lines() {
            if let Some(foreign) = FOREIGN.iter().find(|foreign| contains(line, foreign)) {
                found.push(format!("{path}:{number}: mentions `{foreign}`"));
            }
            if file.has_suffix(&["rs"]) && line.contains(UNFINISHED) {
                found.push(format!("{path}:{number}: unfinished code"));
            }
        }
    }
    found
}

/// Returns whether `line` contains `text`; an absolute path must not be the middle of another path.
fn contains(line: &str, text: &str) -> bool {
    let inside = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "._-*}".contains(c));
    line.match_indices(text).any(|(at, _)| !text.starts_with('/') || !inside(&line[..at]))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn machine_paths_are_found_but_not_inside_other_paths() {
        let path = FOREIGN[0];
        assert_eq!(problems(&[file("a.md", format!("see {path}x"))]).len(), 1);
        assert_eq!(problems(&[file("a.md", format!("see art{path}x"))]).len(), 0);
    }

    #[test]
    fn the_documents_that_the_project_came_from_are_not_mentioned() {
        let text = format!("the {} loop\nthe noise's seed\n", FOREIGN[9]);
        assert_eq!(problems(&[file("a.rs", text)]), [format!("a.rs:1: mentions `{}`", FOREIGN[9])]);
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(problems(&[file("a.rs", format!("{UNFINISHED})"))]), ["a.rs:1: unfinished code"]);
    }
}
