//! Which device renders a piece sooner, by measurements on this machine.

use std::time::{Duration, Instant};

use melisma_kernels::Device;

use super::bulk::{BulkConfig, BulkRenderer};
use super::phrase::{Chord, Phrase};
use crate::config::Threads;
use crate::runtime::device::{self, DeviceRequest};
use crate::runtime::memory::Budget;
use crate::text::duration;
use crate::{Error, ErrorKind, Result};

/// Where the CPU takes less than this, no GPU is looked for.
const START_SECONDS: f64 = 0.5;

/// What rendering costs on a device, copies included.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Cost {
    /// Seconds for any batch.
    pub fixed: f64,
    /// Seconds for every second of a voice.
    pub per_voice_second: f64,
}

impl Cost {
    /// Creates a cost of `fixed` seconds for any batch, and `per_voice_second` for every second of
    /// a voice.
    pub fn new(fixed: f64, per_voice_second: f64) -> Self {
        Self { fixed, per_voice_second }
    }

    /// Measures a small and a larger batch on `device`.
    ///
    /// # Errors
    /// The device fails.
    pub fn measure(device: &Device, budget: &Budget) -> Result<Self> {
        const SECONDS: f64 = 0.25;
        let time = |n_mixes: usize| -> Result<f64> {
            let mut renderer =
                BulkRenderer::new(device, budget, BulkConfig { n_mixes, seconds: SECONDS, sample_rate: 48_000 })?;
            let keys = vec![48, 55, 60, 64];
            let chord = Chord { onset: 0.0, duration: SECONDS, keys, velocity: 0.5 };
            let phrases = vec![Phrase { seconds: SECONDS, chords: vec![chord], ..Phrase::default() }; n_mixes];
            renderer.render(&phrases)?;
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let begin = Instant::now();
                renderer.render(&phrases)?;
                best = best.min(begin.elapsed().as_secs_f64());
            }
            Ok(best)
        };
        let (small, large) = (time(1)?, time(65)?);
        let per_voice_second = (large - small).max(1e-9) / (64.0 * 4.0 * SECONDS);
        Ok(Self { fixed: (small - per_voice_second * 4.0 * SECONDS).max(0.0), per_voice_second })
    }

    /// Returns the seconds for a batch of `voice_seconds`.
    pub fn of(self, voice_seconds: f64) -> f64 {
        self.fixed + self.per_voice_second * voice_seconds
    }
}

/// A device, and why it was chosen.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceChoice {
    /// The device.
    pub device: Device,
    /// Why it was chosen.
    pub reason: String,
}

/// Returns the device for `voice_seconds` of voices. An explicit device is never replaced; `auto` takes the one that
/// is expected to finish first, by a measurement within `budget`. An error in `voice_seconds` says why a GPU cannot
/// play the piece.
///
/// # Errors
/// The device that was asked for cannot be used, or not for this.
pub fn choose_device(
    request: DeviceRequest,
    threads: Threads,
    budget: &Budget,
    voice_seconds: Result<f64>,
) -> Result<DeviceChoice> {
    let named = |device| DeviceChoice { device, reason: "asked for".to_owned() };
    match request {
        DeviceRequest::Cpu => Ok(named(device::select(request, threads)?)),
        DeviceRequest::Cuda(_) => {
            let device = device::select(request, threads)?;
            voice_seconds.map_err(|error| error.at(request))?;
            Ok(named(device))
        }
        DeviceRequest::Auto => {
            let cpu = device::select(DeviceRequest::Cpu, threads)?;
            let (is_gpu, reason) = match voice_seconds {
                Ok(work) => compare(&cpu, budget, work)?,
                Err(error) => (None, error.to_string()),
            };
            Ok(DeviceChoice { device: is_gpu.unwrap_or(cpu), reason })
        }
    }
}

/// Returns the GPU, if it finishes before the CPU, and the reason.
fn compare(cpu: &Device, budget: &Budget, work: f64) -> Result<(Option<Device>, String)> {
    let show = |seconds: f64| duration::show(Duration::from_secs_f64(seconds));
    let on_cpu = match Cost::measure(cpu, budget) {
        Err(error) if error.kind() == ErrorKind::Memory => {
            return Ok((None, "the memory limit leaves no room to measure".to_owned()));
        }
        cost => cost?.of(work),
    };
    if on_cpu < START_SECONDS {
        return Ok((None, format!("{} of work, short enough for the CPU", show(on_cpu))));
    }
    let gpu = match Device::cuda(0) {
        Ok(gpu) => gpu,
        Err(error) => return Ok((None, format!("no GPU: {}", first_line(&error)))),
    };
    let on_gpu = match Cost::measure(&gpu, budget) {
        Ok(cost) => cost.of(work),
        Err(error) => return Ok((None, format!("{gpu}: {}", first_line(&error)))),
    };
    let reason = format!("{} of work on the CPU, {} on {gpu}", show(on_cpu), show(on_gpu));
    Ok((Some(gpu).filter(|_| on_gpu < on_cpu), reason))
}

fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_stays_and_long_work_looks_for_a_gpu() {
        let take =
            |request, work: Result<f64>| choose_device(request, Threads::Count(1), &Budget::unlimited(), work).unwrap();
        let short = take(DeviceRequest::Auto, Ok(1.0));
        assert!(matches!(short.device, Device::Cpu(_)) && short.reason.ends_with("for the CPU"), "{}", short.reason);
        let long = take(DeviceRequest::Auto, Ok(1e9));
        assert!(long.reason.contains("GPU") || long.reason.contains("cuda"), "{}", long.reason);
        let bends = || Err(Error::unsupported("bends: played on the CPU only"));
        let kept = take(DeviceRequest::Auto, bends());
        assert!(matches!(kept.device, Device::Cpu(_)) && kept.reason.starts_with("bends"));
        assert_eq!(take(DeviceRequest::Cpu, bends()).reason, "asked for");
    }

    #[test]
    fn measuring_stays_within_the_memory_limit() {
        let small = Budget::new(1 << 20, 1 << 20);
        let choice = choose_device(DeviceRequest::Auto, Threads::Count(1), &small, Ok(1e9)).unwrap();
        assert!(matches!(choice.device, Device::Cpu(_)) && choice.reason.contains("memory limit"), "{}", choice.reason);
    }
}
