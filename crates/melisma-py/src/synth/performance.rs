//! Scores to samples.

use std::path::PathBuf;
use std::sync::Arc;

use melisma::audio::Meter;
use melisma::config::DeviceRequest;
use melisma::lock::Mutex;
use melisma::runtime::device::{Device, Queue};
use melisma::runtime::{memory, thread};
use melisma::synth::{
    self, Block, BusConfig, Length, MAX_SECONDS, Parts, Performance, Recording, Score, Sequence, Setup, SoundFont,
    balance, choose_device,
};
use melisma::{Budget, Error, ErrorKind, Result};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use super::score::PyScore;
use crate::audio::fill;
use crate::error::raise;
use crate::exec_context::{self, ExecContext};
use crate::out;
use crate::signal::{self, Stop, Watch};

/// Scores whose voices a GPU renders in one go.
const AT_ONCE: usize = 64;

/// How a score is rendered.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RenderArgs {
    /// Of each score; until everything is silent where this is None.
    seconds: Vec<Option<f64>>,
    rate: u32,
    /// In LUFS; None leaves the level.
    loudness: Option<f64>,
    /// Where the voices are rendered.
    device: String,
    /// What plays instead of Melisma's instruments.
    soundfont: Option<PathBuf>,
}

/// Renders the samples [2, samples] of each score, into those of `out` if its length is known and
/// they are given. A single score plays on all threads, several on one each; the bits are the same.
#[pyfunction(name = "_render")]
pub fn render<'py>(
    py: Python<'py>,
    scores: Vec<Bound<'py, PyScore>>,
    args: RenderArgs,
    out: Option<Vec<Bound<'py, PyAny>>>,
) -> PyResult<Vec<Samples<'py>>> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let exec = exec.get()?;
    let setups = args.seconds.iter().map(|&seconds| args.setup(seconds)).collect::<Result<Vec<_>>>().map_err(raise)?;
    let sized = |(index, setup): (usize, &Setup)| {
        let Length::Samples(n) = setup.length else { return Ok(None) };
        let given = out.as_ref().and_then(|out| out.get(index));
        out::target::<f32, _>(py, given, [2, usize::try_from(n).unwrap_or(usize::MAX)]).map(Some)
    };
    let arrays: Vec<Option<Samples<'py>>> = setups.iter().enumerate().map(sized).collect::<PyResult<_>>()?;
    let mut held: Vec<_> =
        arrays.iter().map(|array| array.as_ref().map(out::writable).transpose()).collect::<PyResult<_>>()?;
    let sampled = args.sampled(py, &scores).map_err(raise)?;
    let mut parts = Vec::new();
    for (((score, setup), held), sampled) in scores.iter().zip(setups).zip(&mut held).zip(&sampled) {
        let sink = match held {
            None => Sink::Growing([Vec::new(), Vec::new()]),
            Some(array) => {
                let samples = array.as_slice_mut()?;
                let (left, right) = samples.split_at_mut(samples.len() / 2);
                Sink::Sized([left, right])
            }
        };
        parts.push(Part { score: &score.get().score, sampled: sampled.as_ref(), setup, stems: None, sink });
    }
    play_all(py, &args, exec, &mut parts)?;
    let ends: Vec<Option<Samples<'py>>> = parts.into_iter().map(|part| part.sink.end(py)).collect::<PyResult<_>>()?;
    drop(held);
    Ok(arrays.into_iter().zip(ends).filter_map(|(sized, grown)| sized.or(grown)).collect())
}

/// Renders the samples [2, samples] of a score, and of each of its instruments or tracks by name.
#[pyfunction(name = "_stems")]
pub fn stems<'py>(
    py: Python<'py>,
    score: Bound<'py, PyScore>,
    args: RenderArgs,
    by: &str,
) -> PyResult<(Samples<'py>, Vec<(String, Samples<'py>)>)> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let exec = exec.get()?;
    let setup = args.setup(args.seconds.first().copied().flatten()).map_err(raise)?;
    let sampled = args.sampled(py, std::slice::from_ref(&score)).map_err(raise)?.pop().flatten();
    let PyScore { score, midi } = score.get();
    let group = || match (by, midi) {
        ("track", Some(file)) => Parts::by_track(file),
        // A SoundFont plays the notes of its sequence.
        ("instrument" | "track", _) => {
            Ok(Parts::by_instrument(sampled.as_ref().map_or(score, |sampled| sampled.sequence.score())))
        }
        _ => Err(Error::invalid(format!("by is `{by}`")).with_hint("use \"instrument\" or \"track\"")),
    };
    let stems = py.detach(group).map_err(raise)?;
    let sounds = py.detach(|| {
        let mut watch = Watch::new();
        let (sampled, sink) = (sampled.as_ref(), Sink::Growing([Vec::new(), Vec::new()]));
        let part = Part { score, sampled, setup, stems: Some(&stems), sink };
        let played = args.record(std::slice::from_ref(&part), exec).and_then(|mut recordings| {
            let (queue, recording) = (Some(exec.context.queue()), recordings.pop().map(Arc::new));
            let budget = exec.context.budget();
            Player { score, sampled, budget, queue, recording, go_on: &mut || watch.ask() }.play_apart(&args, &part)
        });
        watch.settle(played)
    })?;
    let mut arrays = Vec::new();
    for sound in sounds {
        arrays.extend(Sink::Growing(sound).end(py)?);
    }
    let mix = arrays.remove(0);
    Ok((mix, stems.names().iter().cloned().zip(arrays).collect()))
}

type Samples<'py> = Bound<'py, PyArray2<f32>>;

/// A SoundFont, and what it plays.
struct Sampled {
    sequence: Sequence,
    font: SoundFont,
}

/// A score, how it is played, and where its samples go.
struct Part<'a> {
    score: &'a Score,
    sampled: Option<&'a Sampled>,
    setup: Setup,
    /// What is heard apart.
    stems: Option<&'a Parts>,
    sink: Sink<'a>,
}

enum Sink<'a> {
    Sized([&'a mut [f32]; 2]),
    Growing([Vec<f32>; 2]),
}

impl Sink<'_> {
    fn take(&mut self, now: [&[f32]; 2]) -> Result<()> {
        match self {
            Self::Sized(sides) => sides.iter_mut().zip(now).try_for_each(|(side, now)| fill(side, now)),
            Self::Growing(sides) => sides.iter_mut().zip(now).try_for_each(|(side, now)| extend(side, now)),
        }
    }

    /// Silences what no sample came for; gives a new array where there was none.
    fn end(self, py: Python<'_>) -> PyResult<Option<Samples<'_>>> {
        match self {
            Self::Sized(sides) => {
                sides.into_iter().for_each(|side| side.fill(0.0));
                Ok(None)
            }
            Self::Growing([mut left, right]) => {
                let n = left.len();
                py.detach(|| extend(&mut left, &right)).map_err(raise)?;
                PyArray1::from_vec(py, left).reshape([2, n]).map(Some)
            }
        }
    }
}

fn play_all(py: Python<'_>, args: &RenderArgs, exec: &ExecContext, parts: &mut [Part<'_>]) -> PyResult<()> {
    if let [part] = parts {
        return py.detach(|| {
            let mut watch = Watch::new();
            let played = args.record(std::slice::from_ref(part), exec).and_then(|mut recordings| {
                let (queue, recording) = (Some(exec.context.queue()), recordings.pop().map(Arc::new));
                let (score, sampled) = (part.score, part.sampled);
                let budget = exec.context.budget();
                Player { score, sampled, budget, queue, recording, go_on: &mut || watch.ask() }.play_at(args, part)
            });
            watch.settle(played)
        });
    }
    let n_threads = exec.config.threads.value.count();
    let work = |stop: &Stop| -> Result<()> {
        for parts in parts.chunks_mut(AT_ONCE) {
            stop.check()?;
            let n_threads = n_threads.min(parts.len());
            let mut recordings = args.record(parts, exec)?.into_iter().map(Arc::new);
            let waiting: Vec<_> = parts.iter_mut().map(|part| (part, recordings.next())).collect();
            let (waiting, failed) = (Mutex::new(waiting.into_iter()), Mutex::new(Ok(())));
            let play = || {
                loop {
                    let Some((part, recording)) = waiting.lock().next() else { return };
                    let (score, sampled) = (part.score, part.sampled);
                    let budget = exec.context.budget();
                    let player = Player { score, sampled, budget, queue: None, recording, go_on: &mut || stop.check() };
                    if let Err(error) = player.play_at(args, part) {
                        *failed.lock() = Err(error);
                        waiting.lock().by_ref().for_each(drop);
                    }
                }
            };
            thread::team((1..n_threads).map(|_| play), play)?;
            failed.into_inner()?;
        }
        Ok(())
    };
    signal::watched(py, work, || Ok(()))
}

impl RenderArgs {
    fn setup(&self, seconds: Option<f64>) -> Result<Setup> {
        let length = match seconds {
            None => Length::Whole,
            Some(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => {
                Length::Samples((seconds * f64::from(self.rate)).round().max(1.0) as u64)
            }
            Some(seconds) => {
                return Err(Error::invalid(format!("seconds is {seconds:?}: more than 0 and at most {MAX_SECONDS}")));
            }
        };
        Ok(Setup::new(BusConfig::new(self.rate)).with_length(length))
    }

    /// Opens the SoundFont, and what it plays of each score.
    fn sampled(&self, py: Python<'_>, scores: &[Bound<'_, PyScore>]) -> Result<Vec<Option<Sampled>>> {
        let font = self.soundfont.as_ref().map(|path| py.detach(|| SoundFont::open(path))).transpose()?;
        let sampled = |score: &Bound<'_, PyScore>| -> Result<Option<Sampled>> {
            let Some(font) = &font else { return Ok(None) };
            let score = score.get();
            let sequence = match &score.midi {
                Some(file) => py.detach(|| Sequence::from_midi(file))?,
                None => py.detach(|| Sequence::from_score(&score.score))?,
            };
            Ok(Some(Sampled { sequence, font: font.clone() }))
        };
        scores.iter().map(sampled).collect()
    }

    /// Renders the voices of all scores, if a GPU renders them; else nothing.
    fn record(&self, parts: &[Part<'_>], exec: &ExecContext) -> Result<Vec<Recording>> {
        let request: DeviceRequest = self.device.parse()?;
        match (&self.soundfont, request) {
            (Some(_), DeviceRequest::Cuda(_)) => {
                return Err(Error::unsupported("a SoundFont is played on the CPU").with_hint("use device=\"cpu\""));
            }
            (Some(_), _) => return Ok(Vec::new()),
            (None, _) => {}
        }
        if request == DeviceRequest::Cpu {
            return Ok(Vec::new());
        }
        let takes: Vec<_> = parts.iter().map(|part| part.setup.take(part.score).with_parts(part.stems)).collect();
        // If the level is measured first, the CPU plays twice.
        let n_passes = if self.loudness.is_some() { 2.0 } else { 1.0 };
        let seconds = takes.iter().map(|take| synth::voice_seconds(*take, self.rate)).sum::<Result<f64>>();
        let config = &exec.config;
        let work = seconds.map(|seconds| n_passes * seconds);
        let device = choose_device(request, config.threads.value, exec.context.budget(), work)?.device;
        if matches!(device, Device::Cpu(_)) {
            return Ok(Vec::new());
        }
        let budget = memory::budget(config.memory_limit.value, &device);
        synth::record(&device, &budget, self.rate, &takes)
    }
}

struct Player<'a> {
    score: &'a Score,
    sampled: Option<&'a Sampled>,
    budget: &'a Budget,
    /// Threads of the CPU, which help while a score plays.
    queue: Option<&'a Queue>,
    recording: Option<Arc<Recording>>,
    /// Ends the work by an error.
    go_on: &'a mut dyn FnMut() -> Result<()>,
}

impl Player<'_> {
    fn play_at(mut self, args: &RenderArgs, Part { setup, sink, .. }: &mut Part<'_>) -> Result<()> {
        if let (Some(sampled), Some(_)) = (self.sampled, args.loudness) {
            // The level is measured first, so it plays twice.
            let recorded = Recording::sampled(&sampled.sequence, &sampled.font, (*setup, self.budget));
            self.recording = match recorded {
                Err(error) if error.kind() == ErrorKind::Memory => None,
                recorded => Some(Arc::new(recorded?)),
            };
        }
        let gain = self.level(*setup, args.loudness)?;
        self.play(setup.with_bus(setup.bus.with_level(gain)), None, &mut |block| sink.take([block.left, block.right]))
    }

    /// Returns the mix and then each stem.
    fn play_apart(mut self, args: &RenderArgs, part: &Part<'_>) -> Result<Vec<[Vec<f32>; 2]>> {
        let setup = part.setup;
        let gain = self.level(setup, args.loudness)?;
        let n_stems = part.stems.map_or(0, |stems| stems.names().len());
        let mut sounds = vec![[Vec::new(), Vec::new()]; 1 + n_stems];
        self.play(setup.with_bus(setup.bus.with_level(gain)), part.stems, &mut |block| {
            let now = std::iter::once([block.left, block.right]).chain((0..n_stems).map(|index| block.part(index)));
            let mut sides = sounds.iter_mut().flatten().zip(now.flatten());
            sides.try_for_each(|(side, now)| extend(side, now))
        })?;
        Ok(sounds)
    }

    fn level(&mut self, setup: Setup, loudness: Option<f64>) -> Result<f32> {
        let Some(target) = loudness else { return Ok(1.0) };
        let level = balance(setup, target, |setup| {
            let mut meter = Meter::new(setup.bus.sample_rate);
            self.play(setup, None, &mut |block| {
                meter.push(block.left, block.right);
                Ok(())
            })?;
            Ok(meter)
        })?;
        Ok(level.gain)
    }

    fn play(
        &mut self,
        setup: Setup,
        stems: Option<&Parts>,
        take: &mut dyn FnMut(&Block<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut performance = match (self.sampled, &self.recording) {
            (Some(sampled), Some(recording)) => {
                Performance::recorded(sampled.sequence.score(), setup, Arc::clone(recording))?
            }
            (Some(sampled), None) => Performance::sampled(&sampled.sequence, &sampled.font, setup)?,
            (None, Some(recording)) => Performance::recorded(self.score, setup, Arc::clone(recording))?,
            (None, None) => Performance::new(self.score, setup)?,
        };
        if let Some(stems) = stems {
            performance = performance.with_parts(stems)?;
        }
        while let Some(block) = performance.next_block(self.queue)? {
            take(&block)?;
            (self.go_on)()?;
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
