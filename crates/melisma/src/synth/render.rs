//! A whole score to a clip in one call.

use std::sync::Arc;

use melisma_kernels::Device;

use super::performance::{Performance, Setup};
use super::recording::record;
use super::score::Score;
use crate::audio::Clip;
use crate::{Context, Error, Result};

/// The samples of `score`, left and right, on the CPU. [`Performance`] gives them block by block.
///
/// ```
/// use melisma::synth::{BusConfig, STYLES, Setup, compose, render};
///
/// let clip = render(&compose(&STYLES[0], 7, 2.0)?, Setup::new(BusConfig::new(48_000)))?;
/// assert_eq!(clip.n_channels, 2);
/// # Ok::<(), melisma::Error>(())
/// ```
///
/// # Errors
/// As [`Performance::new`].
pub fn render(score: &Score, setup: Setup) -> Result<Clip> {
    render_in(&Context::cpu()?, score, setup)
}

/// The samples of `score` on the device of `context`.
///
/// # Errors
/// As [`Performance::new`]; on a GPU also as [`record`].
pub fn render_in(context: &Context, score: &Score, setup: Setup) -> Result<Clip> {
    let sample_rate = setup.bus.sample_rate;
    let (mut performance, queue) = match context.device() {
        Device::Cpu(_) => (Performance::new(score, setup)?, Some(context.queue())),
        device @ Device::Cuda(_) => {
            let recording = record(device, context.budget(), sample_rate, &[setup.take(score)])?.pop();
            let recording = recording.ok_or_else(|| Error::invalid("the score has no recording"))?;
            (Performance::recorded(score, setup, Arc::new(recording))?, None)
        }
    };
    let mut samples = Vec::new();
    while let Some(block) = performance.next_block(queue)? {
        samples.extend(block.left.iter().zip(block.right).flat_map(|(&left, &right)| [left, right]));
    }
    Ok(Clip { sample_rate, n_channels: 2, samples })
}
