//! The command line and the Python module, built for the steps that run them.

use crate::process::{cargo, run};
use crate::tree;
use anyhow::Result;
use std::path::PathBuf;

/// Selects every library, program and example with the features that `cargo test --workspace` gives to dependencies:
/// examples bring in the dev-dependencies. Any other selection would compile the libraries again.
pub const SELECTION: &[&str] = &["--workspace", "--lib", "--bins", "--examples"];

pub fn build() -> Result<()> {
    run(cargo(["build"]).args(SELECTION))
}

/// The command line that [`build`] leaves.
pub fn program() -> PathBuf {
    tree::target().join("debug/melisma")
}

/// The Python module that [`build`] leaves.
pub fn module() -> PathBuf {
    tree::target().join("debug/lib_melisma.so")
}
