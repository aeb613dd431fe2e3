//! The worker's side of a measurement: what a program that a search started does with the path that it is given.

use std::io::Read;
use std::path::Path;

use super::spec::Answer;
use super::{Spec, work};
use crate::{Error, Result};

/// The largest description of a candidate.
const SPEC_BYTES: u64 = 16 << 20;

/// Measures the candidate that the file at `spec` describes, and answers in the spec's folder of outputs; `hint` words the
/// remedies of an error. The process ends when the one that started it is gone, which closes its standard input.
///
/// # Errors
/// The file is not a description of a candidate, or the model cannot be read or run; the answer says so too.
pub fn serve(spec: &Path, hint: impl Fn(&Error) -> Option<String>) -> Result<()> {
    let spec = read(spec)?;
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    match work(&spec) {
        Ok(done) => Answer::Done(done).write(&spec.outputs),
        Err(error) => {
            Answer::failed(&error, hint(&error)).write(&spec.outputs)?;
            Err(error)
        }
    }
}

fn read(path: &Path) -> Result<Spec> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| Error::io(path.display(), error))?;
    file.take(SPEC_BYTES).read_to_string(&mut text).map_err(|error| Error::io(path.display(), error))?;
    serde_json::from_str(&text).map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
}
