//! Packages every crate, then builds the library and its examples from the packages.

use super::outcome::Outcome;
use crate::process::{cargo, output, run};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The largest compressed package that registries accept.
const MAX_BYTES: u64 = 10_000_000;
/// The library, and the crates that it depends on.
const LIBRARY: &str = "melisma";
const SIBLINGS: [&str; 5] =
    ["melisma-kernels", "melisma-models", "melisma-voice", "melisma-voice-layers", "melisma-voice-tokens"];

pub fn check() -> Result<Outcome> {
    run(&mut cargo(["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"]))?;
    let folder = tree::target().join("package");
    let (mut n_packages, mut largest) = (0, 0);
    for name in members()? {
        let package = folder.join(format!("{name}-{}.crate", env!("CARGO_PKG_VERSION")));
        let bytes = package.metadata().with_context(|| tree::shown(&package))?.len();
        println!("{bytes:>9} bytes  {}", tree::shown(&package));
        if bytes > MAX_BYTES {
            bail!("{} has {bytes} bytes; a package may have {MAX_BYTES}", tree::shown(&package));
        }
        (n_packages, largest) = (n_packages + 1, largest.max(bytes));
    }
    build(&folder)?;
    Ok(Outcome::Counted(format!("{n_packages} packages, the largest of {:.1} MB", largest as f64 / 1e6)))
}

fn members() -> Result<Vec<String>> {
    let text = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    Ok(packages.iter().filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

/// Unpacks the library and its siblings beside each other and builds it from there.
fn build(folder: &Path) -> Result<()> {
    let place = folder.join("unpacked");
    tree::remove(&place)?;
    fs::create_dir_all(&place).with_context(|| tree::shown(&place))?;
    let unpack = |name: &str| -> Result<PathBuf> {
        let stem = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let package = folder.join(format!("{stem}.crate"));
        // Packages have one time for all files: with it, cargo would not notice that they have changed.
        run(Command::new("tar").arg("--touch").arg("-xzf").arg(&package).arg("-C").arg(&place))?;
        Ok(place.join(stem))
    };
    let library = unpack(LIBRARY)?;
    // Uses the target folder and debug settings of the workspace, so that other crates need not be
    // rebuilt.
    let mut command =
        cargo(["build", "--lib", "--examples", "--quiet", "--config", "profile.dev.debug='line-tables-only'"]);
    command.arg("--manifest-path").arg(library.join("Cargo.toml")).arg("--target-dir").arg(tree::target());
    for name in SIBLINGS {
        let path = unpack(name)?;
        command.arg("--config").arg(format!("patch.crates-io.{name}.path=\"{}\"", path.display()));
    }
    run(&mut command)
}
