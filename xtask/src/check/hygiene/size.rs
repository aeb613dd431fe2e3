//! The maximum length of a source file.

use super::File;

/// The suffixes of source files.
const SOURCE: &[&str] = &["rs", "cu", "cuh", "c", "cpp", "h", "hpp", "py", "sh"];
/// The most lines of a source file that gives no reason for more.
const LONGEST: usize = 400;
/// A longer file states its reason, `N lines because ...`, within this many lines from the top.
const REASON_LINES: usize = 5;
const REASON: &str = concat!("lines", " because");

pub fn problems(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| file.has_suffix(SOURCE)).filter_map(problem).collect()
}

fn problem(file: &File) -> Option<String> {
    let path = &file.path;
    let lines = file.text.lines().count();
    let reasoned = file.text.lines().take(REASON_LINES).any(|line| line.contains(REASON));
    match (lines > LONGEST, reasoned) {
        (true, false) => {
            Some(format!("{path}: {lines} lines, more than {LONGEST}; split it, or say in its first lines why not"))
        }
        (false, true) => Some(format!("{path}: says why it is long, but has {lines} lines; remove the reason")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn long_files_need_a_reason() {
        let long = "\n".repeat(LONGEST + 1);
        for path in ["a.rs", "a.cu", "a.cuh", "a.cpp", "a.py"] {
            assert_eq!(problems(&[file(path, &*long)]).len(), 1, "{path}");
            assert_eq!(problems(&[file(path, format!("// 401 {REASON} the table is one.{long}"))]).len(), 0, "{path}");
        }
        assert_eq!(problems(&[file("a.md", long)]).len(), 0);
    }

    #[test]
    fn short_files_need_none() {
        let found = problems(&[file("a.rs", format!("// 460 {REASON} the table is one.\n"))]);
        assert_eq!(found, ["a.rs: says why it is long, but has 1 lines; remove the reason"]);
    }
}
