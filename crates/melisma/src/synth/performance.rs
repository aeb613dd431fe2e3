//! A score from its first sample to the last: voices, bus, stems and length.

use std::sync::Arc;

use super::bus::{Bus, BusConfig};
use super::dry::Dry;
use super::engine::{Buses, EngineConfig, Stem};
use super::event::{Action, Event};
use super::instrument::Instrument;
use super::length::Length;
use super::part::Parts;
use super::recording::Recording;
use super::score::Score;
use super::setup::{Setup, block_len};
use super::soundfont::{Player, Sequence, SoundFont};
use crate::runtime::device::Queue;
use crate::{Error, Result};

/// A piece ends after this many blocks below [`QUIET`].
const QUIET_BLOCKS: u32 = 3;
/// -96 dB of full scale: half a step of 16 bits.
const QUIET: f32 = 1.6e-5;
/// The longest fade at the end of a piece that is cut.
const FADE_SECONDS: f64 = 1.0;

/// A piece that is being played.
#[derive(Debug)]
pub struct Performance {
    dry: Dry,
    events: Vec<Event>,
    next: usize,
    bus: Bus,
    /// One for each instrument or part, or none. They have no limiter.
    stem_buses: Vec<Bus>,
    setup: Setup,
    mix: [Vec<f32>; 2],
    /// As long as a block and the limiter's latency: the mix is delayed by it, the stems are not.
    stems: Vec<[Vec<f32>; 2]>,
    /// Samples that were returned.
    position: u64,
    /// Samples of the limiter's latency that are still to be skipped.
    early: usize,
    n_quiet: u32,
    most_voices: usize,
}

/// The next part of a piece.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Block<'a> {
    /// The place of its first sample.
    pub at: u64,
    /// The mix.
    pub left: &'a [f32],
    /// The mix.
    pub right: &'a [f32],
    stems: &'a [[Vec<f32>; 2]],
    skipped: usize,
}

impl Block<'_> {
    /// Returns left and right of one instrument alone, as it is before the limiter; silence where the piece is played
    /// without stems.
    pub fn stem(&self, instrument: Instrument) -> [&[f32]; 2] {
        self.part(instrument as usize)
    }

    /// Returns left and right of one of [`Performance::with_parts`] alone, as it is before the limiter.
    pub fn part(&self, index: usize) -> [&[f32]; 2] {
        let range = self.skipped..self.skipped + self.left.len();
        self.stems.get(index).map_or([&[], &[]], |[left, right]| [&left[range.clone()], &right[range]])
    }
}

impl Performance {
    /// Prepares `score`, which is checked.
    ///
    /// # Errors
    /// Those of [`Score::check`], [`Engine::new`](super::Engine::new) and [`Bus::new`].
    pub fn new(score: &Score, setup: Setup) -> Result<Self> {
        score.check()?;
        let rate = setup.bus.sample_rate;
        let events = score.events(rate);
        let max_events = densest(&events, block_len(rate) as u64).max(1);
        let Setup { max_voices, buses, .. } = setup;
        let dry = Dry::live(EngineConfig { sample_rate: rate, max_voices, max_events, buses })?;
        Self::build(events, setup, dry)
    }

    /// Works like [`Performance::new`], with voices that were recorded of the same score, rate and buses.
    ///
    /// # Errors
    /// As there, or the recording is of another rate or has no stems.
    pub fn recorded(score: &Score, setup: Setup, recording: Arc<Recording>) -> Result<Self> {
        score.check()?;
        recording.check(setup.bus.sample_rate, setup.buses)?;
        Self::build(score.events(setup.bus.sample_rate), setup, Dry::Recorded { recording, at: 0 })
    }

    /// Plays `sequence` with `font` instead of Melisma's own instruments: on the CPU, on one thread, with at most 256
    /// voices. Messages take effect at the next of 64 samples.
    ///
    /// # Errors
    /// Those of [`Bus::new`]; `Unsupported` below 16,000 Hz, or if instruments are asked for alone.
    pub fn sampled(sequence: &Sequence, font: &SoundFont, setup: Setup) -> Result<Self> {
        if setup.buses == Buses::Stems {
            return Err(Error::unsupported("a SoundFont has instruments of its own, other than Melisma's")
                .with_hint("use `Performance::with_parts`, or leave the SoundFont out"));
        }
        let rate = setup.bus.sample_rate;
        let controls = Score { controls: sequence.score().controls.clone(), ..Score::default() };
        let player = Player::new(sequence, font, rate)?;
        Self::build(controls.events(rate), setup, Dry::Sampled { mix: Box::new(player), parts: Vec::new() })
    }

    fn build(events: Vec<Event>, setup: Setup, dry: Dry) -> Result<Self> {
        let len = block_len(setup.bus.sample_rate);
        let n_stems = if setup.buses == Buses::Stems { Instrument::ALL.len() } else { 0 };
        let bus = Bus::new(setup.bus)?;
        let performance = Self {
            dry,
            events,
            next: 0,
            early: bus.latency(),
            bus,
            stem_buses: Vec::new(),
            setup,
            mix: [vec![0.0; len], vec![0.0; len]],
            stems: Vec::new(),
            position: 0,
            n_quiet: 0,
            most_voices: 0,
        };
        performance.with_stems(n_stems)
    }

    fn with_stems(self, n_stems: usize) -> Result<Self> {
        let len = self.mix[0].len() + self.bus.latency();
        let stem_bus = Bus::new(BusConfig { ceiling_dbtp: None, ..self.setup.bus })?;
        let stems = (0..n_stems).map(|_| [vec![0.0; len], vec![0.0; len]]).collect();
        Ok(Self { stem_buses: vec![stem_bus; n_stems], stems, ..self })
    }

    /// Returns each of `parts` alone as well, by [`Block::part`]. The mix has the same bits, and the parts add up to what
    /// enters its limiter. With a SoundFont this holds for up to 256 voices at once, and where no drum ends one of another
    /// part: each part has a synthesiser of its own.
    ///
    /// # Errors
    /// The parts are those of another score, the voices were recorded without them, or the piece has begun or has stems
    /// already.
    pub fn with_parts(mut self, parts: &Parts) -> Result<Self> {
        let is_start = |event: &&Event| matches!(event.action, Action::Start { .. });
        let n_notes = match &self.dry {
            Dry::Sampled { mix, .. } => mix.n_strikes(),
            Dry::Live(_) | Dry::Recorded { .. } => self.events.iter().filter(is_start).count(),
        };
        if n_notes != parts.n_notes() {
            let message = format!("parts of {} notes do not fit a piece of {n_notes}", parts.n_notes());
            return Err(Error::invalid(message).with_hint("make them of the same score or file"));
        }
        if self.dry.position() > 0 || !self.stems.is_empty() {
            return Err(Error::invalid("the piece has begun, or has stems already").with_hint("make another one"));
        }
        self.dry.split(parts)?;
        self.with_stems(parts.names().len())
    }

    /// Returns the most voices that sounded at once so far.
    pub fn most_voices(&self) -> usize {
        self.most_voices
    }

    /// Returns the number of notes that got no voice.
    pub fn dropped(&self) -> u64 {
        self.dry.dropped()
    }

    /// Returns about how many samples there will be; exact where the length was given.
    pub fn expected_samples(&self) -> u64 {
        match self.setup.length {
            Length::Samples(n) => n,
            Length::Whole => {
                let end = self.events.last().map_or(0, |event| event.at).max(self.dry.end());
                end + 5 * u64::from(self.setup.bus.sample_rate)
            }
        }
    }

    /// Returns the next block, or `None` at the end. With a `queue` of a CPU its threads help; the bits are the same.
    ///
    /// # Errors
    /// An event that the engine refuses, which a checked score does not have.
    pub fn next_block(&mut self, queue: Option<&Queue>) -> Result<Option<Block<'_>>> {
        loop {
            if self.is_over() {
                return Ok(None);
            }
            self.render(queue)?;
            // The limiter's latency may be longer than a block.
            let skipped = self.early.min(self.mix[0].len());
            self.early -= skipped;
            let left = self.mix[0].len() - skipped;
            let n = match self.setup.length {
                Length::Samples(end) => usize::try_from(end - self.position).unwrap_or(usize::MAX).min(left),
                Length::Whole => left,
            };
            let at = self.position;
            self.position += n as u64;
            let is_quiet = self.mix.iter().all(|side| side[skipped..].iter().all(|x| x.abs() < QUIET));
            self.n_quiet = if is_quiet { self.n_quiet + 1 } else { 0 };
            if n > 0 {
                let [left, right] = [0, 1].map(|side| &self.mix[side][skipped..skipped + n]);
                return Ok(Some(Block { at, left, right, stems: &self.stems, skipped }));
            }
        }
    }

    fn is_over(&self) -> bool {
        match self.setup.length {
            Length::Samples(end) => self.position >= end,
            Length::Whole => {
                self.next == self.events.len()
                    && self.dry.is_over()
                    && (self.n_quiet >= QUIET_BLOCKS || (self.events.is_empty() && self.dry.end() == 0))
            }
        }
    }

    /// Fills the block's buffers with the next samples.
    fn render(&mut self, queue: Option<&Queue>) -> Result<()> {
        let begin = self.dry.position();
        let end = begin + self.mix[0].len() as u64;
        let first = self.next;
        while let Some(event) = self.events.get(self.next).filter(|event| event.at < end) {
            self.dry.push(*event)?;
            self.next += 1;
        }
        {
            let _span = tracing::info_span!("voices", n = self.dry.n_voices()).entered();
            self.render_voices(queue)?;
        }
        self.most_voices = self.most_voices.max(self.dry.n_voices());
        let _span = tracing::info_span!("bus").entered();
        self.fade(begin);
        let events = &self.events[first..self.next];
        let [left, right] = &mut self.mix;
        play(&mut self.bus, events, begin, left, right);
        let latency = self.bus.latency();
        for (bus, [left, right]) in self.stem_buses.iter_mut().zip(&mut self.stems) {
            play(bus, events, begin, &mut left[latency..], &mut right[latency..]);
        }
        Ok(())
    }

    fn render_voices(&mut self, queue: Option<&Queue>) -> Result<()> {
        let [left, right] = &mut self.mix;
        let (len, latency) = (left.len(), self.bus.latency());
        self.stems.iter_mut().flatten().for_each(|side| side.copy_within(len.., 0));
        let mut stems: Vec<Stem<'_>> = self
            .stems
            .iter_mut()
            .map(|[left, right]| Stem { left: &mut left[latency..], right: &mut right[latency..] })
            .collect();
        self.dry.render(queue, Stem { left, right }, &mut stems)
    }

    /// Fades the voices out towards the end of a piece of a given length.
    fn fade(&mut self, begin: u64) {
        let Length::Samples(end) = self.setup.length else { return };
        let len = ((FADE_SECONDS * f64::from(self.setup.bus.sample_rate)) as u64).min(end / 2).max(1);
        if begin + (self.mix[0].len() as u64) <= end - len.min(end) {
            return;
        }
        let gain = |i: usize| {
            let left = end.saturating_sub(begin + i as u64).min(len) as f64 / len as f64;
            // Without a corner at either end.
            (left * left * (3.0 - 2.0 * left)) as f32
        };
        let latency = self.bus.latency();
        let stems = self.stems.iter_mut().flatten().map(|side| &mut side[latency..]);
        for side in self.mix.iter_mut().map(Vec::as_mut_slice).chain(stems) {
            side.iter_mut().enumerate().for_each(|(i, sample)| *sample *= gain(i));
        }
    }
}

/// Sends a block that begins at sample `begin` through `bus`, whose controls move at the samples of `events`.
fn play(bus: &mut Bus, events: &[Event], begin: u64, left: &mut [f32], right: &mut [f32]) {
    let mut done = 0;
    for event in events {
        if let Action::Set { parameter, value } = event.action {
            let at = (event.at - begin) as usize;
            bus.process(&mut left[done..at], &mut right[done..at]);
            bus.set(parameter, value);
            done = at;
        }
    }
    bus.process(&mut left[done..], &mut right[done..]);
}

/// Returns the most events of any block of `len` samples.
fn densest(events: &[Event], len: u64) -> usize {
    events.chunk_by(|a, b| a.at / len == b.at / len).map(<[Event]>::len).max().unwrap_or(0)
}
