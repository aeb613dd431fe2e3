//! The WAV files that `hound` and scipy are tested with. Each has rows in the dataset or is listed
//! as a failure, and its samples are those that libsndfile reads.

use super::outcome::Outcome;
use crate::process::{cargo, output, run};
use crate::{front, tree, venv};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A package whose only dependency is `hound`, so that cargo fetches its corpus.
const HOUND: &str = "[package]\nname = \"corpus\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
                     [lib]\npath = \"lib.rs\"\n[dependencies]\nhound = \"=3.5.1\"\n[workspace]\n";
const PACKAGES: &[&str] = &["scipy==1.16.3", "soundfile==0.13.1", "numpy==2.4.6", "h5py==3.16.0"];

pub fn check() -> Result<Outcome> {
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
    let python = venv::python(PACKAGES)?;
    front::build()?;
    let script = folder.join("check.py");
    fs::write(&script, include_str!("corpora.py")).with_context(|| tree::shown(&script))?;
    run(Command::new(python).arg(&script).arg(front::program()).arg(&folder).arg(hound))?;
    Ok(Outcome::Passed)
}
