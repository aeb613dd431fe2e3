//! `cargo xtask cuda`: a folder with stripped binaries and a `run.sh`, and its archive, to copy to
//! a machine with a GPU.

use crate::executable::executables;
use crate::process::{exists, run as execute};
use crate::{gpu_test, tree};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

const RUN: &str = include_str!("cuda/run.sh");
/// Marks a folder as ours, so that it may be emptied before packing again.
const MARK: &str = "run.sh";

/// The largest archive that the tools for GPU machines copy.
const MAX_BYTES: u64 = 64 << 20;
/// The package whose test files are packed, beside the kernels' suites.
const PACKAGE: &str = "melisma";
/// The program with the kernels' suites.
const KERNELS: &str = "melisma-kernels";

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
    let files = packed_files()?;
    let mut build = vec!["test", "--workspace", "--no-run"];
    files.iter().for_each(|file| build.extend(["--test", file]));
    // All packages in the development profile, as in the step `shim`: after a check, nothing is
    // compiled again.
    let mut tests = executables(&["test", "--workspace", "--lib", "--no-run"])?;
    tests.extend(executables(&build)?);
    let packed: BTreeSet<String> = files.iter().map(|file| format!("{PACKAGE}-{file}")).collect();
    tests.retain(|test| test.name == KERNELS || packed.contains(&test.name));
    let programs = executables(&["build", "--release", "-p", "melisma-cli"])?;

    let folder = place(&arguments.output)?;
    fs::create_dir_all(folder.join("tests")).with_context(|| tree::shown(&folder))?;
    for test in &tests {
        strip(&test.path, &folder.join("tests").join(&test.name))?;
    }
    for program in &programs {
        strip(&program.path, &folder.join(&program.name))?;
    }
    for file in needed(&files)? {
        let to = folder.join("files").join(&file);
        fs::create_dir_all(to.parent().unwrap_or(&folder)).with_context(|| tree::shown(&to))?;
        fs::copy(tree::root().join(&file), &to).with_context(|| file.display().to_string())?;
    }
    let script = folder.join(MARK);
    fs::write(&script, RUN).with_context(|| tree::shown(&script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).with_context(|| tree::shown(&script))?;

    for file in tree::files(&folder)? {
        println!("{:>8.1} MiB  {}", mib(size(&file)?), tree::shown(&file));
    }
    let archive = folder.with_extension("tar.gz");
    let (parent, name) = (folder.parent().unwrap_or(&folder), folder.file_name().unwrap_or_default());
    execute(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(parent).arg(name))?;
    let bytes = size(&archive)?;
    if bytes > MAX_BYTES {
        bail!(
            "{} has {:.1} MiB, more than the {:.0} MiB that can be copied to a GPU machine\nhint: the largest files above \
             are what to shrink",
            tree::shown(&archive),
            mib(bytes),
            mib(MAX_BYTES)
        );
    }
    println!("{:>8.1} MiB  {}; there: tar -xzf it, then ./run.sh --help", mib(bytes), tree::shown(&archive));
    Ok(ExitCode::SUCCESS)
}

/// The test files to pack, except those that only run with the shim's own libraries.
fn packed_files() -> Result<Vec<String>> {
    let mut files = gpu_test::files(PACKAGE)?;
    let source = |name: &str| fs::read_to_string(source(name)).unwrap_or_default();
    files.retain(|name| !source(name).contains("MELISMA_SHIM_NVTX"));
    Ok(files)
}

fn source(name: &str) -> PathBuf {
    tree::root().join("crates").join(PACKAGE).join("tests").join(name).with_extension("rs")
}

/// The repository files that the tests in `names` read: every path that they, or the modules beside them, pass to
/// `repository::path`.
fn needed(names: &[String]) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut sources = BTreeSet::new();
    for name in names {
        let file = source(name);
        let text = fs::read_to_string(&file).with_context(|| tree::shown(&file))?;
        let modules = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        let modules = modules.map(|module| file.with_file_name(module).join("mod.rs"));
        sources.extend(modules.filter(|module| module.is_file() && !module.parent().is_some_and(is_finder)));
        sources.insert(file);
    }
    for source in sources {
        let text = fs::read_to_string(&source).with_context(|| tree::shown(&source))?;
        for call in text.split("repository::path(").skip(1) {
            let Some(path) = call.strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
                bail!("{}: `repository::path` takes a literal, so that the file can be packed", tree::shown(&source));
            };
            let path = tree::root().join(path);
            let files = if path.is_dir() { tree::files(&path)? } else { vec![path] };
            for file in files.iter().filter(|file| !is_script(file)) {
                found.insert(file.strip_prefix(tree::root()).unwrap_or(file).to_path_buf());
            }
        }
    }
    Ok(found)
}

/// Whether the folder is the module that finds the files.
fn is_finder(folder: &Path) -> bool {
    folder.ends_with("repository")
}

/// Whether the path is a script or page beside golden files that says how they were made.
fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "py" || suffix == "md")
}

/// The folder to fill: missing, empty, or packed by us before, in which case it is emptied.
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

fn size(file: &Path) -> Result<u64> {
    Ok(file.metadata().with_context(|| tree::shown(file))?.len())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_every_packed_test_are_found() {
        let names = packed_files().unwrap();
        assert!(!names.contains(&"nvtx".to_owned()), "{names:?}");
        let found = needed(&names).unwrap();
        for file in [
            "golden/pack/v1_0_modes.packed.safetensors",
            "golden/snac/tiny24/pytorch_model.bin",
            "golden/snac/tiny44/config.json",
            "golden/snac/tiny44/vectors.safetensors",
        ] {
            assert!(found.contains(Path::new(file)), "{file} in {found:?}");
        }
        assert!(found.iter().all(|file| tree::root().join(file).is_file()));
        let bytes: u64 = found.iter().map(|file| tree::root().join(file).metadata().unwrap().len()).sum();
        assert!(bytes < 12 << 20, "{bytes} bytes leave little room for binaries");
    }

    /// A packed test that locates files in another way would not find them on the other machine.
    #[test]
    fn packed_tests_know_the_repository_only_by_that_function() {
        for name in packed_files().unwrap() {
            assert!(!fs::read_to_string(source(&name)).unwrap().contains("CARGO_MANIFEST_DIR"), "{name}");
        }
    }
}
