//! Events to sound: one mix of many voices on the CPU.

use std::sync::Arc;

use melisma_kernels::signal::voice::{Block, Control, Segment, Slot, TICK, UNIT, Voices};
use melisma_kernels::{Error, Isa, Queue, Result};

use super::control::Glides;
use super::effect::same_len;
pub use super::engine_config::{Buses, EngineConfig};
use super::event::{Action, Event, N_CHANNELS, NO_NOTE, check, check_range, check_rate};
use super::event_queue::EventQueue;
use super::instrument::Instrument;
use super::parameter::Parameter;
use super::part::Parts;
use super::patch::{self, Pitch, Touch};

/// One mix of voices. Everything is allocated when it is created; rendering allocates nothing, takes no lock and makes no
/// system call.
///
/// ```
/// use melisma::synth::{Action, Engine, EngineConfig, Event, Instrument};
///
/// let mut engine = Engine::new(EngineConfig::default())?;
/// let note = Action::Start { note: 1, instrument: Instrument::Bass, channel: 0, key: 40, velocity: 0.8, pan: 0.0 };
/// engine.push(Event { at: 0, action: note })?;
/// engine.push(Event { at: 24_000, action: Action::Release { note: 1 } })?;
/// let (mut left, mut right) = (vec![0.0; 480], vec![0.0; 480]);
/// engine.render(&mut left, &mut right);
/// assert!(left.iter().any(|&sample| sample != 0.0));
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    /// The bus of each note, where these are parts of a score.
    parts: Option<Arc<[u16]>>,
    voices: Voices,
    events: EventQueue,
    notes: Vec<ActiveVoice>,
    bends: [f32; N_CHANNELS],
    glides: Glides,
    controls: Vec<Control>,
    position: u64,
    n_dropped: u64,
}

/// Left and right of one instrument.
#[derive(Debug)]
pub struct Stem<'a> {
    /// Left.
    pub left: &'a mut [f32],
    /// Right.
    pub right: &'a mut [f32],
}

/// The voices of a group: beyond `max_voices` there may be part of one, and one for each bus.
const GROUP: usize = 16;
/// Kinds of voices that share no group.
const KINDS: usize = 4;
/// How fast a note fades out when another needs its voice.
const FADE_SECONDS: f64 = 0.002;

#[derive(Debug, Clone, Copy)]
struct ActiveVoice {
    note: u64,
    slot: Slot,
    instrument: Instrument,
    channel: u8,
    key: u8,
}

impl Engine {
    /// Makes an engine.
    ///
    /// # Errors
    /// A figure of `config` is outside of its range, or `MELISMA_ISA` names something unknown.
    pub fn new(config: EngineConfig) -> Result<Self> {
        let n_buses = match config.buses {
            Buses::Mix => 1,
            Buses::Stems => Instrument::ALL.len(),
        };
        Self::with_buses(config, n_buses)
    }

    /// Makes an engine for a score's events, each part on a bus of its own.
    pub(super) fn of_parts(config: EngineConfig, parts: &Parts) -> Result<Self> {
        let n_buses = parts.names().len().max(1);
        let mut engine = Self::with_buses(EngineConfig { buses: Buses::Mix, ..config }, n_buses)?;
        // A part may have voices of every kind, each of which fills groups of its own.
        let capacity = 2 * config.max_voices + KINDS * GROUP * n_buses;
        engine.voices = Voices::new(Isa::from_env()?, capacity, n_buses);
        Ok(Self { parts: Some(Arc::clone(parts.of())), ..engine })
    }

    fn with_buses(config: EngineConfig, n_buses: usize) -> Result<Self> {
        check_rate(config.sample_rate)?;
        check_range("max_voices", config.max_voices, [1, 1 << 16])?;
        check_range("max_events", config.max_events, [1, 1 << 24])?;
        Ok(Self {
            parts: None,
            // While old notes fade, as many new ones may start.
            voices: Voices::new(Isa::from_env()?, 2 * config.max_voices, n_buses),
            events: EventQueue::new(config.max_events),
            notes: Vec::with_capacity(2 * config.max_voices + GROUP * (1 + n_buses.max(Instrument::ALL.len()))),
            bends: [0.0; N_CHANNELS],
            glides: Glides::new(config.sample_rate),
            controls: Vec::with_capacity(Voices::LONGEST / TICK + 2),
            position: 0,
            n_dropped: 0,
            config,
        })
    }

    /// Returns its configuration.
    pub fn config(&self) -> EngineConfig {
        self.config
    }

    /// Returns the number of the next sample.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of voices that sound, those that fade included.
    pub fn active(&self) -> usize {
        self.voices.n_sounding()
    }

    /// Returns the number of events that wait.
    pub fn waiting(&self) -> usize {
        self.events.len()
    }

    /// Returns the number of notes that got no voice since the engine was created or reset.
    pub fn dropped(&self) -> u64 {
        self.n_dropped
    }

    /// Plans an event. Events may come in any order; those of one sample act in the order in which they came.
    ///
    /// # Errors
    /// The event is before [`Engine::position`], a figure of it is outside of its range, or too many wait.
    pub fn push(&mut self, event: Event) -> Result<()> {
        if event.at < self.position {
            return Err(Error::invalid(format!("an event for sample {}, which is past: {}", event.at, self.position)));
        }
        check(&event.action)?;
        self.events.push(event)
    }

    /// Renders the next samples of the mix, without effects; the shorter side counts.
    pub fn render(&mut self, left: &mut [f32], right: &mut [f32]) {
        self.render_mix(None, left, right);
    }

    /// Works like [`Engine::render`], the same bits, on all threads of a CPU queue.
    pub fn render_on(&mut self, queue: &Queue, left: &mut [f32], right: &mut [f32]) {
        self.render_mix(Some(queue), left, right);
    }

    /// Allocates what the threads of `queue` need. Otherwise the first [`Engine::render_on`] does it.
    pub fn prepare(&mut self, queue: &Queue) {
        self.voices.prepare(queue);
    }

    /// Returns the next samples up to the next event, at least one where there is room. `set` is called for every
    /// control that moves at the first of them.
    pub(super) fn render_next(&mut self, out: Stem<'_>, mut set: impl FnMut(Parameter, f32)) -> usize {
        while let Some(action) = self.events.next_until(self.position) {
            if let Action::Set { parameter, value } = action {
                set(parameter, value);
            }
            self.act(action);
        }
        let len = self.advance(None, out.left.len());
        write_mix(&self.voices, Stem { left: &mut out.left[..len], right: &mut out.right[..len] });
        len
    }

    /// Works like [`Engine::render`], the same bits, one voice after the other: the baseline for batching.
    #[cfg(feature = "bench")]
    #[doc(hidden)]
    pub fn render_singly(&mut self, left: &mut [f32], right: &mut [f32]) {
        self.mix(left, right, |engine, most| engine.advance_by(most, Voices::render_singly));
    }

    fn render_mix(&mut self, queue: Option<&Queue>, left: &mut [f32], right: &mut [f32]) {
        self.mix(left, right, |engine, most| engine.advance(queue, most));
    }

    fn mix(&mut self, left: &mut [f32], right: &mut [f32], advance: impl Fn(&mut Self, usize) -> usize) {
        let [left, right] = same_len(left, right);
        let mut done = 0;
        while done < left.len() {
            let len = advance(self, left.len() - done);
            let range = done..done + len;
            let _span = (self.config.buses == Buses::Stems).then(|| tracing::info_span!("mix").entered());
            write_mix(&self.voices, Stem { left: &mut left[range.clone()], right: &mut right[range] });
            done += len;
        }
    }

    /// Renders the next samples, each instrument alone, in the order of [`Instrument::ALL`].
    ///
    /// # Errors
    /// The engine was made without stems, or the stems differ in length.
    pub fn render_stems(&mut self, stems: &mut [Stem<'_>; Instrument::ALL.len()]) -> Result<()> {
        if self.config.buses != Buses::Stems {
            return Err(Error::invalid("the engine has no stems").with_hint("make it with `Buses::Stems`"));
        }
        self.render_each(stems)
    }

    /// Renders the next samples, each bus alone.
    pub(super) fn render_each(&mut self, stems: &mut [Stem<'_>]) -> Result<()> {
        let len = stems.first().map_or(0, |stem| stem.left.len());
        if stems.iter().any(|stem| stem.left.len() != len || stem.right.len() != len) {
            return Err(Error::invalid("stems differ in length"));
        }
        let mut done = 0;
        while done < len {
            let n = self.advance(None, len - done);
            for (bus, stem) in stems.iter_mut().enumerate() {
                self.voices.write(bus, &mut stem.left[done..done + n], &mut stem.right[done..done + n]);
            }
            done += n;
        }
        Ok(())
    }

    /// Forgets all notes, events and bends and starts again at sample 0, like a new engine.
    pub fn reset(&mut self) {
        self.voices.clear();
        self.events.clear();
        self.notes.clear();
        self.bends = [0.0; N_CHANNELS];
        self.glides = Glides::new(self.config.sample_rate);
        (self.position, self.n_dropped) = (0, 0);
    }

    /// Renders at most `most` samples, up to the next event.
    fn advance(&mut self, queue: Option<&Queue>, most: usize) -> usize {
        let buses = self.config.buses;
        self.advance_by(most, |voices, block| match queue {
            // A queue of another device has no threads to offer.
            queue if buses == Buses::Stems => render_parts(voices, queue, block),
            Some(queue @ Queue::Cpu(_)) => voices.render_on(queue, block).unwrap_or_default(),
            _ => voices.render(block),
        })
    }

    fn advance_by(&mut self, most: usize, render: impl Fn(&mut Voices, Block<'_>)) -> usize {
        while let Some(action) = self.events.next_until(self.position) {
            self.act(action);
        }
        let to_event = self.events.next_at().map_or(u64::MAX, |at| at - self.position);
        let len = most.min(Voices::LONGEST).min(usize::try_from(to_event).unwrap_or(usize::MAX));
        self.fill_controls(len);
        let block = Block { position: self.position, len, controls: &self.controls };
        render(&mut self.voices, block);
        self.position += len as u64;
        len
    }

    /// Computes the controls at the ends of the ticks that the next `len` samples touch.
    fn fill_controls(&mut self, len: usize) {
        let tick = TICK as u64;
        self.controls.clear();
        let mut now = self.position;
        while now < self.position + len as u64 {
            if now.is_multiple_of(tick) {
                self.glides.next();
            }
            self.controls.push(self.glides.now());
            now = (now / tick + 1) * tick;
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start { note, instrument, channel, key, velocity, pan } => {
                let pitch = self.pitch(key, channel);
                let voice = patch::voice(instrument, pitch, Touch { velocity, pan, seed: patch::seed(note) });
                self.make_room(note);
                let bus = match &self.parts {
                    Some(parts) => parts.get(note as usize).map_or(0, |part| usize::from(*part)),
                    None if self.config.buses == Buses::Stems => instrument as usize,
                    None => 0,
                };
                match self.voices.start(bus, &voice, self.position, self.glides.now()) {
                    Ok(Some(slot)) => self.notes.push(ActiveVoice { note, slot, instrument, channel, key }),
                    _ => self.n_dropped += 1,
                }
            }
            Action::Release { note } => {
                if let Some(found) = self.notes.iter().find(|sounding| sounding.note == note)
                    && !found.instrument.is_one_shot()
                {
                    self.voices.release(found.slot, self.position);
                    self.forget(note);
                }
            }
            Action::Bend { channel, semitones } => self.bend(channel, semitones),
            Action::Set { parameter, value } => self.glides.set(parameter, value),
        }
    }

    fn pitch(&self, key: u8, channel: u8) -> Pitch {
        Pitch { key, semitones: self.bends[usize::from(channel) % N_CHANNELS], sample_rate: self.config.sample_rate }
    }

    fn bend(&mut self, channel: u8, semitones: f32) {
        self.bends[usize::from(channel) % N_CHANNELS] = semitones;
        for index in 0..self.notes.len() {
            let ActiveVoice { slot, instrument, key, .. } = self.notes[index];
            if self.notes[index].channel == channel {
                let increments = self.pitch(key, channel).increments(instrument);
                self.voices.retune(slot, increments, self.position);
            }
        }
    }

    /// Fades out a note of the same name, and the oldest one where all voices are taken.
    fn make_room(&mut self, note: u64) {
        let Self { notes, voices, .. } = self;
        notes.retain(|sounding| voices.is_sounding(sounding.slot));
        let n_held = notes.iter().filter(|sounding| !voices.is_ending(sounding.slot)).count();
        let same = notes.iter().find(|sounding| sounding.note == note).copied();
        let oldest = notes.iter().find(|sounding| !voices.is_ending(sounding.slot)).copied();
        let oldest = oldest.filter(|_| same.is_none() && n_held >= self.config.max_voices);
        for sounding in same.into_iter().chain(oldest) {
            let samples = (FADE_SECONDS * f64::from(self.config.sample_rate)).round() as u32;
            self.voices.end(sounding.slot, self.position, Segment { samples, curve: 1.0 });
            self.forget(sounding.note);
        }
    }

    /// Frees the note's name for another note. Its slot stays listed for bends until it is silent.
    fn forget(&mut self, note: u64) {
        for sounding in self.notes.iter_mut().filter(|sounding| sounding.note == note) {
            sounding.note = NO_NOTE;
        }
    }
}

/// Renders each instrument under its own name in a trace.
fn render_parts(voices: &mut Voices, queue: Option<&Queue>, block: Block<'_>) {
    for instrument in Instrument::ALL {
        let bus = instrument as usize;
        let _span = voices.has_sound(bus).then(|| match instrument {
            Instrument::Pad => tracing::info_span!("chord").entered(),
            Instrument::Lead | Instrument::Pluck | Instrument::Bass => tracing::info_span!("melody").entered(),
            Instrument::Kick | Instrument::Hat => tracing::info_span!("percussion").entered(),
            Instrument::Swell => tracing::info_span!("swell").entered(),
        });
        match queue {
            Some(queue @ Queue::Cpu(_)) => voices.render_bus_on(queue, bus, block).unwrap_or_default(),
            _ => voices.render_bus(bus, block),
        }
    }
}

fn write_mix(voices: &Voices, out: Stem<'_>) {
    match voices.buses() {
        [_] => voices.write(0, out.left, out.right),
        buses => {
            for (index, (left, right)) in out.left.iter_mut().zip(out.right).enumerate() {
                *left = sample(buses.iter().map(|bus| bus.left[index]).sum());
                *right = sample(buses.iter().map(|bus| bus.right[index]).sum());
            }
        }
    }
}

fn sample(sum: i64) -> f32 {
    sum as f32 * (1.0 / UNIT)
}
