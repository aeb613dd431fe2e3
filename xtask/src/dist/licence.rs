//! The licences of all packages that are part of a release, as one text.

use super::dependency::{Dependencies, Package};
use crate::process::output;
use crate::tree;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the names of files with licences begin with.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const RULE: &str = "================================================================================";

/// Returns the packages with their licences, then each text once, below the packages that have it.
pub fn text(dependencies: &Dependencies) -> Result<String> {
    let foreign: Vec<&Package> = dependencies.packages.iter().filter(|package| package.is_foreign()).collect();
    let compiler = output(Command::new("rustc").arg("--version").current_dir(tree::root()))?;
    let mut page = format!(
        "Melisma is licensed as MIT OR Apache-2.0. These packages are part of it, unchanged; the address\n\
        of each has its source.\n\nRust's standard library, of {}: MIT OR Apache-2.0\n",
        compiler.trim()
    );
    for package in &foreign {
        let address = package.repository.as_deref().unwrap_or("the registry");
        let _ = writeln!(page, "{} {}: {}, {address}", package.name, package.version, package.licence());
    }
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in foreign {
        for text in texts_of(package)? {
            texts.entry(text).or_default().push(format!("{} {}", package.name, package.version));
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    for (text, mut packages) in texts {
        packages.dedup();
        let _ = write!(page, "\n{RULE}\n{}\n{RULE}\n\n{text}\n", packages.join(", "));
    }
    Ok(page)
}

/// Returns the texts that a package has, else what its licence MIT says.
fn texts_of(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest without a folder")?;
    let mut files: Vec<_> = package.license_file.iter().map(|file| folder.join(file)).collect();
    for entry in fs::read_dir(folder).with_context(|| tree::shown(folder))? {
        let path = entry.with_context(|| tree::shown(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|known| name.starts_with(known)) {
            files.extend(tree::files(&path)?);
            files.extend(path.is_file().then_some(path));
        }
    }
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
