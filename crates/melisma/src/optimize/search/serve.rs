//! The worker's side of a measurement: what a program that a search started does with the path that it is given.

use std::io::Read;
use std::path::Path;

use super::{Spec, work};
use crate::{Error, Result};

/// The largest description of a candidate.
const SPEC_BYTES: u64 = 16 << 20;

/// Measures the candidate that the file at `spec` describes and returns the line to print. The process ends when the one
/// that started it is gone, which closes its standard input.
///
/// # Errors
/// The file is not a description of a candidate, or the model cannot be read or run.
pub fn serve(spec: &Path) -> Result<String> {
    let wrong = |error: &dyn std::fmt::Display| Error::invalid(format!("{}: {error}", spec.display()));
    let mut text = String::new();
    let file = std::fs::File::open(spec).map_err(|error| Error::io(spec.display(), error))?;
    file.take(SPEC_BYTES).read_to_string(&mut text).map_err(|error| Error::io(spec.display(), error))?;
    let spec: Spec = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    serde_json::to_string(&work(&spec)?).map_err(|error| Error::invalid(error.to_string()))
}
