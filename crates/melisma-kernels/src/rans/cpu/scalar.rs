//! Portable code.

use super::super::table::{Coding, Lookup};
use super::super::{L, LANES, M, SCALE_BITS};
use super::Stream;

/// Decodes `out`, which is whole steps and at most one partial one, within the stream's safe steps.
pub(super) fn decode(lookup: &Lookup, stream: &mut Stream<'_>, out: &mut [u8]) {
    let mut states = stream.states;
    let words = stream.next();
    let mut at = 0;
    for step in out.chunks_mut(LANES) {
        // One bounds check for all reads of the step.
        let words = &words[at..at + 2 * LANES];
        let mut taken = 0;
        for (symbol, state) in step.iter_mut().zip(&mut states) {
            let entry = lookup[*state as usize % M];
            *symbol = entry as u8;
            let x = (entry >> 20) * (*state >> SCALE_BITS) + (entry >> 8) % M as u32;
            let index = taken % (2 * LANES);
            let word = u16::from_le_bytes([words[index], words[index + 1]]);
            // Branch-free: a branch would be mispredicted every few symbols.
            let refill = u32::from(x < L);
            *state = x << (16 * refill) | u32::from(word) & refill.wrapping_neg();
            taken += 2 * refill as usize;
        }
        at += taken;
    }
    stream.states = states;
    stream.advance(at);
}

/// Encodes one step, lanes from last to first, so that words are in lane order; returns where they
/// begin.
pub(super) fn encode(
    codings: &[Coding; 256],
    symbols: &[u8],
    out: &mut [u8],
    mut at: usize,
    states: &mut [u32; LANES],
) -> usize {
    for (&symbol, state) in symbols.iter().zip(states).rev() {
        let Coding { reciprocal, rest } = codings[usize::from(symbol)];
        let (f, bias, shift) = (rest % M as u32, rest >> 12 & 0x1fff, rest >> 25);
        let full = u32::from(*state >= f << 19);
        out[at - 2..at].copy_from_slice(&(*state as u16).to_le_bytes());
        at -= 2 * full as usize;
        let x = *state >> (16 * full);
        let quotient = ((u64::from(x) * u64::from(reciprocal)) >> 32) as u32 >> shift;
        *state = x + bias + quotient * (M as u32 - f);
    }
    at
}
