//! The licences of all packages that are part of a release, as one text.

use super::dependency::{Dependencies, Package};
use crate::process::output;
use crate::tree;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the names of files with licences begin with.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const RULE: &str = "================================================================================";

/// Returns the packages with their licences, then each text once, below the packages that have it, and at last the
/// notices of our own packages.
pub fn text(dependencies: &Dependencies) -> Result<String> {
    let (foreign, own): (Vec<&Package>, Vec<&Package>) =
        dependencies.packages.iter().partition(|package| package.is_foreign());
    let compiler = output(Command::new("rustc").arg("--version").current_dir(tree::root()))?;
    let mut page = format!(
        "Melisma is licensed as MIT OR Apache-2.0; the notices of its own packages come last. These packages\n\
        are part of it, unchanged; the address of each has its source.\n\n\
        Rust's standard library, of {}: MIT OR Apache-2.0\n",
        compiler.trim()
    );
    for package in &foreign {
        let address = package.repository.as_deref().unwrap_or("the registry");
        let _ = writeln!(page, "{} {}: {}, {address}", package.name, package.version, package.licence());
    }
    page += &sections(&foreign, texts_of)?;
    page += &sections(&own, |package| named(folder(package)?, &["NOTICE"])?.iter().map(|file| read(file)).collect())?;
    Ok(page)
}

/// Returns each text of the packages once, below the packages that have it.
fn sections(packages: &[&Package], texts_of: impl Fn(&Package) -> Result<Vec<String>>) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        for text in texts_of(package)? {
            texts.entry(text).or_default().push(format!("{} {}", package.name, package.version));
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    let mut page = String::new();
    for (text, mut packages) in texts {
        packages.dedup();
        let _ = write!(page, "\n{RULE}\n{}\n{RULE}\n\n{text}\n", packages.join(", "));
    }
    Ok(page)
}

/// Returns the texts that a package has, else what its licence MIT says.
fn texts_of(package: &Package) -> Result<Vec<String>> {
    let folder = folder(package)?;
    let mut files: Vec<_> = package.license_file.iter().map(|file| folder.join(file)).collect();
    files.extend(named(folder, &NAMES)?);
    files.sort();
    files.dedup();
    let texts: Vec<_> = files.iter().map(|file| read(file)).collect::<Result<_>>()?;
    if !texts.is_empty() {
        return Ok(texts);
    }
    let own = read(&tree::root().join("LICENSE-MIT"))?;
    let (_, terms) = own.split_once("\n\n").filter(|_| package.licence().contains("MIT")).with_context(|| {
        format!("{} {} has no text of its licence {}", package.name, package.version, package.licence())
    })?;
    let (_, terms) = terms.split_once("Permission is").context("LICENSE-MIT does not begin as expected")?;
    let authors = if package.authors.is_empty() { "its authors".to_owned() } else { package.authors.join(", ") };
    Ok(vec![format!(
        "MIT License; the package has no text of its own.\nCopyright (c) {authors}\n\nPermission is{terms}"
    )])
}

fn folder(package: &Package) -> Result<&Path> {
    package.manifest_path.parent().context("a manifest without a folder")
}

/// Returns the files in `folder` whose names begin with one of `names`, and those in folders called so.
fn named(folder: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| tree::shown(folder))? {
        let path = entry.with_context(|| tree::shown(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if names.iter().any(|known| name.starts_with(known)) {
            files.extend(tree::files(&path)?);
            files.extend(path.is_file().then_some(path));
        }
    }
    Ok(files)
}

fn read(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| tree::shown(file))?;
    let text = String::from_utf8_lossy(&bytes).replace('\r', "");
    Ok(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example's packages all lie in the repository's root, whose two texts they share.
    #[test]
    fn each_text_is_there_once_below_its_packages() {
        let page = text(&Dependencies::example()).unwrap();
        assert!(page.contains("\ndeep 1.2.3: MIT OR Apache-2.0, https://example.org/deep\n"), "{page}");
        assert_eq!(page.matches("Permission is hereby granted, free of charge").count(), 1);
        assert_eq!(page.matches(&format!("{RULE}\ndeep 1.2.3, linked 1.2.3\n{RULE}")).count(), 2, "{page}");
        assert!(!page.contains("melisma-cli"), "our own packages are listed");
    }

    #[test]
    fn the_notices_of_our_own_packages_come_last() {
        let mut dependencies = Dependencies::example();
        for package in dependencies.packages.iter_mut().filter(|package| !package.is_foreign()) {
            package.manifest_path = tree::root().join("crates/melisma-voice/Cargo.toml");
        }
        let page = text(&dependencies).unwrap();
        let (_, notice) = page.split_once(&format!("{RULE}\nmelisma-cli 1.2.3\n{RULE}\n")).unwrap();
        assert!(!notice.contains(RULE), "{notice}");
        for holder in ["Carnegie Mellon University", "Princeton University"] {
            assert!(notice.contains(holder), "{holder} not in {notice}");
        }
    }

    #[test]
    fn a_package_without_a_text_has_the_terms_of_its_licence() {
        let mut dependencies = Dependencies::example();
        for package in &mut dependencies.packages {
            package.manifest_path = tree::root().join("docs/Cargo.toml");
            package.authors = vec!["Ann".to_owned()];
        }
        let page = text(&dependencies).unwrap();
        assert!(page.contains("Copyright (c) Ann\n\nPermission is hereby granted"), "{page}");
    }
}
