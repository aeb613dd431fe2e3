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
        Err(match first {
            Some(first) => Error::unsupported(message).with_remedies_of(&first),
            None => Error::unsupported(message).with_hint(Remedy::GiveInputValues),
        })
    }
}

/// Prefixes an engine's error with its name, once.
fn named(engine: EngineName, error: &str) -> String {
    if error.starts_with(engine.as_str()) { error.to_owned() } else { format!("{engine}: {error}") }
}
