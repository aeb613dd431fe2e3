//! Markdown: lines wrap, links lead to an existing file and heading, and pictures exist.

use super::File;
use crate::tree::{self, resolve};
use std::path::{Path, PathBuf};

/// Columns in a line of prose; tables and code may be wider.
const WIDEST: usize = 100;

pub fn problems(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.has_suffix(&["md"])) {
        let path = &file.path;
        for (number, line) in prose(file) {
            let columns = line.chars().count();
            if columns > WIDEST && !line.starts_with('|') && line.split_whitespace().count() > 1 {
                found.push(format!("{path}:{number}: {columns} columns, more than {WIDEST}"));
            }
            let broken = links(line).filter(|target| !leads_somewhere(file, target, files));
            found.extend(broken.map(|target| format!("{path}:{number}: `{target}` leads nowhere")));
            let missing = pictures(line).filter(|picture| !exists(file, picture));
            found.extend(missing.map(|picture| format!("{path}:{number}: missing picture `{picture}`")));
        }
    }
    found
}

/// Returns the numbered lines outside code blocks.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Returns the targets of `[text](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns the files of `src="file"` and `srcset="file"` in a line of HTML.
fn pictures(line: &str) -> impl Iterator<Item = &str> {
    let starts = [" src=\"", " srcset=\""].into_iter().filter(|_| line.trim_start().starts_with('<'));
    starts.flat_map(|start| line.split(start).skip(1)).filter_map(|rest| rest.split('"').next())
}

fn exists(page: &File, picture: &str) -> bool {
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    resolve(&folder.join(picture)).is_some_and(|path| tree::root().join(path).is_file())
}

fn leads_somewhere(file: &File, target: &str, files: &[File]) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => PathBuf::from(&file.path),
        path => {
            let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            let Some(path) = resolve(&folder.join(path)) else { return false };
            path
        }
    };
    let Some(page) = files.iter().find(|file| Path::new(&file.path) == path) else {
        // A folder of tracked files, a link, or a file that is no text.
        let folder = files.iter().any(|file| Path::new(&file.path).starts_with(&path));
        return heading.is_empty() && (folder || tree::root().join(&path).exists());
    };
    heading.is_empty() || headings(page).any(|found| found == heading)
}

/// Returns the anchors of a page's headings, as GitHub generates them.
fn headings(page: &File) -> impl Iterator<Item = String> {
    prose(page).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| anchor(line.trim_start_matches('#')))
}

/// Returns the anchor of a heading.
pub fn anchor(title: &str) -> String {
    let title = title.trim().to_lowercase();
    let letters = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    letters.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn prose_wraps_and_tables_and_code_do_not() {
        let long = "word ".repeat(30);
        assert_eq!(problems(&[file("a.md", &*long)]), ["a.md:1: 150 columns, more than 100"]);
        assert_eq!(problems(&[file("a.md", format!("| {long}|\n```\n{long}\n```\n"))]).len(), 0);
        assert_eq!(problems(&[file("a.rs", long)]).len(), 0);
    }

    #[test]
    fn pictures_exist() {
        let found = |text: &str| problems(&[file("docs/a.md", text)]);
        for good in ["<img alt=\"a\" src=\"../README.md\">", "such as `<audio src=\"...\">`"] {
            assert_eq!(found(good), [""; 0], "{good}");
        }
        let text = "<source srcset=\"no.png\"><img src=\"../../README.md\">";
        let missing = |picture: &str| format!("docs/a.md:1: missing picture `{picture}`");
        assert_eq!(found(text), [missing("../../README.md"), missing("no.png")]);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let page = file("docs/page.md", "# The first, `quick` one\n");
        let broken = |text: &str| {
            let page = file("docs/page.md", &*page.text);
            problems(&[page, file("docs/other.md", text), file("src/a.rs", "")]).len()
        };
        for good in
            ["[a](page.md)", "[a](./page.md#the-first-quick-one)", "[a](../src/a.rs)", "[a](../src)", "[a](https://b)"]
        {
            assert_eq!(broken(good), 0, "{good}");
        }
        for bad in ["[a](pages.md)", "[a](page.md#second)", "[a](../../a.rs)", "[a](#here)"] {
            assert_eq!(broken(bad), 1, "{bad}");
        }
    }
}
