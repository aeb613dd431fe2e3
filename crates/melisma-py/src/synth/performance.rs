//! A score to samples.

use std::sync::Arc;

use melisma::audio::Meter;
use melisma::config::DeviceRequest;
use melisma::runtime::device::{Device, Queue};
use melisma::runtime::memory;
use melisma::synth::{
    self, BusConfig, Length, MAX_SECONDS, Performance, Recording, Score, Setup, balance, choose_device,
};
use melisma::{Error, ErrorKind, Result};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use super::score::PyScore;
use crate::audio::fill;
use crate::error::raise;
use crate::exec_context::{self, ExecContext};
use crate::out;
use crate::signal::Watch;

/// How a score is rendered.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RenderArgs {
    /// Until everything is silent if this is None.
    seconds: Option<f64>,
    rate: u32,
    /// In LUFS; None leaves the level.
    loudness: Option<f64>,
    /// Where the voices are rendered.
    device: String,
}

/// The samples [2, samples] of `score`, into `out` if the length is known and it is given.
#[pyfunction(name = "_render")]
pub fn render<'py>(
    py: Python<'py>,
    score: &Bound<'py, PyScore>,
    args: RenderArgs,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let score = &score.get().score;
    let exec = exec_context::shared(py, Some("cpu"))?;
    let exec = exec.get()?;
    let setup = args.setup().map_err(raise)?;
    if let Length::Samples(n) = setup.length {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let array = out::target::<f32, _>(py, out, [2, n])?;
        let mut target = out::writable(&array)?;
        let (mut left, mut right) = target.as_slice_mut()?.split_at_mut(n);
        py.detach(|| {
            Player::new(&args, score, exec)?
                .play_at(setup, args.loudness, |now| fill(&mut left, now[0]).and_then(|()| fill(&mut right, now[1])))
        })?;
        left.fill(0.0);
        right.fill(0.0);
        drop(target);
        return Ok(array);
    }
    let [mut left, right] = py.detach(|| {
        let mut sides = [Vec::new(), Vec::new()];
        Player::new(&args, score, exec)?.play_at(setup, args.loudness, |now| {
            sides.iter_mut().zip(now).try_for_each(|(side, samples)| extend(side, samples))
        })?;
        Ok::<_, PyErr>(sides)
    })?;
    let n = left.len();
    py.detach(|| extend(&mut left, &right)).map_err(raise)?;
    PyArray1::from_vec(py, left).reshape([2, n])
}

impl RenderArgs {
    fn setup(&self) -> Result<Setup> {
        let length = match self.seconds {
            None => Length::Whole,
            Some(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => {
                Length::Samples((seconds * f64::from(self.rate)).round().max(1.0) as u64)
            }
            Some(seconds) => {
                return Err(Error::invalid(format!("seconds is {seconds}: more than 0 and at most {MAX_SECONDS}")));
            }
        };
        Ok(Setup::new(BusConfig::new(self.rate)).with_length(length))
    }

    /// The voices of `score`, if a GPU renders them.
    fn record(&self, score: &Score, exec: &ExecContext) -> Result<Option<Arc<Recording>>> {
        let request: DeviceRequest = self.device.parse()?;
        if request == DeviceRequest::Cpu {
            return Ok(None);
        }
        let take = self.setup()?.take(score);
        // If the level is measured first, the CPU plays twice.
        let n_passes = if self.loudness.is_some() { 2.0 } else { 1.0 };
        let work = synth::voice_seconds(take, self.rate).map(|seconds| n_passes * seconds);
        let config = &exec.config;
        let device = choose_device(request, config.threads.value, exec.context.budget(), work)?.device;
        if matches!(device, Device::Cpu(_)) {
            return Ok(None);
        }
        let budget = memory::budget(config.memory_limit.value, &device);
        Ok(synth::record(&device, &budget, self.rate, &[take])?.pop().map(Arc::new))
    }
}

struct Player<'a> {
    score: &'a Score,
    /// Threads of the CPU, which help while a score plays.
    queue: &'a Queue,
    recording: Option<Arc<Recording>>,
    watch: Watch,
}

impl<'a> Player<'a> {
    fn new(args: &RenderArgs, score: &'a Score, exec: &'a ExecContext) -> PyResult<Self> {
        let recording = args.record(score, exec).map_err(raise)?;
        Ok(Self { score, queue: exec.context.queue(), recording, watch: Watch::new() })
    }

    /// Passes left and right of every block to `take`.
    fn play_at(
        mut self,
        setup: Setup,
        loudness: Option<f64>,
        mut take: impl FnMut([&[f32]; 2]) -> Result<()>,
    ) -> PyResult<()> {
        let played = self
            .level(setup, loudness)
            .and_then(|gain| self.play(setup.with_bus(setup.bus.with_level(gain)), &mut take));
        self.watch.settle(played)
    }

    fn level(&mut self, setup: Setup, loudness: Option<f64>) -> Result<f32> {
        let Some(target) = loudness else { return Ok(1.0) };
        let level = balance(setup, target, |setup| {
            let mut meter = Meter::new(setup.bus.sample_rate);
            self.play(setup, &mut |[left, right]| {
                meter.push(left, right);
                Ok(())
            })?;
            Ok(meter)
        })?;
        Ok(level.gain)
    }

    fn play(&mut self, setup: Setup, take: &mut dyn FnMut([&[f32]; 2]) -> Result<()>) -> Result<()> {
        let mut performance = match &self.recording {
            Some(recording) => Performance::recorded(self.score, setup, Arc::clone(recording))?,
            None => Performance::new(self.score, setup)?,
        };
        while let Some(block) = performance.next_block(Some(self.queue))? {
            take([block.left, block.right])?;
            self.watch.ask()?;
        }
        Ok(())
    }
}

fn extend(side: &mut Vec<f32>, samples: &[f32]) -> Result<()> {
    let n = side.len() + samples.len();
    let refused = |_| Error::new(ErrorKind::Memory, format!("{n} samples do not fit into memory"));
    side.try_reserve(samples.len()).map_err(refused)?;
    side.extend_from_slice(samples);
    Ok(())
}
