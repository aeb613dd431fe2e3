//! Archives: the program with its pages, completions and licences.

use super::release::Release;
use super::target::Target;
use crate::process::run;
use crate::tree;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Files of the repository that go into each archive.
const FILES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Writes the archive for `target` into `folder`, with `program` and the `extra` files and folders.
pub fn write(folder: &Path, target: Target, program: &Path, extra: &[&Path], release: &Release) -> Result<()> {
    let stem = format!("melisma-{}-{}-linux", release.version, target.name());
    let stage = tree::target().join("dist-stage");
    let place = stage.join(&stem);
    tree::renew(&place)?;
    let files = FILES.iter().map(|file| tree::root().join(file));
    let files = files.chain([program.to_path_buf()]).chain(extra.iter().map(|path| path.to_path_buf()));
    for file in files {
        copy(&file, &place.join(file.file_name().unwrap_or_default()))?;
    }
    // The same bytes on every machine: sorted, nobody's, with the time of the commit.
    let archive = folder.join(format!("{stem}.tar.gz"));
    run(Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "--format=gnu"])
        .arg(format!("--mtime=@{}", release.epoch))
        .args(["--use-compress-program", "gzip -9n", "-cf"])
        .arg(archive)
        .arg("-C")
        .args([&*stage, Path::new(&stem)]))?;
    tree::remove(&stage)
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for file in tree::files(from)? {
            copy(&file, &to.join(file.strip_prefix(from)?))?;
        }
        return Ok(());
    }
    let parent = to.parent().context("a file without a folder")?;
    fs::create_dir_all(parent).with_context(|| tree::shown(parent))?;
    fs::copy(from, to).with_context(|| tree::shown(from))?;
    Ok(())
}
