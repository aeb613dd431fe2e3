//! The command line and the Python module, built for the steps that run them.

use crate::process::{cargo, run};
use crate::tree;
use anyhow::Result;
use std::path::PathBuf;

/// Selects every library, program and example with the features that `cargo test --workspace`
/// enables in dependencies: examples add the dev-dependencies. Any other selection would recompile
/// the libraries.
pub const SELECTION: &[&str] = &["--workspace", "--lib", "--bins", "--examples"];

pub fn build() -> Result<()> {
    run(cargo(["build"]).args(SELECTION))
}

/// Returns the command line that [`build`] produces.
pub fn program() -> PathBuf {
    tree::target().join("debug/melisma")
}

/// Returns the Python module that [`build`] produces.
pub fn module() -> PathBuf {
    tree::target().join("debug/lib_melisma.so")
}
