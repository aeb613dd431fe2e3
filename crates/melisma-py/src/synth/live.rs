//! `Stream`: live music.

use melisma::lock::Mutex;
use melisma::synth::{self, Action, Endless, EngineConfig, Event, Instrument, Parameter};
use melisma::{Error, Result};
use numpy::PyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::variation::style;
use crate::error::raise;
use crate::out;
use crate::signal::Watch;

/// Samples rendered between two looks at signals, and at most as far as a composer plans ahead.
const BLOCK: usize = 4_096;
/// Names of notes from here on are free of a composer's.
const FIRST_NAME: u64 = 1 << 63;
/// The most samples of one call.
const MAX_SAMPLES: usize = 1 << 28;

/// Music that plays while notes and controls arrive.
#[pyclass(name = "Stream", module = "melisma.synth", frozen, subclass)]
pub struct PyStream {
    rate: u32,
    /// Locked by detached threads only: a holder may wait for the interpreter.
    open: Mutex<Open>,
}

struct Open {
    music: Music,
    next_name: u64,
}

enum Music {
    Endless(Box<Endless>),
    Silent(Box<synth::Stream>),
}

#[pymethods]
impl PyStream {
    /// Plays music in the style of `preset` without end, changed by keywords, or silence until notes arrive.
    #[new]
    #[pyo3(signature = (preset=None, *, seed=0, rate=48_000, **changes))]
    fn new(
        py: Python<'_>,
        preset: Option<&str>,
        seed: u64,
        rate: u32,
        changes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let config = EngineConfig::default().with_sample_rate(rate);
        let style = match (preset, changes) {
            (Some(preset), _) => Some(style(preset, changes)?),
            (None, None) => None,
            (None, Some(_)) => {
                let hint = "name a preset, as in Stream(\"focus\", key=\"A\")";
                return Err(raise(Error::invalid("changes without a preset").with_hint(hint)));
            }
        };
        let make = || -> Result<Music> {
            Ok(match style {
                Some(style) => Music::Endless(Box::new(Endless::new(style, seed, config)?.0)),
                None => Music::Silent(Box::new(synth::Stream::new(config)?.0)),
            })
        };
        let music = py.detach(make).map_err(raise)?;
        Ok(Self { rate, open: Mutex::new(Open { music, next_name: FIRST_NAME }) })
    }

    /// Returns the number of samples per second.
    #[getter]
    fn sample_rate(&self) -> u32 {
        self.rate
    }

    /// Plays on.
    ///
    /// Args:
    ///     n: How many samples.
    ///
    /// Returns:
    ///     The next samples, float32 [2, n].
    fn read<'py>(&self, py: Python<'py>, n: usize) -> PyResult<Bound<'py, PyArray2<f32>>> {
        if n > MAX_SAMPLES {
            return Err(raise(Error::invalid(format!("cannot read {n} samples at once; at most {MAX_SAMPLES}"))));
        }
        let array = out::target::<f32, _>(py, None, [2, n])?;
        let mut target = out::writable(&array)?;
        let (left, right) = target.as_slice_mut()?.split_at_mut(n);
        py.detach(|| -> PyResult<()> {
            let (mut open, mut watch) = (self.open.lock(), Watch::new());
            for (left, right) in left.chunks_mut(BLOCK).zip(right.chunks_mut(BLOCK)) {
                open.stream().map_err(raise)?.render(left, right);
                watch.check()?;
            }
            Ok(())
        })?;
        drop(target);
        Ok(array)
    }

    /// Moves a control.
    ///
    /// Args:
    ///     parameter: gain, brightness, motion, reverb or delay.
    ///     value: Its new value.
    fn set(&self, py: Python<'_>, parameter: &str, value: f32) -> PyResult<()> {
        let parameter = named(parameter, Parameter::ALL, Parameter::name, "parameter").map_err(raise)?;
        py.detach(|| self.open.lock().push(0, Action::Set { parameter, value })).map_err(raise)
    }

    /// Starts a note.
    ///
    /// Args:
    ///     instrument: Its instrument.
    ///     key: Its MIDI key, 0 to 127.
    ///     velocity: 0 to 1.
    ///     pan: -1, left, to 1, right.
    ///     channel: Its MIDI channel.
    ///
    /// Returns:
    ///     The note's number, for `note_off`.
    #[pyo3(signature = (instrument, key, velocity=0.8, *, pan=0.0, channel=0))]
    fn note_on(
        &self,
        py: Python<'_>,
        instrument: &str,
        key: u8,
        velocity: f32,
        pan: f32,
        channel: u8,
    ) -> PyResult<u64> {
        let instrument = named(instrument, Instrument::ALL, Instrument::name, "instrument").map_err(raise)?;
        py.detach(|| self.open.lock().start(|note| Action::Start { note, instrument, channel, key, velocity, pan }))
            .map_err(raise)
    }

    /// Releases a note.
    ///
    /// Args:
    ///     note: What `note_on` returned; unknown numbers do nothing.
    fn note_off(&self, py: Python<'_>, note: u64) -> PyResult<()> {
        py.detach(|| self.open.lock().push(0, Action::Release { note })).map_err(raise)
    }

    /// Plays a note.
    ///
    /// Args:
    ///     instrument: Its instrument.
    ///     key: Its MIDI key, 0 to 127.
    ///     velocity: 0 to 1.
    ///     duration: How long it is held, in seconds.
    ///     pan: -1, left, to 1, right.
    ///     channel: Its MIDI channel.
    #[pyo3(signature = (instrument, key, velocity=0.8, duration=0.5, *, pan=0.0, channel=0))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn note(
        &self,
        py: Python<'_>,
        instrument: &str,
        key: u8,
        velocity: f32,
        duration: f64,
        pan: f32,
        channel: u8,
    ) -> PyResult<()> {
        if !(0.0..=synth::MAX_SECONDS).contains(&duration) {
            return Err(raise(Error::invalid(format!("duration is {duration}: 0 to {}", synth::MAX_SECONDS))));
        }
        let note = self.note_on(py, instrument, key, velocity, pan, channel)?;
        let samples = (duration * f64::from(self.rate)).round().max(1.0) as u64;
        py.detach(|| self.open.lock().push(samples, Action::Release { note })).map_err(raise)
    }
}

impl Open {
    /// Returns the stream, with its composer far enough ahead.
    fn stream(&mut self) -> Result<&mut synth::Stream> {
        match &mut self.music {
            Music::Endless(endless) => {
                endless.plan()?;
                Ok(endless.stream())
            }
            Music::Silent(stream) => Ok(stream),
        }
    }

    fn push(&mut self, later: u64, action: Action) -> Result<()> {
        let engine = self.stream()?.engine();
        let at = engine.position() + later;
        engine.push(Event { at, action })
    }

    fn start(&mut self, action: impl FnOnce(u64) -> Action) -> Result<u64> {
        let name = self.next_name;
        self.push(0, action(name))?;
        self.next_name += 1;
        Ok(name)
    }
}

pub(super) fn named<T: Copy, const N: usize>(
    name: &str,
    all: [T; N],
    of: impl Fn(T) -> &'static str,
    what: &str,
) -> Result<T> {
    all.into_iter().find(|one| of(*one) == name).ok_or_else(|| {
        let names: Vec<&str> = all.into_iter().map(of).collect();
        Error::invalid(format!("unknown {what} `{name}`")).with_hint(format!("use {}", names.join(", ")))
    })
}
