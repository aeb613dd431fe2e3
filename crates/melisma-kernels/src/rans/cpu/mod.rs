//! The loops over steps: 32 symbols of each of N streams at a time, with N large enough to overlap
//! one core's latencies.
//!
//! Vector code reads 32 words at a stream's position and uses as many as the states need. If fewer
//! are left, they are copied to a buffer with room behind it; a stream that reads beyond its end is
//! rejected after the step.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod palette;
mod scalar;

pub(super) use palette::{BLOCK, Inverse, expand, narrow};

use super::table::{Coding, Lookup};
use super::{L, LANES};
use crate::device::isa::{Isa, Level};
use crate::{Error, Result};

/// A stream being decoded.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Stream<'a> {
    states: [u32; LANES],
    /// The remaining words, 2 bytes each.
    words: &'a [u8],
    /// The last words, followed by zeros.
    tail: [u8; 4 * LANES],
    /// Bytes taken from `tail`, once `words` is empty.
    taken: usize,
    tail_len: usize,
    len: usize,
}

/// Bytes that a step may take.
const STEP: usize = 2 * LANES;

impl<'a> Stream<'a> {
    /// Creates a stream from its stored states and words.
    pub(super) fn new(states: &[u8; 4 * LANES], words: &'a [u8]) -> Result<Self> {
        let mut stream = Self {
            states: [0; LANES],
            words,
            tail: [0; 4 * LANES],
            taken: usize::MAX,
            tail_len: usize::MAX,
            len: words.len(),
        };
        for (state, bytes) in stream.states.iter_mut().zip(states.as_chunks::<4>().0) {
            *state = u32::from_le_bytes(*bytes);
            if !(L..1 << 31).contains(state) {
                return Err(Error::corrupt(format!("state {state:#x} is out of range")));
            }
        }
        Ok(stream)
    }

    /// Creates an empty stream.
    pub(super) fn empty() -> Self {
        Self { states: [L; LANES], words: &[], tail: [0; 4 * LANES], taken: 0, tail_len: 0, len: 0 }
    }

    /// Returns whether it ended correctly: every word taken, every state L.
    pub(super) fn is_finished(&self) -> bool {
        let taken = if self.in_tail() { self.taken == self.tail_len } else { self.words.is_empty() };
        taken && self.states == [L; LANES]
    }

    /// Returns the number of words taken so far, and the states.
    pub(super) fn position(&self) -> (usize, &[u32; LANES]) {
        let left = if self.in_tail() { self.tail_len.saturating_sub(self.taken) } else { self.words.len() };
        ((self.len - left) / 2, &self.states)
    }

    fn in_tail(&self) -> bool {
        self.tail_len != usize::MAX
    }

    /// Returns the number of steps that are safe before asking again; 0 if the stream was read
    /// beyond its end.
    fn safe_steps(&mut self) -> usize {
        if !self.in_tail() {
            if self.words.len() >= STEP {
                return self.words.len() / STEP;
            }
            self.tail[..self.words.len()].copy_from_slice(self.words);
            (self.taken, self.tail_len) = (0, self.words.len());
        }
        usize::from(self.taken <= self.tail_len)
    }

    /// Returns the words at the stream's position: at least [`STEP`] bytes for each safe step.
    fn next(&self) -> &[u8] {
        if self.in_tail() { &self.tail[self.taken.min(STEP)..] } else { self.words }
    }

    fn advance(&mut self, bytes: usize) {
        if self.in_tail() {
            self.taken += bytes;
        } else {
            self.words = &self.words[bytes..];
        }
    }
}

/// Decodes as many symbols of each stream as its output holds. Returns false if a stream ends too
/// early.
///
/// Outputs hold a multiple of 32 symbols, except in the last call.
pub(super) fn decode<const N: usize>(
    isa: Isa,
    lookup: &Lookup,
    streams: &mut [Stream<'_>; N],
    out: &mut [&mut [u8]; N],
) -> bool {
    let steps = out.iter().map(|out| out.len() / LANES).min().unwrap_or(0);
    let mut done = 0;
    while done < steps {
        let safe = streams.iter_mut().map(Stream::safe_steps).min().unwrap_or(0).min(steps - done);
        if safe == 0 {
            return false;
        }
        let part = out.each_mut().map(|out| &mut out[LANES * done..LANES * (done + safe)]);
        match isa.level() {
            // SAFETY: an `Isa` exists only on machines that have its features; `safe` steps stay within the words.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512::decode(lookup, streams, &mut { part }) },
            // SAFETY: an `Isa` exists only on machines that have its features; `safe` steps stay within the words.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2::decode(lookup, streams, &mut { part }) },
            #[cfg(target_arch = "aarch64")]
            Level::Neon => streams.iter_mut().zip(part).for_each(|(stream, out)| neon::decode(lookup, stream, out)),
            _ => streams.iter_mut().zip(part).for_each(|(stream, out)| scalar::decode(lookup, stream, out)),
        }
        done += safe;
    }
    streams.iter_mut().zip(out).all(|(stream, out)| rest(lookup, stream, &mut out[LANES * steps..]))
}

/// Decodes the symbols that only this stream has, including the last step.
fn rest(lookup: &Lookup, stream: &mut Stream<'_>, out: &mut [u8]) -> bool {
    out.chunks_mut(LANES).all(|step| {
        let is_safe = stream.safe_steps() > 0;
        if is_safe {
            scalar::decode(lookup, stream, step);
        }
        is_safe
    })
}

/// Encodes N streams of symbols, all of one length except the last. Words go to the ends of `out`,
/// which hold 2 bytes per symbol plus 64. Returns where each stream begins. `states` are those from
/// which the decoder starts.
pub(super) fn encode<const N: usize>(
    isa: Isa,
    codings: &[Coding; 256],
    symbols: &[&[u8]; N],
    out: &mut [&mut [u8]; N],
    states: &mut [[u32; LANES]; N],
) -> [usize; N] {
    for (out, symbols) in out.iter().zip(symbols) {
        assert!(out.len() >= 2 * symbols.len() + STEP, "rans: the output is too short");
    }
    *states = [[L; LANES]; N];
    let mut at = out.each_ref().map(|out| out.len());
    let steps = symbols.iter().map(|symbols| symbols.len() / LANES).min().unwrap_or(0);
    for k in 0..N {
        let beyond = &symbols[k][LANES * steps..];
        for step in beyond.chunks(LANES).rev() {
            at[k] = scalar::encode(codings, step, out[k], at[k], &mut states[k]);
        }
    }
    let whole = symbols.map(|symbols| &symbols[..LANES * steps]);
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features; the outputs were checked.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::encode(codings, &whole, out, &mut at, states) },
        _ => {
            for k in 0..N {
                for step in whole[k].as_chunks::<LANES>().0.iter().rev() {
                    at[k] = scalar::encode(codings, step, out[k], at[k], &mut states[k]);
                }
            }
        }
    }
    at
}
