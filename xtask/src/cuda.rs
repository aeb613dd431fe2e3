//! `cargo xtask cuda`: one folder with stripped binaries and a `run.sh`, to be copied to a machine with a GPU.

use crate::process::{cargo, exists, output, run as execute};
use crate::tree;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

const RUN: &str = include_str!("cuda/run.sh");
/// Marks a folder as ours, so that packing again may empty it.
const MARK: &str = "run.sh";

#[derive(clap::Args)]
pub struct Arguments {
    /// Where to put it
    #[arg(short, long, value_name = "DIR", default_value = "target/cuda")]
    output: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !exists("strip") {
        bail!("strip is missing; on Debian it is part of binutils");
    }
    let tests = executables(&["test", "--release", "-p", "melisma-kernels", "-p", "melisma", "--no-run"])?;
    let programs = executables(&["build", "--release", "-p", "melisma-cli"])?;

    let folder = place(&arguments.output)?;
    fs::create_dir_all(folder.join("tests")).with_context(|| tree::shown(&folder))?;
    for test in &tests {
        strip(&test.path, &folder.join("tests").join(&test.name))?;
    }
    for program in &programs {
        strip(&program.path, &folder.join(&program.name))?;
    }
    let script = folder.join(MARK);
    fs::write(&script, RUN).with_context(|| tree::shown(&script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).with_context(|| tree::shown(&script))?;

    let mut bytes = 0;
    for file in tree::files(&folder)? {
        let size = file.metadata().with_context(|| tree::shown(&file))?.len();
        println!("{:>8.1} MiB  {}", mib(size), tree::shown(&file));
        bytes += size;
    }
    println!("{:>8.1} MiB  in {}; there: ./run.sh --help", mib(bytes), tree::shown(&folder));
    Ok(ExitCode::SUCCESS)
}

struct Executable {
    name: String,
    path: PathBuf,
}

/// What a cargo command builds, from its JSON messages.
fn executables(arguments: &[&str]) -> Result<Vec<Executable>> {
    println!("$ cargo {}", arguments.join(" "));
    let format = "--message-format=json-render-diagnostics";
    let messages = output(&mut cargo(arguments.iter().copied().chain([format])))?;
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("a message of cargo")?;
        let Some(path) = message["executable"].as_str() else { continue };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let target = text(&message["target"]["name"]);
        let name = match message["profile"]["test"] == true {
            false => target,
            true => {
                let manifest = PathBuf::from(text(&message["manifest_path"]));
                let package = manifest.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
                match message["target"]["kind"][0] == "lib" {
                    true => package.into_owned(),
                    false => format!("{package}-{target}"),
                }
            }
        };
        found.push(Executable { name, path: path.into() });
    }
    if found.is_empty() {
        bail!("`cargo {}` built no executable", arguments.join(" "));
    }
    Ok(found)
}

/// The folder to fill: absent, empty, or packed by us before, and then emptied.
fn place(folder: &Path) -> Result<PathBuf> {
    let base = if folder.starts_with("target") { tree::root().to_path_buf() } else { env::current_dir()? };
    let folder = base.join(folder);
    if folder.exists() {
        let ours = folder.join(MARK).is_file() || tree::files(&folder)?.is_empty();
        if !ours {
            bail!("{} holds something else; name another folder", folder.display());
        }
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    Ok(folder)
}

fn strip(from: &Path, to: &Path) -> Result<()> {
    execute(Command::new("strip").arg("-o").arg(to).arg(from))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
