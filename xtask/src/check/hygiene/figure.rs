//! The figures of pages are those of the records.

use super::File;
use crate::bench::figure::{OVERVIEW_PAGE, PAGES, RECORDS, fill, fill_overview};
use anyhow::Context;

pub fn problems(files: &[File]) -> Vec<String> {
    let find = |path: &str| files.iter().find(|file| file.path == path).map(|file| &file.text);
    let record = |path: &str| find(path).cloned().with_context(|| format!("{path} is not tracked"));
    let problem = |page: &str| {
        let text = find(page)?;
        let filled = if page == OVERVIEW_PAGE { fill_overview(text, records(files)) } else { fill(page, text, record) };
        match filled {
            Ok(filled) => difference(page, text, &filled),
            Err(error) => Some(format!("{page}: {error:#}")),
        }
    };
    PAGES.into_iter().chain([OVERVIEW_PAGE]).filter_map(problem).collect()
}

fn records(files: &[File]) -> impl Iterator<Item = (&str, &str)> {
    let all = files.iter().filter(|file| file.path.starts_with(RECORDS) && file.has_suffix(&["json"]));
    all.map(|file| (&*file.path, &*file.text))
}

/// Returns the first line that differs.
fn difference(page: &str, text: &str, filled: &str) -> Option<String> {
    let wanted = filled.lines().chain([""]);
    let mut pairs = (1..).zip(text.lines().chain([""]).zip(wanted));
    let (number, _) = pairs.find(|(_, (found, wanted))| found != wanted)?;
    Some(format!("{page}:{number}: differs from bench/record; `cargo xtask bench --fill` writes the figures"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;
    use crate::tree;
    use std::fs;
    use std::path::Path;

    /// Returns the page and the records of this repository.
    fn real() -> Vec<File> {
        let mut paths = tree::files(&tree::root().join("bench/record")).unwrap();
        paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "json"));
        paths.splice(0..0, [PAGES[0], PAGES[1], OVERVIEW_PAGE].map(|page| tree::root().join(page)));
        let read = |path: &Path| file(&tree::shown(path), fs::read_to_string(path).unwrap());
        paths.iter().map(|path| read(path)).collect()
    }

    #[test]
    fn a_wrong_figure_is_found_by_its_line() {
        let mut files = real();
        assert_eq!(problems(&files), [""; 0]);
        for (at, cell) in [" x realtime |", " | `melisma bench serve/decode", "(2."].into_iter().enumerate() {
            let right = files[at].text.clone();
            let (number, line) = (1..).zip(right.lines()).find(|(_, line)| line.contains(cell)).unwrap();
            files[at].text = right.replace(line, &line.replacen(cell, &format!("1{cell}"), 1));
            let found = problems(&files);
            assert_eq!(found.len(), 1, "{found:?}");
            let expected = format!("{}:{number}: differs from bench/record", files[at].path);
            assert!(found[0].starts_with(&expected), "{found:?}");
            files[at].text = right;
        }
    }

    #[test]
    fn a_page_without_markers_or_records_is_found() {
        let found = problems(&[file(PAGES[0], "# Melisma\n")]);
        assert!(found[0].contains("lacks the line"), "{found:?}");
        let found = problems(&real()[..1]);
        assert!(found[0].ends_with("is not tracked"), "{found:?}");
    }
}
