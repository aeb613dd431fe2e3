//! The library's public API as rustdoc lists it, held against a list in the repository, so that a change of the surface
//! is seen in review.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;

const LIST: &str = "crates/melisma/api.txt";

/// Compares the pages that `cargo doc` wrote with the list; `UPDATE_GOLDEN=1` rewrites it. Returns how many items there
/// are.
pub fn check() -> Result<usize> {
    let page = tree::target().join("doc/melisma/all.html");
    let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    let found = items(&page);
    let path = tree::root().join(LIST);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found.iter().map(|item| format!("{item}\n")).collect::<String>())?;
    }
    let listed: BTreeSet<String> = fs::read_to_string(&path).context(LIST)?.lines().map(str::to_owned).collect();
    let changes = changes(&listed, &found);
    if !changes.is_empty() {
        changes.iter().for_each(|change| println!("{change}"));
        bail!(
            "{} changes of the public API are not in {LIST}; \
             `UPDATE_GOLDEN=1 cargo xtask check docs` writes it when they are intended",
            changes.len()
        );
    }
    Ok(found.len())
}

/// Returns `fn pack::compress` for each link of the page to an item.
fn items(page: &str) -> BTreeSet<String> {
    let links = page.split("<li><a href=\"").skip(1);
    let item = |link: &str| {
        let (file, rest) = link.split_once("\">")?;
        let file = file.strip_suffix(".html")?;
        let kind = file.rsplit('/').next()?.split('.').next()?;
        Some(format!("{kind} {}", rest.split_once("</a>")?.0))
    };
    links.filter_map(item).collect()
}

/// Returns `+ fn pack::compress` for each that is new, `-` for each that is gone.
fn changes(listed: &BTreeSet<String>, found: &BTreeSet<String>) -> Vec<String> {
    let gone = listed.difference(found).map(|item| format!("- {item}"));
    gone.chain(found.difference(listed).map(|item| format!("+ {item}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_surface_is_seen() {
        let page = "<li><a href=\"#structs\" title=\"Structs\">Structs</a></li><ul><li><a href=\"struct.Budget.html\">Budget</a></li>\
                    <li><a href=\"pack/fn.compress.html\">pack::compress</a></li></ul>";
        let found = items(page);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["fn pack::compress", "struct Budget"]);
        assert!(changes(&found, &found).is_empty());
        let listed = BTreeSet::from(["fn pack::unpack".to_owned(), "struct Budget".to_owned()]);
        assert_eq!(changes(&listed, &found), ["- fn pack::unpack", "+ fn pack::compress"]);
    }
}
