//! The worker's side of a measurement, for programs started by a search.

use std::io::Read;
use std::num::NonZeroU64;
use std::path::Path;

use super::spec::Answer;
use super::{Spec, work};
use crate::config::Limit;
use crate::runtime::device::Device;
use crate::runtime::{memory, thread};
use crate::{Error, Result};

/// Size limit of a candidate's description.
const SPEC_BYTES: u64 = 16 << 20;

/// Measures the candidate that the file at `spec` describes and writes the answer to the spec's
/// output folder. The process ends with its parent, whose exit closes the standard input.
///
/// # Errors
/// The file does not describe a candidate, or the model cannot be read or run. The answer contains
/// the error too.
pub fn serve(spec: &Path) -> Result<()> {
    let spec = read(spec)?;
    thread::start("parent", || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    })?;
    let limit = Limit(spec.settings.memory_limit.and_then(NonZeroU64::new));
    let budget = memory::budget(limit, &Device::cpu()?);
    match work(&spec, &budget) {
        Ok(done) => Answer::Done(done).write(&spec.outputs),
        Err(error) => {
            Answer::failed(&error).write(&spec.outputs)?;
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
