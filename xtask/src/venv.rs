//! `target/venv` and others beside it: the Python packages that steps need, installed on demand.

use crate::process::{exists, output, run};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The venv of steps that need PyTorch, which brings an NVRTC of its own.
pub const TORCH: &str = "torch-venv";

/// Returns the shared venv's Python, with `packages` (pinned, `name==version`) installed.
pub fn python(packages: &[&str]) -> Result<PathBuf> {
    python_in("venv", packages)
}

/// Returns the Python of the venv in `target/NAME`, for packages that would not get along with the
/// others.
pub fn python_in(name: &str, packages: &[&str]) -> Result<PathBuf> {
    python_of("python3", name, packages)
}

/// Works like [`python_in`], made by `interpreter`.
pub fn python_of(interpreter: &str, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = tree::target().join(name);
    let python = folder.join("bin/python");
    if !output(Command::new(&python).arg("--version")).is_ok_and(|version| version.starts_with("Python 3")) {
        create(interpreter, &folder)?;
    }
    let list = folder.join("installed.txt");
    let installed = fs::read_to_string(&list).unwrap_or_default();
    let missing: Vec<&str> =
        packages.iter().copied().filter(|package| !installed.lines().any(|line| line == *package)).collect();
    if !missing.is_empty() {
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(&missing))
        .context("Python packages could not be installed; is the package index reachable?")?;
        let lines = missing.iter().fold(installed, |text, package| format!("{text}{package}\n"));
        fs::write(&list, lines).with_context(|| tree::shown(&list))?;
    }
    Ok(python)
}

fn create(interpreter: &str, folder: &Path) -> Result<()> {
    if !exists(interpreter) {
        bail!(
            "{interpreter} is missing; install Python 3.11 or newer with its venv module (`.ci/run` does so on Debian)"
        );
    }
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| tree::shown(folder))?;
    }
    run(Command::new(interpreter).args(["-m", "venv"]).arg(folder)).with_context(|| {
        format!(
            "{interpreter} has no working venv module; on Debian it is the package python3-venv (`.ci/run` installs it)"
        )
    })
}
