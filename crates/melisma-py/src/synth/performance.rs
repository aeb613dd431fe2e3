//! A score to samples.

use melisma::audio::Meter;
use melisma::runtime::device::Queue;
use melisma::synth::{BusConfig, Buses, Length, MAX_SECONDS, Performance, Score, Setup, balance};
use melisma::{Device, Error, Kind, Result};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use super::score::PyScore;
use crate::error::raise;
use crate::{place, signal};

/// Voices at once; beyond that, the oldest voice is stolen.
const MAX_VOICES: usize = 1024;

/// The samples [2, samples] of `score`, at a loudness in LUFS unless that is None.
#[pyfunction(name = "_render")]
pub fn render<'py>(
    py: Python<'py>,
    score: &Bound<'py, PyScore>,
    seconds: Option<f64>,
    rate: u32,
    loudness: Option<f64>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let score = &score.get().score;
    let place = place::shared(py, Some("cpu"))?;
    let queue = &place.get()?.queue;
    // Only the CPU's threads help while a score plays.
    let queue = matches!(queue.device(), Device::Cpu(_)).then_some(queue);
    let [mut left, right] = py.detach(|| {
        let length = length(seconds, rate).map_err(raise)?;
        let setup = Setup { bus: BusConfig::new(rate), length, max_voices: MAX_VOICES, buses: Buses::Mix };
        Player { score, queue, raised: None }.play_at(setup, loudness)
    })?;
    let n = left.len();
    py.detach(|| left.try_reserve_exact(n).map(|()| left.extend_from_slice(&right)))
        .map_err(|_| raise(no_memory(2 * n)))?;
    PyArray1::from_vec(py, left).reshape([2, n])
}

fn length(seconds: Option<f64>, rate: u32) -> Result<Length> {
    match seconds {
        None => Ok(Length::Whole),
        Some(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => {
            Ok(Length::Samples((seconds * f64::from(rate)).round().max(1.0) as u64))
        }
        Some(seconds) => Err(Error::invalid(format!("seconds is {seconds}: more than 0 and at most {MAX_SECONDS}"))),
    }
}

struct Player<'a> {
    score: &'a Score,
    queue: Option<&'a Queue>,
    /// What a signal handler raised.
    raised: Option<PyErr>,
}

impl Player<'_> {
    fn play_at(mut self, setup: Setup, loudness: Option<f64>) -> PyResult<[Vec<f32>; 2]> {
        let played = self.level(setup, loudness).and_then(|gain| {
            let mut sides = [Vec::new(), Vec::new()];
            self.play(Setup { bus: BusConfig { level: gain, ..setup.bus }, ..setup }, |left, right| {
                extend(&mut sides[0], left).and_then(|()| extend(&mut sides[1], right))
            })?;
            Ok(sides)
        });
        match self.raised {
            Some(raised) => Err(raised),
            None => played.map_err(raise),
        }
    }

    fn level(&mut self, setup: Setup, loudness: Option<f64>) -> Result<f32> {
        let Some(target) = loudness else { return Ok(1.0) };
        let level = balance(setup, target, |setup| {
            let mut meter = Meter::new(setup.bus.sample_rate);
            self.play(setup, |left, right| {
                meter.push(left, right);
                Ok(())
            })?;
            Ok(meter)
        })?;
        Ok(level.gain)
    }

    fn play(&mut self, setup: Setup, mut take: impl FnMut(&[f32], &[f32]) -> Result<()>) -> Result<()> {
        let mut performance = Performance::new(self.score, setup)?;
        while let Some(block) = performance.next_block(self.queue)? {
            take(block.left, block.right)?;
            if let Err(raised) = signal::check() {
                self.raised = Some(raised);
                return Err(Error::invalid("interrupted"));
            }
        }
        Ok(())
    }
}

fn extend(side: &mut Vec<f32>, samples: &[f32]) -> Result<()> {
    side.try_reserve(samples.len()).map_err(|_| no_memory(side.len()))?;
    side.extend_from_slice(samples);
    Ok(())
}

fn no_memory(n: usize) -> Error {
    Error::new(Kind::Memory, format!("{n} samples do not fit into memory"))
}
