//! `cargo xtask cuda`: a folder with stripped binaries and a `run.sh`, and its archive, to copy to
//! a machine with a GPU.

use crate::executable::executables;
use crate::process::{exists, run as execute};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const RUN: &str = include_str!("cuda/run.sh");
/// Marks a folder as ours, so that it may be emptied before packing again.
const MARK: &str = "run.sh";

/// The largest archive that the tools for GPU machines copy.
const MAX_BYTES: u64 = 64 << 20;
/// The library's features with CUDA and without the built-in voice, whose 23 MB do not compress.
const FEATURES: &str = "builtin,codecs,cuda-13,onnx,speak,trace";
/// The sources of the library's integration tests.
const SOURCES: &str = "crates/melisma/tests/integration";

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
    // Not the selection of the checks: in the whole workspace every package has the voice. So most of what they compiled is
    // compiled again.
    let mut tests = executables(&["test", "-p", "melisma-kernels", "--lib", "--no-run"])?;
    let integration = ["test", "-p", "melisma", "--test", "integration", "--no-run"];
    tests.extend(executables(&[&integration[..], &["--no-default-features", "--features", FEATURES]].concat())?);
    let program = ["build", "--release", "-p", "melisma-cli", "--no-default-features", "--features", "cuda-13"];
    let programs = executables(&program)?;

    let folder = tree::place(&arguments.output, MARK)?;
    fs::create_dir_all(folder.join("tests")).with_context(|| tree::shown(&folder))?;
    for test in &tests {
        strip(&test.path, &folder.join("tests").join(&test.name))?;
    }
    for program in &programs {
        strip(&program.path, &folder.join(&program.name))?;
    }
    for file in files_read()? {
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

/// Returns the repository files that the integration tests read: every path that they pass to `repository::path`.
fn files_read() -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for (source, text) in sources()? {
        for call in text.split("repository::path(").skip(1) {
            let Some(path) = call.strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
                bail!("{}: `repository::path` takes a literal, so that the file can be packed", tree::shown(&source));
            };
            let path = tree::root().join(path);
            let mut files = if path.is_dir() { tree::files(&path)? } else { vec![path.clone()] };
            files.retain(|file| *file == path || !is_script(file));
            found.extend(files.iter().map(|file| file.strip_prefix(tree::root()).unwrap_or(file).to_path_buf()));
        }
    }
    Ok(found)
}

/// Returns the integration tests and their text, except the module that finds files.
fn sources() -> Result<Vec<(PathBuf, String)>> {
    let mut sources = tree::files(&tree::root().join(SOURCES))?;
    sources.retain(|source| !source.ends_with("repository.rs"));
    let read =
        |source: PathBuf| fs::read_to_string(&source).with_context(|| tree::shown(&source)).map(|text| (source, text));
    sources.into_iter().map(read).collect()
}

/// Returns whether the path is a script or page beside golden files that says how they were made.
fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "py" || suffix == "md")
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
    fn the_files_of_the_integration_tests_are_found() {
        let found = files_read().unwrap();
        for file in [
            "golden/pack/v1_0_modes.packed.safetensors",
            "golden/snac/tiny24/pytorch_model.bin",
            "golden/snac/tiny44/config.json",
            "golden/snac/tiny44/vectors.safetensors",
            "README.md",
        ] {
            assert!(found.contains(Path::new(file)), "{file} in {found:?}");
        }
        assert!(found.iter().all(|file| tree::root().join(file).is_file()));
        let bytes: u64 = found.iter().map(|file| tree::root().join(file).metadata().unwrap().len()).sum();
        // The binaries take 42 MiB of the 64.
        assert!(bytes < 13 << 20, "{bytes} bytes leave little room for binaries");
    }

    #[test]
    fn only_the_voice_is_left_out_of_the_library() {
        let manifest = fs::read_to_string(tree::root().join("crates/melisma/Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let features = manifest["features"]["default"].as_array().unwrap().iter().filter_map(|name| name.as_str());
        let without: Vec<_> = features.filter(|name| *name != "voice").collect();
        assert_eq!(without.join(","), FEATURES);
    }

    /// A packed test that locates files in another way would not find them on the other machine.
    #[test]
    fn packed_tests_know_the_repository_only_by_that_function() {
        for (source, text) in sources().unwrap() {
            assert!(!text.contains("CARGO_MANIFEST_DIR"), "{}", tree::shown(&source));
        }
    }
}
