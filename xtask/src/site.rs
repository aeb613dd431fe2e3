//! `cargo xtask site`: the guide and the pages that it leads to, as files in `target/site` that a browser opens without a
//! server.
//!
//! The guide is at the top, the other pages of `docs` in `reference/`, Markdown of other folders in `repository/`, and
//! files that pages link to in `files/`. Links are checked when all pages are written.

mod frame;
mod link;
mod navigation;
mod page;

use crate::tree;
use anyhow::{Context, Result, bail};
use navigation::Navigation;
use page::Page;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const GUIDE: &str = "docs/guide";
const HOME: &str = "docs/guide/README.md";
/// The look of the server's page, and what the site adds to it.
const STYLE: &str = "crates/melisma-server/web/style.css";
const SITE_STYLE: &str = include_str!("site/site.css");

pub fn run() -> Result<ExitCode> {
    println!("{}", write()?);
    println!("open {}", tree::shown(&folder().join("index.html")));
    Ok(ExitCode::SUCCESS)
}

fn folder() -> PathBuf {
    tree::target().join("site")
}

/// Writes the site; returns how much it is, in words.
pub fn write() -> Result<String> {
    let pages = collect()?;
    let navigation = Navigation::of(&pages)?;
    let folder = folder();
    tree::renew(&folder)?;
    let mut written = BTreeMap::new();
    for page in pages.values() {
        written.insert(address(&page.path), frame::html(page, &navigation));
    }
    let files: BTreeSet<&PathBuf> = pages.values().flat_map(|page| &page.files).collect();
    let wrong = link::problems(&written, |path| files.iter().any(|file| address(file) == path));
    if let Some(first) = wrong.first() {
        bail!("{} links lead nowhere: {first}", wrong.len());
    }
    let style = fs::read(tree::root().join(STYLE)).context(STYLE)?;
    let mut output: Vec<(PathBuf, Vec<u8>)> =
        vec![(link::STYLES[0].into(), style), (link::STYLES[1].into(), SITE_STYLE.into())];
    for file in &files {
        output.push((address(file), fs::read(tree::root().join(file)).with_context(|| tree::shown(file))?));
    }
    let n_pages = written.len();
    output.extend(written.into_iter().map(|(path, html)| (path, html.into_bytes())));
    for (path, bytes) in output {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).with_context(|| tree::shown(&path))?;
        fs::write(&path, bytes).with_context(|| tree::shown(&path))?;
    }
    Ok(format!("a site of {n_pages} pages"))
}

/// Returns the pages of `docs`, and Markdown elsewhere that they lead to, by their paths from the root.
fn collect() -> Result<BTreeMap<PathBuf, Page>> {
    let mut waiting = tree::files(&tree::root().join("docs"))?;
    waiting.retain(|path| path.extension().is_some_and(|suffix| suffix == "md"));
    let mut waiting: Vec<PathBuf> = waiting.iter().map(|path| PathBuf::from(tree::shown(path))).collect();
    let mut pages = BTreeMap::new();
    while let Some(path) = waiting.pop() {
        if pages.contains_key(&path) {
            continue;
        }
        let text = fs::read_to_string(tree::root().join(&path)).with_context(|| tree::shown(&path))?;
        let page = Page::read(path.clone(), &text, |target| Target::of(tree::root(), target))?;
        waiting.extend(page.pages.iter().cloned());
        pages.insert(path, page);
    }
    Ok(pages)
}

/// What a path from the root is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Page,
    File,
    /// A browser has nothing to show for it.
    Folder,
    Absent,
}

impl Target {
    fn of(root: &Path, path: &Path) -> Self {
        let full = root.join(path);
        match (full.is_file(), full.is_dir()) {
            (true, _) if path.extension().is_some_and(|suffix| suffix == "md") => Self::Page,
            (true, _) => Self::File,
            (_, true) => Self::Folder,
            _ => Self::Absent,
        }
    }
}

/// Returns where in the site a file of the repository is.
fn address(path: &Path) -> PathBuf {
    if path == Path::new(HOME) {
        return "index.html".into();
    }
    if path.extension().is_none_or(|suffix| suffix != "md") {
        return Path::new("files").join(path);
    }
    let page = path.with_extension("html");
    let below = |folder: &str| page.strip_prefix(folder).map(Path::to_path_buf);
    below(GUIDE)
        .or_else(|_| below("docs").map(|page| Path::new("reference").join(page)))
        .unwrap_or_else(|_| Path::new("repository").join(&page))
}

/// Returns the link from one file of the site to another.
fn relative(from: &Path, to: &Path) -> String {
    let depth = from.components().count().saturating_sub(1);
    let to: Vec<_> = to.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    "../".repeat(depth) + &to.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_repository_have_a_place_in_the_site() {
        let of = |path: &str| address(Path::new(path)).display().to_string();
        assert_eq!(of("docs/guide/README.md"), "index.html");
        assert_eq!(of("docs/guide/speak.md"), "speak.html");
        assert_eq!(of("docs/speak.md"), "reference/speak.html");
        assert_eq!(of("crates/a/README.md"), "repository/crates/a/README.html");
        assert_eq!(of("docs/page.png"), "files/docs/page.png");
    }

    #[test]
    fn links_lead_from_page_to_page() {
        let link = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(link("index.html", "speak.html"), "speak.html");
        assert_eq!(link("reference/speak.html", "index.html"), "../index.html");
        assert_eq!(link("repository/crates/a/README.html", "files/b/c.rs"), "../../../files/b/c.rs");
    }

    #[test]
    fn every_page_of_the_guide_is_in_the_navigation() {
        let pages = collect().unwrap();
        let navigation = Navigation::of(&pages).unwrap();
        assert!(navigation.groups.len() >= 4, "{:?}", navigation.groups);
        assert!(pages.len() > 30, "{:?}", pages.keys());
    }
}
