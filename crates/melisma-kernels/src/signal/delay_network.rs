//! `delay_network`: eight delay lines that feed each other through a Householder reflection, a block of samples at a time.
//!
//! With x the outputs of the lines (one sample of each), each side outputs `loudness` Σ `heard_i`
//! x_i. Each x passes a shelf, low += `share` (x - low), y = `gain` (low + `shelf` (x - low)), and
//! y - 2/8 Σ y + `fed` · input is the new input of the lines. Values smaller than [`TINY`] become 0.
//! A block is shorter than every line, so its outputs are known before it begins.
//!
//! CPU only; the same bits on every instruction set, because each operation is one IEEE operation
//! and sums are trees.

use crate::Isa;
use crate::device::isa::dispatch;

/// The number of delay lines.
pub const N_LINES: usize = 8;
/// -180 dB relative to full scale; smaller values become 0.
pub const TINY: f32 = 1e-9;

/// The most samples processed together.
pub const BLOCK: usize = 32;

/// One value per line.
pub type Lines = [f32; N_LINES];
/// Samples of every line.
pub type Rows = [[f32; BLOCK]; N_LINES];

/// The parameters of the lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayNetwork {
    /// Gain of each line per round trip.
    pub gain: Lines,
    /// Gain of high frequencies relative to low ones.
    pub shelf: Lines,
    /// Coefficient of the shelf's low-pass.
    pub share: f32,
    /// Output gain.
    pub loudness: f32,
    /// Signs of the lines in the left and right output.
    pub heard: [Lines; 2],
    /// Signs of the inputs: left into the even lines, right into the odd lines.
    pub fed: Lines,
}

/// The state of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Levels {
    /// States of the low-passes.
    pub low: Lines,
    /// The largest magnitude that went into each line during the last block.
    pub peak: Lines,
}

impl DelayNetwork {
    /// Replaces the first samples of `rows`, the lines' next outputs, with the lines' new inputs,
    /// and `left` and `right`, which have the same length, with the output.
    ///
    /// # Panics
    /// The sides differ in length or are longer than [`BLOCK`].
    pub fn run(&self, isa: Isa, levels: &mut Levels, rows: &mut Rows, [left, right]: [&mut [f32]; 2]) {
        assert!(
            left.len() == right.len() && left.len() <= BLOCK,
            "delay_network: sides that differ in length or are too long"
        );
        let network = *self;
        dispatch!(
            isa,
            mix(isa: Isa, network: DelayNetwork, levels: &mut Levels, rows: &mut Rows, left: &mut [f32], right: &mut [f32])
        );
    }
}

/// Mixes one block. Everything except the low-passes is vectorised along time. A low-pass needs its
/// previous sample, so these are vectorised across the lines.
#[inline(always)]
fn mix(isa: Isa, network: DelayNetwork, levels: &mut Levels, rows: &mut Rows, left: &mut [f32], right: &mut [f32]) {
    let DelayNetwork { gain, shelf, share, loudness, heard, fed } = network;
    let n = left.len().min(right.len()).min(BLOCK);
    let mut columns = [[0f32; N_LINES]; BLOCK];
    transpose::to_columns(isa, rows, &mut columns);
    let mut low = levels.low;
    for x in &mut columns[..n] {
        for i in 0..N_LINES {
            low[i] = flush(low[i] + share * (x[i] - low[i]));
        }
        *x = low;
    }
    let mut lows = [[0f32; BLOCK]; N_LINES];
    transpose::to_rows(isa, &columns, &mut lows);
    let inputs = [copy(left), copy(right)];
    for (side, signs) in [left, right].into_iter().zip(heard) {
        for (t, out) in side.iter_mut().enumerate() {
            *out = loudness * sum(std::array::from_fn(|i| signs[i] * rows[i][t]));
        }
    }
    for i in 0..N_LINES {
        for t in 0..n {
            let (x, low) = (rows[i][t], lows[i][t]);
            rows[i][t] = gain[i] * (low + shelf[i] * (x - low));
        }
    }
    let mut reflected = [0f32; BLOCK];
    for (t, reflected) in reflected[..n].iter_mut().enumerate() {
        *reflected = 2.0 / N_LINES as f32 * sum(std::array::from_fn(|i| rows[i][t]));
    }
    let mut peak = [0f32; N_LINES];
    for i in 0..N_LINES {
        let mut most = 0;
        for t in 0..n {
            let y = flush(rows[i][t] - reflected[t] + fed[i] * inputs[i % 2][t]);
            rows[i][t] = y;
            // For floats without sign, the order of the bits is the order of the magnitudes.
            most = most.max(y.to_bits() & 0x7fff_ffff);
        }
        peak[i] = f32::from_bits(most);
    }
    *levels = Levels { low, peak };
}

#[inline(always)]
fn copy(side: &[f32]) -> [f32; BLOCK] {
    let mut all = [0.0; BLOCK];
    all[..side.len()].copy_from_slice(side);
    all
}

/// Computes `x`, or 0 if it is tiny.
#[inline(always)]
fn flush(x: f32) -> f32 {
    if x.abs() < TINY { 0.0 } else { x }
}

/// Sums in a tree, so that lanes can add side by side.
#[inline(always)]
fn sum(x: Lines) -> f32 {
    let half: [f32; 4] = std::array::from_fn(|i| x[i] + x[i + 4]);
    (half[0] + half[2]) + (half[1] + half[3])
}

/// Transposes samples of lines to lines of samples, and back.
mod transpose {
    use super::{BLOCK, Lines, N_LINES, Rows};
    use crate::device::isa::{Isa, Level};

    #[inline(always)]
    pub(super) fn to_columns(isa: Isa, rows: &Rows, columns: &mut [Lines; BLOCK]) {
        match isa.level() {
            // SAFETY: an `Isa` exists only on machines that have its features; 8 by 8 squares tile both arrays.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe {
                for t in (0..BLOCK).step_by(8) {
                    x86::square(rows[0].as_ptr().add(t), BLOCK, columns[t].as_mut_ptr(), N_LINES);
                }
            },
            // SAFETY: 4 by 4 squares tile both arrays.
            #[cfg(target_arch = "aarch64")]
            Level::Neon => unsafe {
                for (t, i) in (0..BLOCK).step_by(4).flat_map(|t| [(t, 0), (t, 4)]) {
                    neon::square(rows[i].as_ptr().add(t), BLOCK, columns[t].as_mut_ptr().add(i), N_LINES);
                }
            },
            _ => (0..BLOCK).for_each(|t| (0..N_LINES).for_each(|i| columns[t][i] = rows[i][t])),
        }
    }

    #[inline(always)]
    pub(super) fn to_rows(isa: Isa, columns: &[Lines; BLOCK], rows: &mut Rows) {
        match isa.level() {
            // SAFETY: an `Isa` exists only on machines that have its features, and both arrays hold whole squares of 8 x 8.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe {
                for t in (0..BLOCK).step_by(8) {
                    x86::square(columns[t].as_ptr(), N_LINES, rows[0].as_mut_ptr().add(t), BLOCK);
                }
            },
            // SAFETY: 4 by 4 squares tile both arrays.
            #[cfg(target_arch = "aarch64")]
            Level::Neon => unsafe {
                for (t, i) in (0..BLOCK).step_by(4).flat_map(|t| [(t, 0), (t, 4)]) {
                    neon::square(columns[t].as_ptr().add(i), N_LINES, rows[i].as_mut_ptr().add(t), BLOCK);
                }
            },
            _ => (0..BLOCK).for_each(|t| (0..N_LINES).for_each(|i| rows[i][t] = columns[t][i])),
        }
    }

    #[cfg(target_arch = "aarch64")]
    mod neon {
        use std::arch::aarch64::*;

        /// Transposes 4 by 4 floats; rows are `pitch` apart.
        ///
        /// # Safety
        /// Both pointers have 4 rows of 4 floats at their pitch, and do not overlap.
        #[inline(always)]
        pub(super) unsafe fn square(from: *const f32, pitch: usize, to: *mut f32, to_pitch: usize) {
            // SAFETY: the caller's promise; every 64-bit Arm machine has NEON.
            unsafe {
                let [a, b, c, d] = [0, 1, 2, 3].map(|row| vld1q_f32(from.add(row * pitch)));
                // Columns 0 and 2 of two rows, then columns 1 and 3.
                let pairs = |a, b| [vtrn1q_f32(a, b), vtrn2q_f32(a, b)].map(|pair| vreinterpretq_f64_f32(pair));
                let ([even_ab, odd_ab], [even_cd, odd_cd]) = (pairs(a, b), pairs(c, d));
                let low = [vtrn1q_f64(even_ab, even_cd), vtrn1q_f64(odd_ab, odd_cd)];
                let high = [vtrn2q_f64(even_ab, even_cd), vtrn2q_f64(odd_ab, odd_cd)];
                for (row, column) in low.into_iter().chain(high).enumerate() {
                    vst1q_f32(to.add(row * to_pitch), vreinterpretq_f32_f64(column));
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    mod x86 {
        use std::arch::x86_64::*;

        /// Transposes 8 by 8 floats; rows are `pitch` apart.
        ///
        /// # Safety
        /// Both pointers have 8 rows of 8 floats at their pitch, and do not overlap.
        #[inline]
        #[target_feature(enable = "avx2,fma,f16c")]
        pub(super) unsafe fn square(from: *const f32, pitch: usize, to: *mut f32, to_pitch: usize) {
            let mut r = [_mm256_setzero_ps(); 8];
            for (i, row) in r.iter_mut().enumerate() {
                // SAFETY: the caller's promise, here and below.
                *row = unsafe { _mm256_loadu_ps(from.add(i * pitch)) };
            }
            let mut pairs = r;
            for i in 0..4 {
                pairs[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                pairs[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            let mut fours = pairs;
            for i in [0, 4] {
                fours[i] = _mm256_shuffle_ps::<0x44>(pairs[i], pairs[i + 2]);
                fours[i + 1] = _mm256_shuffle_ps::<0xee>(pairs[i], pairs[i + 2]);
                fours[i + 2] = _mm256_shuffle_ps::<0x44>(pairs[i + 1], pairs[i + 3]);
                fours[i + 3] = _mm256_shuffle_ps::<0xee>(pairs[i + 1], pairs[i + 3]);
            }
            for i in 0..4 {
                let low = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
                let high = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
                // SAFETY: the caller promises eight rows of eight floats, `to_pitch` apart.
                unsafe {
                    _mm256_storeu_ps(to.add(i * to_pitch), low);
                    _mm256_storeu_ps(to.add((i + 4) * to_pitch), high);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn network(random: &mut SplitMix64) -> DelayNetwork {
        let mut sign = || if random.signed() < 0.0 { -1.0 } else { 1.0 };
        let heard = [std::array::from_fn(|_| sign()), std::array::from_fn(|_| sign())];
        let fed = std::array::from_fn(|_| sign());
        let gain = std::array::from_fn(|_| 0.9 + 0.09 * random.signed());
        let shelf = std::array::from_fn(|_| 0.5 + 0.4 * random.signed());
        DelayNetwork { gain, shelf, share: 0.4, loudness: 0.3, heard, fed }
    }

    /// Returns the contract in f64, one sample.
    fn reference(
        network: &DelayNetwork,
        low: &mut [f64; N_LINES],
        x: Lines,
        input: [f32; 2],
    ) -> ([f64; 2], [f64; N_LINES]) {
        let x = x.map(f64::from);
        let heard = network.heard.map(|signs| {
            let sum: f64 = signs.iter().zip(x).map(|(&sign, x)| f64::from(sign) * x).sum();
            f64::from(network.loudness) * sum
        });
        let y: [f64; N_LINES] = std::array::from_fn(|i| {
            low[i] += f64::from(network.share) * (x[i] - low[i]);
            f64::from(network.gain[i]) * (low[i] + f64::from(network.shelf[i]) * (x[i] - low[i]))
        });
        let reflected = y.iter().sum::<f64>() / 4.0;
        let written = |i: usize| y[i] - reflected + f64::from(network.fed[i]) * f64::from(input[i % 2]);
        (heard, std::array::from_fn(written))
    }

    #[test]
    fn blocks_match_the_reference_with_the_same_bits_everywhere() {
        let mut random = SplitMix64::new(1);
        let network = network(&mut random);
        for len in [0, 1, 7, 31, 32] {
            let rows: Rows = std::array::from_fn(|_| std::array::from_fn(|_| random.signed()));
            let sides = [random.floats(len), random.floats(len)];
            let mut results = Vec::new();
            for isa in Isa::available() {
                let (mut levels, mut written) = (Levels::default(), rows);
                let [mut left, mut right] = sides.clone();
                network.run(isa, &mut levels, &mut written, [&mut left, &mut right]);
                results.push((levels, written, left, right));
            }
            assert!(results.iter().all(|result| *result == results[0]), "{len} samples");
            let mut low = [0.0; N_LINES];
            for at in 0..len {
                let (heard, written) =
                    reference(&network, &mut low, rows.map(|row| row[at]), [sides[0][at], sides[1][at]]);
                let (_, found, left, right) = &results[0];
                assert!(
                    (f64::from(left[at]) - heard[0]).abs() < 1e-5 && (f64::from(right[at]) - heard[1]).abs() < 1e-5
                );
                assert!(found.iter().zip(written).all(|(row, written)| (f64::from(row[at]) - written).abs() < 1e-5));
            }
        }
    }

    #[test]
    fn next_to_nothing_becomes_nothing() {
        let network = network(&mut SplitMix64::new(2));
        let (mut levels, mut rows) = (Levels::default(), [[1e-10; BLOCK]; N_LINES]);
        network.run(Isa::best(), &mut levels, &mut rows, [&mut [0.0; BLOCK], &mut [0.0; BLOCK]]);
        assert_eq!((levels, rows), (Levels::default(), [[0.0; BLOCK]; N_LINES]));
    }

    #[test]
    fn the_peak_is_that_of_every_sample() {
        let network = network(&mut SplitMix64::new(3));
        for (isa, at) in Isa::available().flat_map(|isa| [0, 5, 6].map(|at| (isa, at))) {
            let (mut levels, mut rows) = (Levels::default(), [[0.0; BLOCK]; N_LINES]);
            let (mut left, mut right) = ([0.0; 7], [0.0; 7]);
            (left[at], right[at]) = (0.5, -0.25);
            network.run(isa, &mut levels, &mut rows, [&mut left, &mut right]);
            assert_eq!(levels.peak, [0.5, 0.25, 0.5, 0.25, 0.5, 0.25, 0.5, 0.25], "sample {at}");
        }
    }
}
