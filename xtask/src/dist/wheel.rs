//! The Python package: a wheel for each machine, which serves every supported Python.

use super::target::{GLIBC, Target};
use super::tool::Tools;
use crate::process::run;
use crate::tree;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Builds the wheel into `folder` and returns where it is. Maturin compares the versions of its symbols with what
/// manylinux allows.
pub fn build(tools: &Tools, target: Target, folder: &Path) -> Result<PathBuf> {
    let manylinux = format!("manylinux_{}_{}", GLIBC.0, GLIBC.1);
    let mut command = tools.command("maturin");
    command.args(["build", "--zig", "--locked", "--profile", "dist", "--compatibility", &manylinux]);
    command.args(["--target", &target.triple(), "--out"]).arg(folder);
    run(command.arg("--manifest-path").arg(tree::root().join("crates/melisma-py/Cargo.toml")))?;
    let end = format!("{manylinux}_{}.whl", target.name());
    let wheel = tree::files(folder)?.into_iter().find(|file| file.to_string_lossy().ends_with(&end));
    wheel.with_context(|| format!("maturin made no wheel that ends in {end}"))
}
