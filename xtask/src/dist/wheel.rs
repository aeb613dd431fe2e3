//! The Python package: a wheel for each machine, which serves every supported Python.

use super::target::{GLIBC, Target};
use super::tool::Tools;
use crate::process::run;
use crate::tree;
use anyhow::Result;
use std::path::Path;

/// Builds the wheel into `folder`. Maturin compares the versions of symbols with what manylinux allows.
pub fn build(tools: &Tools, target: Target, folder: &Path) -> Result<()> {
    let manylinux = format!("manylinux_{}_{}", GLIBC.0, GLIBC.1);
    let mut command = tools.command("maturin");
    command.args(["build", "--zig", "--locked", "--profile", "dist", "--compatibility", &manylinux]);
    command.args(["--target", &target.triple(), "--out"]).arg(folder);
    run(command.arg("--manifest-path").arg(tree::root().join("crates/melisma-py/Cargo.toml")))
}
