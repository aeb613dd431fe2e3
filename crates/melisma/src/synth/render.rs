//! A whole score to a clip in one call.

use std::sync::Arc;

use melisma_kernels::{Device, Space};

use super::performance::Performance;
use super::recording::record;
use super::score::Score;
use super::setup::Setup;
use crate::audio::Clip;
use crate::{Context, Error, ErrorKind, Result};

/// Returns the samples of `score`, left and right, on the CPU. [`Performance`] gives them block by
/// block.
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
/// As [`Performance::new`]; `Memory` if the clip does not fit.
pub fn render(score: &Score, setup: Setup) -> Result<Clip> {
    render_in(&Context::cpu()?, score, setup)
}

/// Returns the samples of `score` on the device of `context`.
///
/// # Errors
/// As [`Performance::new`]; `Memory` if the clip does not fit; on a GPU also as [`record`].
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
    let n_samples = performance.expected_samples().saturating_mul(2);
    let _room = context.budget().reserve(Space::Host, n_samples.saturating_mul(size_of::<f32>() as u64))?;
    let mut samples = Vec::new();
    samples.try_reserve_exact(usize::try_from(n_samples).unwrap_or(usize::MAX)).map_err(|_| {
        Error::new(ErrorKind::Memory, format!("{n_samples} samples do not fit into memory"))
            .with_hint("give a shorter length, or play it block by block")
    })?;
    while let Some(block) = performance.next_block(queue)? {
        samples.extend(block.left.iter().zip(block.right).flat_map(|(&left, &right)| [left, right]));
    }
    Ok(Clip { sample_rate, n_channels: 2, samples })
}

#[cfg(test)]
mod tests {
    use super::super::{BusConfig, Length};
    use super::*;
    use crate::config::DeviceRequest;

    #[test]
    fn clips_beyond_the_memory_are_refused_before_they_are_rendered() {
        let setup = |n| Setup::new(BusConfig::new(48_000)).with_length(Length::Samples(n));
        let score = Score::default();
        assert_eq!(render(&score, setup(u64::MAX)).unwrap_err().kind(), ErrorKind::Memory);
        let small = Context::builder().with_device(DeviceRequest::Cpu).with_memory_limit(1 << 20).build().unwrap();
        assert_eq!(render_in(&small, &score, setup(1 << 18)).unwrap_err().kind(), ErrorKind::Memory);
        assert_eq!(render_in(&small, &score, setup(1 << 10)).unwrap().n_frames(), 1 << 10);
        let loud = Setup::new(BusConfig::new(48_000).with_level(f32::NAN));
        assert_eq!(render(&score, loud).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
