//! Datasets in the hands of h5py: structure, values and the state in the middle of a build.

use crate::check::Outcome;
use crate::process::{cargo, output, run};
use crate::{toolchain, tree, venv};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PACKAGES: &[&str] = &["h5py==3.16.0", "numpy==2.4.6", "safetensors==0.8.0"];

pub fn check() -> Result<Outcome> {
    let python = venv::python(PACKAGES)?;
    toolchain::fronts()?;
    let folder = tree::target().join("dataset");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    }
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    let script = folder.join("check.py");
    fs::write(&script, include_str!("dataset.py")).with_context(|| tree::shown(&script))?;
    run(Command::new(python).arg(&script).arg(tree::target().join("debug/melisma")).arg(&folder))?;
    Ok(Outcome::Passed)
}

/// The corpus of the crate `hound`, by a package that depends on it.
const HOUND: &str = "[package]\nname = \"corpus\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
                     [lib]\npath = \"lib.rs\"\n[dependencies]\nhound = \"=3.5.1\"\n[workspace]\n";
const CORPORA: &[&str] = &["scipy==1.16.3", "soundfile==0.13.1", "numpy==2.4.6", "h5py==3.16.0"];

/// The WAV files that `hound` and scipy are tested with: every one is in the dataset or in the list of failures, and has
/// the samples that libsndfile reads.
pub fn corpora() -> Result<Outcome> {
    let folder = tree::target().join("corpora");
    fs::create_dir_all(&folder).with_context(|| tree::shown(&folder))?;
    let manifest = folder.join("Cargo.toml");
    fs::write(&manifest, HOUND).with_context(|| tree::shown(&manifest))?;
    fs::write(folder.join("lib.rs"), "").with_context(|| tree::shown(&folder))?;
    let facts = output(cargo(["metadata", "--format-version", "1", "--manifest-path"]).arg(&manifest))?;
    let facts: Value = serde_json::from_str(&facts).context("cargo's metadata")?;
    let packages = facts["packages"].as_array().context("packages")?;
    let hound = packages.iter().find(|package| package["name"] == "hound").context("hound was not fetched")?;
    let hound = PathBuf::from(hound["manifest_path"].as_str().unwrap_or_default()).with_file_name("testsamples");
    let python = venv::python(CORPORA)?;
    toolchain::fronts()?;
    let script = folder.join("check.py");
    fs::write(&script, include_str!("corpora.py")).with_context(|| tree::shown(&script))?;
    run(Command::new(python).arg(&script).arg(tree::target().join("debug/melisma")).arg(&folder).arg(hound))?;
    Ok(Outcome::Passed)
}
