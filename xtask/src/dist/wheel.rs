//! The Python package: a wheel for each machine, which serves every supported Python.

use super::target::{GLIBC, Target};
use super::tool::Tools;
use crate::process::run;
use crate::tree;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds the wheel into `folder` with the text of `licences`, and returns where it is. Maturin compares the versions of
/// its symbols with what manylinux allows.
pub fn build(tools: &Tools, target: Target, folder: &Path, licences: &Path) -> Result<PathBuf> {
    let manylinux = format!("manylinux_{}_{}", GLIBC.0, GLIBC.1);
    let mut command = tools.command("maturin");
    command.args(["build", "--zig", "--locked", "--profile", "dist", "--compatibility", &manylinux]);
    command.args(["--target", &target.triple(), "--out"]).arg(folder);
    run(command.arg("--manifest-path").arg(tree::root().join("crates/melisma-py/Cargo.toml")))?;
    let end = format!("{manylinux}_{}.whl", target.name());
    let wheel = tree::files(folder)?.into_iter().find(|file| file.to_string_lossy().ends_with(&end));
    let wheel = wheel.with_context(|| format!("maturin made no wheel that ends in {end}"))?;
    add(tools, &wheel, licences)?;
    Ok(wheel)
}

/// Adds the licences of all packages whose code is in the wheel to its own.
fn add(tools: &Tools, wheel: &Path, licences: &Path) -> Result<()> {
    let stage = tree::target().join("dist-wheel");
    tree::renew(&stage)?;
    run(tools.command("wheel").args(["unpack", "--dest"]).args([&*stage, wheel]))?;
    let place = information(&stage)?.join("licenses");
    fs::create_dir_all(&place).with_context(|| tree::shown(&place))?;
    let name = licences.file_name().context("licences without a name")?;
    fs::copy(licences, place.join(name)).with_context(|| tree::shown(licences))?;
    let package = place.ancestors().nth(2).context("a wheel without a folder")?;
    let folder = wheel.parent().context("a wheel outside of a folder")?;
    run(tools.command("wheel").args(["pack", "--dest-dir"]).args([folder, package]))?;
    tree::remove(&stage)
}

/// Returns the folder `NAME.dist-info` of the wheel that was unpacked into `stage`.
fn information(stage: &Path) -> Result<PathBuf> {
    let metadata = tree::files(stage)?.into_iter().find(|file| {
        let folder = file.parent().and_then(Path::extension);
        folder.is_some_and(|suffix| suffix == "dist-info") && file.file_name().is_some_and(|name| name == "METADATA")
    });
    let folder = metadata.as_deref().and_then(Path::parent).context("the wheel has no METADATA")?;
    Ok(folder.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_information_of_a_wheel_is_found() {
        let stage = tree::target().join("dist-wheel-test");
        tree::renew(&stage).unwrap();
        assert!(information(&stage).is_err());
        let folder = stage.join("melisma-0.1.0/melisma-0.1.0.dist-info");
        for name in ["METADATA", "licenses/LICENSE-MIT"] {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        assert_eq!(information(&stage).unwrap(), folder);
        tree::remove(&stage).unwrap();
    }
}
