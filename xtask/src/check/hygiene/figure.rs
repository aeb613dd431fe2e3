//! The figures of README.md are those of the records.

use super::File;
use crate::bench::figure::{PAGE, fill};
use anyhow::Context;

pub fn problems(files: &[File]) -> Vec<String> {
    let find = |path: &str| files.iter().find(|file| file.path == path).map(|file| &file.text);
    let Some(page) = find(PAGE) else { return Vec::new() };
    match fill(page, |path| find(path).cloned().with_context(|| format!("{path} is not tracked"))) {
        Ok(filled) => difference(page, &filled).into_iter().collect(),
        Err(error) => vec![format!("{PAGE}: {error:#}")],
    }
}

/// The first line that differs.
fn difference(page: &str, filled: &str) -> Option<String> {
    let wanted = filled.lines().chain([""]);
    let mut pairs = (1..).zip(page.lines().chain([""]).zip(wanted));
    let (number, _) = pairs.find(|(_, (found, wanted))| found != wanted)?;
    Some(format!("{PAGE}:{number}: differs from bench/record; `cargo xtask bench --fill` writes the figures"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;
    use crate::tree;
    use std::fs;
    use std::path::Path;

    /// The page and the records of this repository.
    fn real() -> Vec<File> {
        let mut paths = tree::files(&tree::root().join("bench/record")).unwrap();
        paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "json"));
        paths.insert(0, tree::root().join(PAGE));
        let read = |path: &Path| file(&tree::shown(path), fs::read_to_string(path).unwrap());
        paths.iter().map(|path| read(path)).collect()
    }

    #[test]
    fn a_wrong_figure_is_found_by_its_line() {
        let mut files = real();
        assert_eq!(problems(&files), [""; 0]);
        let page = &mut files[0];
        let (number, line) = (1..).zip(page.text.lines()).find(|(_, line)| line.contains(" x realtime |")).unwrap();
        let wrong = line.replacen(" x realtime", "1 x realtime", 1);
        page.text = page.text.replace(line, &wrong);
        let found = problems(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("{PAGE}:{number}: differs from bench/record")), "{found:?}");
    }

    #[test]
    fn a_page_without_markers_or_records_is_found() {
        let found = problems(&[file(PAGE, "# Melisma\n")]);
        assert!(found[0].contains("lacks the line"), "{found:?}");
        let found = problems(&real()[..1]);
        assert!(found[0].ends_with("is not tracked"), "{found:?}");
    }
}
