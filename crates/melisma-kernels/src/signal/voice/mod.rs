//! `voice`: many synthesiser voices, each an oscillator with an envelope, summed into stereo.
//!
//! Time is a sample number n, cut into ticks of 32 samples counted from 0. Slow quantities
//! (envelope, cutoff, amplitudes of partials) are evaluated in closed form at the ends of ticks, at
//! the voice's first sample and where a segment of its envelope ends, and are linear in between. A
//! voice at the age of t samples is
//!
//! | source | sample, before envelope and gains |
//! |---|---|
//! | tone | low-pass(sine · cos(φ) + saw · ramp(ψ)), φ and ψ of 64 bits, the ramp's steps band-limited (`step.rs`) |
//! | partials | Σ a_k 2^(-r_k t) sin(k φ), k = 1..8 |
//! | drum | sin(2π(f t + d (1 - 2^(-r t)))) |
//! | noise | m · (input, band-pass, low-pass) of white noise, a hash of seed + t |
//!
//! The filter is Simper's state-variable filter; its cutoff in octaves is `octaves + sweep 2^(-rate
//! t) + motion depth sin(lfo) + brightness`. An envelope segment goes from level a to b as b + (a -
//! b) (2^(-c x) - 2^-c) / (1 - 2^-c) for x = 0..1, and ends exactly at its sample.
//!
//! Each voice's samples are limited to ±3.9, rounded to multiples of 2^-24 and summed as integers.
//! Integer addition is exact in any order, so a mix has the same bits however its voices are
//! grouped, cut into blocks or spread over threads. All CPUs give the same bits, because every
//! float operation is one IEEE operation. A GPU carries the filter's state over chunks by their
//! transfer matrices: it is within -100 dBFS of the CPU, and also gives the same bits for every
//! batch. No value is ever subnormal: levels are at least 2^-100, and a voice ends when its
//! envelope does.
//!
//! Voices on the CPU live in [`Voices`]:
//! ```
//! use melisma_kernels::Isa;
//! use melisma_kernels::signal::voice::{Block, Control, Drum, Envelope, Segment, Source, Voice, Voices};
//!
//! let mut voices = Voices::new(Isa::best(), 16, 1);
//! let quick = Segment { samples: 50, curve: 1.0 };
//! let envelope = Envelope { attack: quick, decay: Segment { samples: 4800, curve: 8.0 }, sustain: 0.0, release: quick };
//! let source = Source::Drum(Drum { increment: 4_000_000, drop: 2.0, rate: 0.001 });
//! voices.start(0, &Voice { source, envelope, gain: [0.5, 0.5] }, 0, Control::default())?;
//! let block = Block { position: 0, len: 480, controls: &[Control::default(); 15] };
//! voices.render(block);
//! assert!(voices.bus(0).left.iter().any(|&sample| sample != 0));
//! # Ok::<(), melisma_kernels::Error>(())
//! ```
//!
//! # Why are voices summed as integers?
//!
//! Integer addition is exact in any order. Voices can be grouped into vectors, cut into blocks,
//! spread over threads or added by atomics, and a mix keeps its bits. A voice's samples are
//! multiples of 2^-24, 155 dB below full scale.

mod bulk;
mod cpu;
pub(crate) mod cuda;
mod group;
mod lanes;
mod level;
mod math;
mod note;
mod player;
#[cfg(test)]
mod reference;
mod sound;
mod step;
#[cfg(test)]
mod tests;
mod voices;

pub use bulk::{Plan, check_gains};
pub use note::{Bulk, Controls, Note};
pub use sound::{Drum, Envelope, Filter, N_PARTIALS, Noise, Partials, Segment, Source, Tone, Voice};
pub use voices::{Block, Bus, Slot, Voices};

/// Samples between evaluations of slow quantities.
pub const TICK: usize = 32;
/// Samples that the CPU processes at a time, a multiple of [`TICK`].
const CHUNK: usize = 128;
/// The integer value of a sample of 1.0.
pub const UNIT: f32 = (1 << 24) as f32;

/// Modulation of all voices together, at the end of a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Control {
    /// Octaves added to every filter's cutoff.
    pub brightness: f32,
    /// Factor of every filter's modulation.
    pub motion: f32,
}

impl Default for Control {
    fn default() -> Self {
        Self { brightness: 0.0, motion: 1.0 }
    }
}
