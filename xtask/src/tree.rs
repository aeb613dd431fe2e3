//! Locations: the repository, the target folder, and files by suffix.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

/// Returns the repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Returns cargo's target folder; all outputs of steps go below it.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Returns every file below `folder` in path order; empty if the folder does not exist.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if folder.is_dir() {
        collect(folder, &mut found)?;
    }
    found.sort();
    Ok(found)
}

/// Returns every file below `crates/` that ends in `.suffix`.
pub fn sources(suffix: &str) -> Result<Vec<PathBuf>> {
    let mut found = files(&root().join("crates"))?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == suffix));
    Ok(found)
}

/// Removes `folder` with all that is in it, if it exists.
pub fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| shown(folder))?;
    }
    Ok(())
}

/// Makes `folder` new and empty.
pub fn renew(folder: &Path) -> Result<()> {
    remove(folder)?;
    fs::create_dir_all(folder).with_context(|| shown(folder))
}

/// Returns the folder to fill: missing, empty, or filled by us before, as the file `mark` in it tells; then it is removed.
pub fn place(folder: &Path, mark: &str) -> Result<PathBuf> {
    let base = if folder.starts_with("target") { root().to_path_buf() } else { env::current_dir()? };
    let folder = base.join(folder);
    if folder.exists() {
        if !folder.join(mark).is_file() && !files(&folder)?.is_empty() {
            bail!("{} holds something else; name another folder", folder.display());
        }
        remove(&folder)?;
    }
    Ok(folder)
}

/// Returns the SHA-256 of `bytes`, as `sha256sum` writes it.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns `path` as shown to people: relative to the repository, with forward slashes.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Returns the relative `path` without `.` and `..`, if it stays inside the repository.
pub fn resolve(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => found.pop().then_some(())?,
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    Some(found)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| shown(folder))? {
        let entry = entry.with_context(|| shown(folder))?;
        let path = entry.path();
        if !entry.file_type().with_context(|| shown(&path))?.is_dir() {
            found.push(path);
        } else if entry.file_name() != "__pycache__" {
            collect(&path, found)?;
        }
    }
    Ok(())
}
