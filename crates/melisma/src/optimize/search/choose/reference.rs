//! The reference outputs for comparing candidates.

use super::baseline::GIVEN;
use super::least_memory::LeastMemory;
use super::{Reference, Scratch, Selection};
use crate::config::precision::Format;
use crate::engine::{EngineName, onnxruntime, rten};
use crate::optimize::search::candidate::Candidate;
use crate::optimize::search::candidate::chunk::{Chunk, PIECE};
use crate::optimize::search::measure::work;
use crate::{Error, ErrorKind, Remedy, Result};

impl Selection<'_> {
    /// Computes the outputs of the original model in FP32. ONNX Runtime computes them if it is installed, so that none
    /// of our engines judges itself; else the embedded engine, else the named engine.
    pub(super) fn reference(&self, scratch: &Scratch) -> Result<Reference> {
        let folder = scratch.store(GIVEN, self.model)?;
        let mut reasons = Vec::new();
        let mut names = vec![rten::NAME];
        if onnxruntime::find().is_ok() {
            names.insert(0, EngineName::Onnxruntime);
        }
        names.extend(self.request.requirements.engine.filter(|name| !names.contains(name)));
        let threads = self.search.config.threads.value.count();
        let (mut is_short, mut is_embedded_short, mut first) = (false, false, None);
        let mut refused = Vec::new();
        for chunk in [Chunk::Own, Chunk::Of(PIECE)] {
            if chunk != Chunk::Own && !is_short {
                break;
            }
            for &engine in &names {
                let candidate = Candidate { engine, precision: Format::Fp32, threads, chunk };
                let spec = self.spec(scratch, &folder, &candidate, 0.0)?;
                match self.search.worker.measure(&spec) {
                    Ok(done) => {
                        let outputs = done.outputs.iter().map(|files| work::read(files)).collect::<Result<_>>()?;
                        return Ok(Reference { engine: done.engine, outputs });
                    }
                    Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                    Err(error) => {
                        is_short |= error.kind() == ErrorKind::Memory;
                        is_embedded_short |= error.kind() == ErrorKind::Memory && engine == rten::NAME;
                        reasons.push(named(engine, &error.to_string()));
                        refused.push((engine, error.kind()));
                        first = first.or((!error.remedies().is_empty()).then_some(error));
                    }
                }
            }
        }
        let message = format!("no engine runs this model in fp32: {}", reasons.join("; "));
        if let Some(bound) = self.bound().filter(|_| is_short) {
            if let Some(least) = LeastMemory::of(self, scratch).filter(|_| is_embedded_short) {
                let error = Error::new(ErrorKind::Memory, format!("{}; {bound}", least.describe()));
                return Err(error.with_hint(bound.remedy(Some(least.limit_bytes()))));
            }
            return Err(Error::new(ErrorKind::Memory, format!("{message}; {bound}")).with_hint(bound.remedy(None)));
        }
        let empty = self.sets.ports.iter().zip(&self.sets.values[0]).find(|(_, value)| value.shape().contains(&0));
        Err(match (empty, first) {
            (Some((port, _)), _) => Error::unsupported(message)
                .with_hint(format!("a length of the input `{}` is 0: make it at least 1", port.name)),
            (None, Some(first)) => no_engine(message, &first, &refused),
            (None, None) => Error::unsupported(message).with_hint(Remedy::GiveInputValues),
        })
    }
}

/// Returns the error for a model that every engine in `refused` rejected, with the remedies of `first`, unless they
/// advise one of these engines.
pub(in crate::optimize::search) fn no_engine(
    message: String,
    first: &Error,
    refused: &[(EngineName, ErrorKind)],
) -> Error {
    let error = Error::unsupported(message);
    let advised = Remedy::of(first).into_iter().find_map(|remedy| match remedy {
        Remedy::UseEngine(name) => refused.iter().find(|(engine, _)| name.as_deref() == Some(engine.as_str())),
        _ => None,
    });
    match advised {
        None => error.with_remedies_of(first),
        Some((_, ErrorKind::Unsupported)) => {
            error.with_hint("no engine has an operator of this model: export the model without it")
        }
        Some(_) => error.with_hint(Remedy::GiveInputValues),
    }
}

/// Prefixes an engine's error with its name, once.
fn named(engine: EngineName, error: &str) -> String {
    if error.starts_with(engine.as_str()) { error.to_owned() } else { format!("{engine}: {error}") }
}
