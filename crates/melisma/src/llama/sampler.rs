//! Draws tokens, with a penalty on those of the recent past.

use std::ops::Range;

use melisma_kernels::language::sample::{Candidates, Key, Plan, Sample};

use crate::{Context, Error, Queue, Result, View};

/// Draws the tokens of sequences.
#[derive(Debug)]
pub struct Sampler {
    plan: Plan,
    queue: Queue,
    /// Tokens of the past that the penalty looks at.
    window: usize,
    /// One bit for each candidate of each draw.
    seen: Vec<u64>,
}

/// What a token is drawn from.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The logits of the tokens `wanted`, in the memory of the sampler's device.
    pub logits: View<'a, f32>,
    /// The tokens that can be drawn, in this order.
    pub wanted: &'a [Range<u32>],
    /// The tokens before: prompt and output together.
    pub past: &'a [u32],
    /// What makes the draw random.
    pub key: Key,
}

impl Sampler {
    /// Returns a sampler whose repetition penalty looks at the last `window` tokens of a sequence; `usize::MAX` for
    /// all.
    ///
    /// # Errors
    /// A setting is outside of its range.
    pub fn new_in(context: &Context, sample: Sample, window: usize) -> Result<Self> {
        Ok(Self { plan: sample.plan(context.device())?, queue: context.queue().clone(), window, seen: Vec::new() })
    }

    /// Draws a token from each of `choices`; a choice with a logit that is NaN or infinite fails alone.
    ///
    /// # Errors
    /// The logits are of another number of tokens, or the device failed.
    pub fn draw(&mut self, choices: &[Choice<'_>]) -> Result<Vec<Result<u32>>> {
        self.mark(choices)?;
        let mut seen = &self.seen[..];
        let draws: Vec<_> = choices
            .iter()
            .map(|choice| {
                let (own, rest) = seen.split_at(choice.logits.len().div_ceil(64));
                seen = rest;
                (Candidates { logits: choice.logits, seen: own }, choice.key)
            })
            .collect();
        let drawn = self.plan.run(&self.queue, &draws)?;
        Ok(drawn.into_iter().zip(choices).map(|(index, choice)| choice.token(index?)).collect())
    }

    /// Returns an integer for each of `wanted` that is proportional to its probability.
    ///
    /// # Errors
    /// As [`Sampler::draw`], or a logit is NaN or infinite.
    pub fn weigh(&mut self, choice: Choice<'_>) -> Result<Vec<u32>> {
        self.mark(&[choice])?;
        let mut weights = vec![0; choice.logits.len()];
        let candidates = Candidates { logits: choice.logits, seen: &self.seen };
        self.plan.weigh(&self.queue, candidates, &mut weights)?;
        Ok(weights)
    }

    /// Marks the candidates that are among the recent tokens.
    fn mark(&mut self, choices: &[Choice<'_>]) -> Result<()> {
        self.seen.clear();
        for Choice { logits, wanted, past, .. } in choices {
            let (n, n_wanted) = (logits.len(), wanted.iter().map(ExactSizeIterator::len).sum::<usize>());
            if n != n_wanted {
                return Err(Error::invalid(format!("{n} logits for {n_wanted} tokens")));
            }
            let start = self.seen.len();
            self.seen.resize(start + n.div_ceil(64), 0);
            let seen = &mut self.seen[start..];
            for token in &past[past.len().saturating_sub(self.window)..] {
                let mut first = 0;
                for range in *wanted {
                    if range.contains(token) {
                        let index = first + (token - range.start) as usize;
                        seen[index / 64] |= 1 << (index % 64);
                    }
                    first += range.len();
                }
            }
        }
        Ok(())
    }
}

impl Choice<'_> {
    /// Returns the token of a candidate.
    fn token(&self, mut index: usize) -> Result<u32> {
        for range in self.wanted {
            if index < range.len() {
                return Ok(range.start + index as u32);
            }
            index -= range.len();
        }
        Err(Error::invalid(format!("candidate {index} is beyond the tokens that were wanted")))
    }
}
