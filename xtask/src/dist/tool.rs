//! The tools that a release is made with: zig, which links for an old C library and for other machines, maturin,
//! which makes wheels, and wheel, which adds licences to them. They are Python packages, installed on demand.

use super::release::Release;
use super::target::Target;
use crate::process::{output, run};
use crate::{tree, venv};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, ffi::OsString};

const PACKAGES: &[&str] = &["ziglang==0.17.0", "cargo-zigbuild==0.24.0", "maturin==1.16.0", "wheel==0.48.0"];

pub struct Tools {
    /// Where their programs are.
    folder: PathBuf,
    /// The variables of a build.
    variables: Vec<(&'static str, OsString)>,
}

impl Tools {
    /// Makes the tools and the standard libraries of the targets ready.
    pub fn ready(targets: &[Target], release: &Release) -> Result<Self> {
        let python = venv::python_in("dist-venv", PACKAGES)?;
        let folder = python.parent().context("the folder of Python")?.to_path_buf();
        let installed =
            output(Command::new("rustup").args(["target", "list", "--installed"]).current_dir(tree::root()))?;
        for target in targets.iter().map(|target| target.triple()) {
            if !installed.lines().any(|line| *line == target) {
                run(Command::new("rustup").args(["target", "add", &target]).current_dir(tree::root()))
                    .with_context(|| format!("the standard library for {target} is missing and could not be added"))?;
            }
        }
        let inherited = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([folder.clone()].into_iter().chain(env::split_paths(&inherited)))
            .context("the path of the tools has a colon")?;
        let variables = vec![
            ("PATH", path),
            ("RUSTFLAGS", remapped()?.into()),
            ("SOURCE_DATE_EPOCH", release.epoch.clone().into()),
            ("MELISMA_COMMIT", release.commit.clone().into()),
            ("CARGO_INCREMENTAL", "0".into()),
        ];
        Ok(Self { folder, variables })
    }

    /// Returns a command of the tool `name`.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join(name));
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).current_dir(tree::root());
        command
    }
}

/// Returns the flags that keep the folders of this machine out of programs.
fn remapped() -> Result<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cargo"))).context("HOME is not set")?;
    let flag = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    Ok(format!("{} {}", flag(tree::root(), "/melisma"), flag(&home, "/cargo")))
}
