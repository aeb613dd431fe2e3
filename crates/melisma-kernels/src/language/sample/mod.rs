//! `sample`: draws the next token from logits `[N]`.
//!
//! In the order of `transformers`: a logit of a token that was seen is divided by the repetition
//! penalty if it is positive and multiplied otherwise; all are divided by the temperature; the
//! largest K stay (with everything equal to the last of them); of these, top-p drops the least
//! likely tokens whose probabilities together are at most 1 - p, equal ones together; min-p drops
//! those below its share of the largest. The token is drawn from what stays. Temperature 0 takes
//! the largest logit after the penalty, the first of equal ones.
//!
//! Once the logits are fixed, everything is integers: the weight of a token is e^(l - max) in units
//! of 2^-31, rounded. So no order of summation matters, and equal logits draw equal tokens on every
//! device. The random bits are a function of (seed, sentence, position).
//!
//! Logits (0, 1, 2), temperature 0: token 2. With a penalty of 3 and token 2 seen: token 1.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::random::SplitMix64;
use crate::{Device, Error, Queue, Result, View};

/// The weight of the largest logit.
const ONE: f32 = (1u32 << 31) as f32;

/// How tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Above 1 makes tokens that were seen less likely; 1 is off.
    pub repetition_penalty: f32,
    /// Above 1 evens the probabilities out; 0 takes the most likely token.
    pub temperature: f32,
    /// The number of most likely tokens to draw from; 0 for all.
    pub top_k: usize,
    /// The share of probability to draw from, most likely tokens first; 1 for all.
    pub top_p: f32,
    /// The least probability relative to that of the most likely token; 0 for none.
    pub min_p: f32,
}

/// What makes a draw random: equal keys draw equal tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Key {
    /// The seed of the caller.
    pub seed: u64,
    /// The number of the sentence.
    pub sentence: u64,
    /// The number of the token in the sentence.
    pub position: u64,
}

impl Key {
    /// Returns 64 random bits.
    fn bits(self) -> u64 {
        let sentence = SplitMix64::new(self.seed).bits() ^ self.sentence;
        let position = SplitMix64::new(sentence).bits() ^ self.position;
        SplitMix64::new(position).bits()
    }
}

/// Tokens to draw from.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// `[N]`
    pub logits: View<'a, f32>,
    /// Bit i mod 64 of word i div 64 says that token i was seen.
    pub seen: &'a [u64],
}

/// A way of drawing prepared for one device.
#[derive(Debug)]
pub struct Plan {
    on: OnDevice<cpu::Prepared, cuda::Prepared>,
}

impl Sample {
    /// Prepares it on `device`.
    ///
    /// # Errors
    /// A number is outside of its range, or the device cannot compile the kernel.
    pub fn plan(&self, device: &Device) -> Result<Plan> {
        for (name, value, is_possible) in [
            ("repetition penalty", self.repetition_penalty, self.repetition_penalty > 0.0),
            ("temperature", self.temperature, self.temperature >= 0.0),
            ("top-p", self.top_p, (0.0..=1.0).contains(&self.top_p)),
            ("min-p", self.min_p, (0.0..=1.0).contains(&self.min_p)),
        ] {
            if !is_possible || !value.is_finite() {
                return Err(Error::invalid(format!("a {name} of {value} is not possible")));
            }
        }
        let on = OnDevice::new(
            device,
            |cpu| Ok(cpu::Prepared::new(*self, cpu.isa)),
            |cuda| cuda::Prepared::new(*self, cuda),
        )?;
        Ok(Plan { on })
    }
}

impl Plan {
    /// Draws a token for each of `draws`: a number below its N. A draw fails alone if a logit is not finite.
    ///
    /// # Errors
    /// A draw has no logits, views do not match, or the device fails.
    pub fn run(&self, queue: &Queue, draws: &[(Candidates<'_>, Key)]) -> Result<Vec<Result<usize>>> {
        let mut n_all = 0;
        for (candidates, _) in draws {
            n_all += check(*candidates)?;
        }
        let _span = kernel_span!(queue, "sample", [draws.len(), n_all], 4 * n_all);
        match self.on.with(queue, "sample")? {
            Pair::Cpu(prepared, queue) => {
                let draw = |(candidates, key): &(Candidates<'_>, Key)| {
                    Ok(prepared.draw(queue, candidates.logits.host()?, candidates.seen, key.bits()))
                };
                draws.iter().map(draw).collect()
            }
            Pair::Cuda(prepared, queue) => prepared.draw(queue, draws),
        }
    }

    /// Writes the weight of each token to `weights` (N): its probability is its share of their sum.
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub fn weigh(&self, queue: &Queue, candidates: Candidates<'_>, weights: &mut [u32]) -> Result<()> {
        check_len("sample: weights", weights.len(), check(candidates)?)?;
        match self.on.with(queue, "sample")? {
            Pair::Cpu(prepared, queue) => {
                prepared.weigh_into(queue, candidates.logits.host()?, candidates.seen, weights)
            }
            Pair::Cuda(prepared, queue) => prepared.weigh_into(queue, candidates, weights),
        }
    }
}

fn check(candidates: Candidates<'_>) -> Result<usize> {
    let n = candidates.logits.len();
    if n == 0 {
        return Err(Error::invalid("sample: no token to draw from"));
    }
    check_len("sample: seen", candidates.seen.len(), n.div_ceil(64))?;
    Ok(n)
}

/// Returns the error of a logit after the penalty.
fn not_finite(at: usize, n: usize, score: f32) -> Error {
    Error::corrupt(format!("logit {at} of {n} is {score}"))
        .with_hint("the weights of the model are damaged, or its numbers overflow")
}

fn impossible() -> Error {
    Error::invalid("sample: no token has a probability")
}
