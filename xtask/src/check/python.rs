//! The Python package: built, assembled in `target/python` and tested, and its stubs are compared
//! with it.

use super::outcome::Outcome;
use crate::process::run;
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

const PACKAGES: &[&str] = &["numpy==2.4.6", "mypy==2.4.1"];

pub fn check() -> Result<Outcome> {
    let python = venv::python(PACKAGES)?;
    front::build()?;
    let source = tree::root().join("crates/melisma-py");
    let folder = tree::target().join("python");
    let package = folder.join("melisma");
    fs::create_dir_all(&package).with_context(|| tree::shown(&package))?;
    for entry in fs::read_dir(source.join("python/melisma")).context("the package's sources")? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, package.join(name)).with_context(|| tree::shown(&path))?;
        }
    }
    let library = front::module();
    fs::copy(&library, package.join("_melisma.abi3.so")).with_context(|| tree::shown(&library))?;
    let module = |name: &str| {
        let mut command = Command::new(&python);
        command.args(["-m", name]).current_dir(&folder).env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    run(module("unittest").args(["discover", "--start-directory"]).arg(source.join("tests")))?;
    run(module("mypy.stubtest").arg("melisma._melisma"))?;
    run(module("mypy").args(["--strict", "--no-incremental", "-p", "melisma"]))?;
    Ok(Outcome::Passed)
}
