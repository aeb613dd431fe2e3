//! Splits candidates that do not fit into memory: short pieces first, then the longest that fit.
//! Lower precisions are split only if FP32 does not fit at all.

use super::pick::ranked;
use super::{Reference, Scratch, Selection};
use crate::config::precision::Format;
use crate::optimize::search::candidate::Candidate;
use crate::optimize::search::candidate::bound::most_peak_bytes;
use crate::optimize::search::candidate::chunk::{Chunk, PIECE, SMALL_CHUNK};
use crate::optimize::search::measure::Measured;

/// Lengths are multiples of this.
const GRAIN: usize = 16;

impl Selection<'_> {
    /// Adds split candidates until one fits. Engines reject models that cannot be split.
    pub(super) fn measure_in_pieces(&self, scratch: &Scratch, reference: &Reference, all: &mut Vec<Measured>) {
        for format in [Format::Fp32, Format::Fp16, Format::Int8] {
            let counts = |measured: &&Measured| format != Format::Fp32 || measured.candidate.precision == Format::Fp32;
            if ranked(self.objective(), all).iter().any(counts) {
                return;
            }
            let too_large = all.iter().filter(|measured| measured.is_over_memory());
            let too_large = too_large.filter(|measured| measured.candidate.precision == format);
            for whole in too_large.cloned().collect::<Vec<_>>() {
                all.extend(self.in_pieces(scratch, reference, &whole));
            }
        }
    }

    fn in_pieces(&self, scratch: &Scratch, reference: &Reference, whole: &Measured) -> Vec<Measured> {
        let measure = |len: usize| {
            let candidate = Candidate { chunk: Chunk::Of(len), ..whole.candidate.clone() };
            self.measure(scratch, reference, candidate)
        };
        if whole.candidate.engine.is_ours() {
            return vec![measure(SMALL_CHUNK)];
        }
        let total = self.sets.values[0].first().and_then(|input| input.shape().last().copied()).unwrap_or(0);
        let mut tried = vec![measure(PIECE)];
        let Some(short) = peak(&tried[0]) else {
            if tried[0].is_over_memory() {
                tried.push(measure(GRAIN));
            }
            return tried;
        };
        let long = match peak(whole) {
            Some(peak) => (total, peak),
            None if total <= 4 * PIECE => return tried,
            None => {
                tried.push(measure(4 * PIECE));
                let Some(peak) = peak(&tried[1]) else { return tried };
                (4 * PIECE, peak)
            }
        };
        let bound = self.bound().map_or(u64::MAX, |bound| bound.bytes());
        let program = self.program_bytes(scratch, &whole.candidate).unwrap_or(0);
        let bytes = most_peak_bytes(bound.saturating_add(program), whole.candidate.threads);
        if let Some(len) = longest((PIECE, short), long, bytes).filter(|&len| len > PIECE && len < total) {
            tried.push(measure(len));
        }
        tried
    }
}

fn peak(measured: &Measured) -> Option<u64> {
    measured.outcome.and_then(|outcome| outcome.peak_bytes)
}

/// Returns the length whose peak is a little below `bytes`, estimated from the peaks of two
/// lengths: memory grows with the length.
fn longest((short, low): (usize, u64), (long, high): (usize, u64), bytes: u64) -> Option<usize> {
    let grown = high.checked_sub(low).filter(|&grown| grown > 0)?;
    let slope = grown as f64 / long.checked_sub(short).filter(|&len| len > 0)? as f64;
    let room = bytes as f64 * 0.97 - low as f64;
    let len = short + (room / slope).clamp(0.0, 1e12) as usize;
    Some(len / GRAIN * GRAIN).filter(|&len| len > 0)
}

#[cfg(test)]
mod tests {
    use super::longest;

    #[test]
    fn lengths_follow_the_memory() {
        let peaks = |len: usize| 1_000_000 + 1000 * len as u64;
        let of = |bytes| longest((64, peaks(64)), (1024, peaks(1024)), bytes).unwrap();
        let mut last = 0;
        for bytes in [1_200_000, 1_500_000, 2_000_000] {
            let len = of(bytes);
            assert!(peaks(len) < bytes && len > last && len % 16 == 0, "{bytes}: {len}");
            last = len;
        }
        assert_eq!(longest((64, 5), (64, 9), 100), None);
        assert_eq!(longest((64, 9), (128, 9), 100), None);
    }
}
