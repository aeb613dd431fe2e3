//! `feedback`: eight delay lines that feed each other through a Householder reflection, a block of samples at a time.
//!
//! Of the lines' outputs x (one sample of each) is heard `loudness` Σ `heard_i` x_i on either side. Each passes a shelf,
//! low += `share` (x - low), y = `gain` (low + `shelf` (x - low)), and y - 2/8 Σ y + `fed` · input goes into the lines again. What is smaller
//! than [`TINY`] becomes 0. A block is shorter than every line, so its outputs are known before it begins.
//!
//! CPU only; the same bits on every instruction set, because each operation is one IEEE operation and sums are trees.

use crate::Isa;
use crate::isa::dispatch;

/// Delay lines.
pub const N_LINES: usize = 8;
/// -180 dB of full scale: next to nothing.
pub const TINY: f32 = 1e-9;

/// A figure of every line.
pub type Lines = [f32; N_LINES];

/// What the lines are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feedback {
    /// Of each line for every round.
    pub gain: Lines,
    /// Of high frequencies relative to low ones.
    pub shelf: Lines,
    /// Of the shelf's low-pass.
    pub share: f32,
    /// Of what is heard.
    pub loudness: f32,
    /// Signs with which lines are heard on the left and on the right.
    pub heard: [Lines; 2],
    /// Signs with which the left (even lines) and the right (odd lines) go in.
    pub fed: Lines,
}

/// What lines come to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Levels {
    /// States of the low-passes.
    pub low: Lines,
    /// The largest size that went into each line during the last block.
    pub peak: Lines,
}

impl Feedback {
    /// Replaces `held`, the lines' next outputs, by what goes into them, and `left` and `right` by what is heard.
    ///
    /// # Panics
    /// The three differ in length.
    pub fn run(&self, isa: Isa, levels: &mut Levels, held: &mut [Lines], [left, right]: [&mut [f32]; 2]) {
        assert!(held.len() == left.len() && held.len() == right.len(), "feedback: sides and lines differ in length");
        let feedback = *self;
        dispatch!(
            isa,
            mix(feedback: Feedback, levels: &mut Levels, held: &mut [Lines], left: &mut [f32], right: &mut [f32])
        );
    }
}

#[inline(always)]
fn mix(feedback: Feedback, levels: &mut Levels, held: &mut [Lines], left: &mut [f32], right: &mut [f32]) {
    let Feedback { gain, shelf, share, loudness, heard, fed } = feedback;
    let mut low = levels.low;
    let mut peak = [0f32; N_LINES];
    for ((left, right), lines) in left.iter_mut().zip(right).zip(held) {
        let input = [*left, *right];
        let x = *lines;
        let parts = |signs: Lines| -> Lines { std::array::from_fn(|i| signs[i] * x[i]) };
        (*left, *right) = (loudness * sum(parts(heard[0])), loudness * sum(parts(heard[1])));
        let mut y = [0f32; N_LINES];
        for i in 0..N_LINES {
            low[i] = flush(low[i] + share * (x[i] - low[i]));
            y[i] = gain[i] * (low[i] + shelf[i] * (x[i] - low[i]));
        }
        let reflected = 2.0 / N_LINES as f32 * sum(y);
        for i in 0..N_LINES {
            y[i] = flush(y[i] - reflected + fed[i] * input[i % 2]);
            peak[i] = peak[i].max(y[i].abs());
        }
        *lines = y;
    }
    *levels = Levels { low, peak };
}

/// `x`, or nothing where it is next to nothing.
#[inline(always)]
fn flush(x: f32) -> f32 {
    if x.abs() < TINY { 0.0 } else { x }
}

/// In a tree, so that lanes can add side by side.
#[inline(always)]
fn sum(x: Lines) -> f32 {
    let half: [f32; 4] = std::array::from_fn(|i| x[i] + x[i + 4]);
    (half[0] + half[2]) + (half[1] + half[3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Random;

    fn feedback(random: &mut Random) -> Feedback {
        let mut sign = || if random.signed() < 0.0 { -1.0 } else { 1.0 };
        let heard = [std::array::from_fn(|_| sign()), std::array::from_fn(|_| sign())];
        let fed = std::array::from_fn(|_| sign());
        let gain = std::array::from_fn(|_| 0.9 + 0.09 * random.signed());
        let shelf = std::array::from_fn(|_| 0.5 + 0.4 * random.signed());
        Feedback { gain, shelf, share: 0.4, loudness: 0.3, heard, fed }
    }

    /// The contract in f64, one sample.
    fn reference(
        feedback: &Feedback,
        low: &mut [f64; N_LINES],
        x: Lines,
        input: [f32; 2],
    ) -> ([f64; 2], [f64; N_LINES]) {
        let x = x.map(f64::from);
        let heard = feedback.heard.map(|signs| {
            let sum: f64 = signs.iter().zip(x).map(|(&sign, x)| f64::from(sign) * x).sum();
            f64::from(feedback.loudness) * sum
        });
        let y: [f64; N_LINES] = std::array::from_fn(|i| {
            low[i] += f64::from(feedback.share) * (x[i] - low[i]);
            f64::from(feedback.gain[i]) * (low[i] + f64::from(feedback.shelf[i]) * (x[i] - low[i]))
        });
        let reflected = y.iter().sum::<f64>() / 4.0;
        let written = |i: usize| y[i] - reflected + f64::from(feedback.fed[i]) * f64::from(input[i % 2]);
        (heard, std::array::from_fn(written))
    }

    #[test]
    fn blocks_match_the_reference_with_the_same_bits_everywhere() {
        let mut random = Random(1);
        let feedback = feedback(&mut random);
        for len in [0, 1, 31, 32, 33] {
            let held: Vec<Lines> = (0..len).map(|_| std::array::from_fn(|_| random.signed())).collect();
            let side: Vec<f32> = (0..len).map(|_| random.signed()).collect();
            let mut results = Vec::new();
            for isa in Isa::available() {
                let (mut levels, mut held) = (Levels::default(), held.clone());
                let (mut left, mut right) = (side.clone(), side.clone());
                feedback.run(isa, &mut levels, &mut held, [&mut left, &mut right]);
                results.push((levels, held, left, right));
            }
            assert!(results.iter().all(|result| *result == results[0]), "{len} samples");
            let mut low = [0.0; N_LINES];
            for (at, &x) in held.iter().enumerate() {
                let (heard, written) = reference(&feedback, &mut low, x, [side[at]; 2]);
                let (_, found, left, right) = &results[0];
                assert!(
                    (f64::from(left[at]) - heard[0]).abs() < 1e-5 && (f64::from(right[at]) - heard[1]).abs() < 1e-5
                );
                assert!(
                    found[at].iter().zip(written).all(|(&found, written)| (f64::from(found) - written).abs() < 1e-5)
                );
            }
        }
    }

    #[test]
    fn next_to_nothing_becomes_nothing() {
        let feedback = feedback(&mut Random(2));
        let (mut levels, mut held) = (Levels::default(), [[1e-10; N_LINES]; 4]);
        feedback.run(Isa::best(), &mut levels, &mut held, [&mut [0.0; 4], &mut [0.0; 4]]);
        assert_eq!((levels, held), (Levels::default(), [[0.0; N_LINES]; 4]));
    }
}
