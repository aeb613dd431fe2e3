//! The lowest memory limit under which a search finds an engine, for messages about limits that are
//! too low.

use super::{Scratch, Selection};
use crate::config::precision::Format;
use crate::engine::need::Need;
use crate::engine::rten;
use crate::optimize::search::candidate::Candidate;
use crate::optimize::search::candidate::bound::{Bound, MIB, Peak};
use crate::optimize::search::candidate::chunk::{Chunk, PIECE, Splitting};
use crate::optimize::search::measure::Measured;
use crate::text::size;
use crate::{Error, Remedy};

/// The memory that the model takes in a worker with the embedded engine.
pub(super) struct LeastMemory {
    need: Need,
    program_bytes: u64,
    threads: usize,
}

impl LeastMemory {
    /// Returns `None` if the sizes depend on the values of the inputs, or if no process can be
    /// measured.
    pub(super) fn of(selection: &Selection<'_>, scratch: &Scratch) -> Option<Self> {
        let inputs = selection.sets.values.first()?;
        let whole = Need::of(selection.model, inputs).ok().filter(|need| need.hidden.is_empty())?;
        let piece = match selection.splitting() {
            Splitting::Off => None,
            Splitting::AsNeeded | Splitting::Short | Splitting::Of(_) => {
                Need::of_piece(selection.model, inputs, PIECE as u64)
            }
        };
        let need = piece.filter(|piece| piece.bytes() < whole.bytes()).unwrap_or(whole);
        let threads = selection.search.config.threads.value.count();
        let candidate = Candidate { engine: rten::NAME, precision: Format::Fp32, threads, chunk: Chunk::Own };
        Some(Self { need, program_bytes: selection.program_bytes(scratch, &candidate)?, threads })
    }

    /// Returns a sufficient limit. The worker also holds each output a second time, as the bytes of
    /// a file; the rest is a margin for its allocator.
    pub(super) fn limit_bytes(&self) -> u64 {
        let run = self.need.bytes().saturating_add(self.need.output_bytes);
        let margin = run / 16 + 6 * MIB;
        let bytes = self.program_bytes.saturating_add(run).saturating_add(margin);
        Peak { bytes, program_bytes: self.program_bytes, threads: self.threads }.least_bound()
    }

    /// Describes what takes the memory.
    pub(super) fn describe(&self) -> String {
        format!("{}, beside {} of the program itself", self.need.describe(), size::show(self.program_bytes))
    }
}

/// Adds the limit that a search needs to a memory error: a worker also holds its outputs as files,
/// and other runs may take more.
pub(in crate::optimize::search) fn with_least_limit(error: Error, selection: &Selection<'_>) -> Error {
    let Some(Bound::Limit(_)) = selection.bound() else { return error };
    let least = selection.scratch().ok().and_then(|scratch| LeastMemory::of(selection, &scratch));
    match least {
        Some(least) => {
            let raise = Remedy::RaiseMemoryLimit { least: Some(least.limit_bytes()) };
            error.with_hint(raise).or_hint("use smaller inputs")
        }
        None => error,
    }
}

/// Returns a limit that suffices for one of the candidates whose measured peak is too large, also
/// if the next measurement finds a larger one.
pub(super) fn measured_limit_bytes(selection: &Selection<'_>, scratch: &Scratch, all: &[Measured]) -> Option<u64> {
    let limit = |measured: &Measured| {
        let peak = selection.peak(scratch, &measured.candidate, measured.outcome.as_ref()?)?;
        Some(peak.raised().least_bound())
    };
    all.iter().filter(|measured| measured.is_over_memory()).filter_map(limit).min()
}
