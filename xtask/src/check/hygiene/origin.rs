//! The files and tests that docs/origins.md names exist.
//!
//! A row is `| what | where | test | ...`. In the second cell, a name in backticks is a path from the
//! root or from `crates/`. In the third it is `file::test`, where `file` is the name of a file
//! without its suffix, or of a folder above it.

use super::File;
use std::path::Path;

const PAGE: &str = "docs/origins.md";

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in files.iter().filter(|file| file.path == PAGE).flat_map(File::lines) {
        let mut cells = line.strip_prefix('|').unwrap_or_default().split('|').skip(1);
        let [places, tests] = [cells.next(), cells.next()].map(|cell| names(cell.unwrap_or_default()));
        let gone = places.filter(|place| !is_file(place, files));
        found.extend(gone.map(|place| format!("{PAGE}:{number}: the file `{place}` does not exist")));
        let gone = tests.filter(|test| !is_test(test, files));
        found.extend(gone.map(|test| format!("{PAGE}:{number}: the test `{test}` does not exist")));
    }
    found
}

/// Returns the names in backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns whether `place` is a tracked file or a folder of some.
fn is_file(place: &str, files: &[File]) -> bool {
    let places = [Path::new(place).to_path_buf(), Path::new("crates").join(place)];
    let is_at = |file: &File| places.iter().any(|place| Path::new(&file.path).starts_with(place));
    !place.is_empty() && files.iter().any(is_at)
}

fn is_test(test: &str, files: &[File]) -> bool {
    let Some((owner, name)) = test.rsplit_once("::") else { return false };
    let heads = [format!("fn {name}("), format!("def {name}(")];
    let is_owned = |file: &File| Path::new(&file.path).with_extension("").iter().any(|part| part == owner);
    files.iter().filter(|file| is_owned(file)).any(|file| heads.iter().any(|head| file.text.contains(head)))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn problems_in(row: &str) -> Vec<String> {
        let tests = file("crates/a/src/room/tests.rs", "#[test]\nfn holds() {}\n");
        problems(&[file(PAGE, row), tests, file("crates/b/tests/test_b.py", "    def test_b(self):\n")])
    }

    #[test]
    fn files_and_tests_that_exist_pass() {
        for row in [
            "| what | where | test |",
            "| `x` | `a/src/room` | `tests::holds` |",
            "| x | `crates/a/src/room/tests.rs`, `b/tests` | `room::holds`, `test_b::test_b` | `claim` |",
            "text with `no/file`",
        ] {
            assert_eq!(problems_in(row), [""; 0], "{row}");
        }
    }

    #[test]
    fn files_and_tests_that_are_gone_are_named() {
        let gone = |kind: &str, name: &str| [format!("{PAGE}:1: the {kind} `{name}` does not exist")];
        for place in ["a/src/roo", "src/room", "room/tests.rs", ""] {
            assert_eq!(problems_in(&format!("| x | `{place}` | |")), gone("file", place));
        }
        for test in ["holds", "room::hold", "rooms::holds", "room::test_b", ""] {
            assert_eq!(problems_in(&format!("| x | | `{test}` |")), gone("test", test));
        }
    }
}
