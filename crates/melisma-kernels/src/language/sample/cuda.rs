//! Grid and arguments of `sample.cu`.

use super::{Candidates, Key, ONE, Sample, impossible, not_finite};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::language::cuda::CURVE;
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, arguments};
use crate::{Error, Result, View, ViewMut};

const SOURCE: Source = Source { name: "sample", text: include_str!("sample.cu"), headers: &[DEVICE, CURVE] };

/// Words of a `Draw` of `sample.cu`.
const DRAW_WORDS: usize = 5;
/// Tokens for which another warp is worth it.
const TOKENS_PER_WARP: usize = 128;
const MAX_WARPS: usize = 32;
/// The end of a draw without a fault.
const NONE: u32 = u32::MAX;

/// `Sample` of `sample.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct SampleArgument {
    penalty: f32,
    temperature: f32,
    top_k: u32,
    one: f32,
    least: u32,
    dropped: f64,
}

#[derive(Debug)]
pub(super) struct Prepared {
    sample: SampleArgument,
    function: Function,
}

impl Prepared {
    pub(super) fn new(sample: Sample, cuda: &Cuda) -> Result<Self> {
        let sample = SampleArgument {
            penalty: sample.repetition_penalty,
            temperature: sample.temperature,
            top_k: u32::try_from(sample.top_k).unwrap_or(0),
            one: ONE,
            least: (f64::from(sample.min_p) * f64::from(ONE)).ceil() as u32,
            dropped: if sample.top_p < 1.0 { 1.0 - f64::from(sample.top_p) } else { -1.0 },
        };
        Ok(Self { sample, function: cuda.function(SOURCE, "sample_draw")? })
    }

    pub(super) fn draw(&self, queue: &CudaQueue, draws: &[(Candidates<'_>, Key)]) -> Result<Vec<Result<usize>>> {
        let (drawn, _) = self.run(queue, draws)?;
        let token = |(&[token, bad], (candidates, _)): (&[u32; 2], &(Candidates<'_>, Key))| match (token, bad) {
            (NONE, NONE) => Err(impossible()),
            (token, NONE) => Ok(token as usize),
            (bits, bad) => Err(not_finite(bad as usize, candidates.logits.len(), f32::from_bits(bits))),
        };
        Ok(drawn.as_chunks().0.iter().zip(draws).map(token).collect())
    }

    pub(super) fn weigh_into(&self, queue: &CudaQueue, candidates: Candidates<'_>, weights: &mut [u32]) -> Result<()> {
        let draws = [(candidates, Key::default())];
        let (drawn, weights_dev) = self.run(queue, &draws)?;
        if let [bits, bad] = drawn[..]
            && bad != NONE
        {
            return Err(not_finite(bad as usize, weights.len(), f32::from_bits(bits)));
        }
        let from = CudaView::new(weights_dev, weights.len());
        queue.copy::<u32>(View::Cuda(from), ViewMut::Host(weights))
    }

    /// Returns two words for each draw, and the address of the weights.
    fn run(&self, queue: &CudaQueue, draws: &[(Candidates<'_>, Key)]) -> Result<(Vec<u32>, Address)> {
        let lens = draws.iter().map(|(candidates, _)| candidates.logits.len());
        let (n_tokens, most) = (lens.clone().sum::<usize>(), lens.clone().max().unwrap_or(0));
        if draws.is_empty() || u32::try_from(n_tokens).is_err() {
            return match draws {
                [] => Ok((Vec::new(), 0)),
                _ => Err(Error::invalid(format!("sample: {n_tokens} logits are too many for a GPU"))),
            };
        }
        let n_seen: usize = draws.iter().map(|(candidates, _)| candidates.seen.len()).sum();
        let n_words = DRAW_WORDS * draws.len() + n_seen;
        let [words_dev, weights_dev, results_dev] =
            queue.scratch([n_words * size_of::<u64>(), n_tokens * size_of::<u32>(), draws.len() * 8])?;
        let (mut words, mut seen) = (Vec::with_capacity(n_words), Vec::with_capacity(n_seen));
        let mut n_before = 0;
        for (candidates, key) in draws {
            let n = candidates.logits.len();
            let seen_dev = words_dev + ((DRAW_WORDS * draws.len() + seen.len()) * size_of::<u64>()) as Address;
            let own_dev = weights_dev + (n_before * size_of::<u32>()) as Address;
            words.extend([candidates.logits.cuda()?.address_dev, seen_dev, own_dev, n as u64, key.bits()]);
            seen.extend_from_slice(candidates.seen);
            n_before += n;
        }
        words.extend(seen);
        queue.copy::<u64>(words[..].into(), ViewMut::Cuda(CudaViewMut::new(words_dev, words.len())))?;
        let (n_draws, sample) = (draws.len() as u32, self.sample);
        let n_warps = most.div_ceil(TOKENS_PER_WARP).clamp(1, MAX_WARPS) as u32;
        let launch = Launch { grid: (n_draws.min(1 << 16), 1, 1), block: (32, n_warps, 1), shared_bytes: 0 };
        // SAFETY: each draw has as many logits and bits as it says, and its own part of the weights.
        unsafe { queue.launch(&self.function, launch, arguments![words_dev, results_dev, n_draws, sample])? };
        let mut drawn = vec![0; 2 * draws.len()];
        let results = CudaView::new(results_dev, drawn.len());
        queue.copy::<u32>(View::Cuda(results), drawn[..].as_mut().into())?;
        Ok((drawn, weights_dev))
    }
}
