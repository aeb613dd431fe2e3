//! `golden/MANIFEST.sha256`: one `HASH  PATH` line per golden file, in the format of `sha256sum`.

use crate::tree;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::{fs, path::PathBuf};

/// Rewrites the manifest.
pub fn write() -> Result<ExitCode> {
    let present = hash_all()?;
    let text = present.iter().fold(String::new(), |text, (path, hash)| format!("{text}{hash}  {path}\n"));
    fs::create_dir_all(folder()).context("golden/")?;
    fs::write(manifest(), text).context("golden/MANIFEST.sha256")?;
    println!("golden/MANIFEST.sha256: {} files", present.len());
    Ok(ExitCode::SUCCESS)
}

fn folder() -> PathBuf {
    tree::root().join("golden")
}

fn manifest() -> PathBuf {
    folder().join("MANIFEST.sha256")
}

/// Returns the manifest: hashes by path below `golden/`.
pub fn read() -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(manifest()).context("golden/MANIFEST.sha256; `cargo xtask golden` makes it")?;
    let entry = |line: &str| -> Result<_> {
        let (hash, path) =
            line.split_once("  ").with_context(|| format!("golden/MANIFEST.sha256: bad line `{line}`"))?;
        Ok((path.to_string(), hash.to_string()))
    };
    text.lines().map(entry).collect()
}

/// Returns the hashes of the existing files.
pub fn hash_all() -> Result<BTreeMap<String, String>> {
    let mut hashes = BTreeMap::new();
    for path in tree::files(&folder())? {
        if path == manifest() {
            continue;
        }
        let bytes = fs::read(&path).with_context(|| tree::shown(&path))?;
        hashes.insert(path.strip_prefix(folder())?.display().to_string(), tree::hash(&bytes));
    }
    Ok(hashes)
}
