//! A sequence on a SoundFont, from its first sample to the last.

use rustysynth::{Synthesizer, SynthesizerSettings};

use std::sync::Arc;

use super::{Sequence, SoundFont, guarded};
use crate::synth::midi::ChannelMessage;
use crate::synth::part::Parts;
use crate::{Error, Result};

/// Samples after which messages take effect.
const RASTER: usize = 64;
/// The most voices that the crate allows.
const MAX_VOICES: usize = 256;
/// The rates that the crate allows, in Hz.
const RATES: std::ops::RangeInclusive<u32> = 16_000..=192_000;
/// A player is over after so many seconds of silence, or so many after its last message.
const QUIET_SECONDS: u64 = 1;
const LONGEST_TAIL_SECONDS: u64 = 120;
/// Frequency below which sound is removed: samples may have an offset, which the reverb and the delay would amplify.
const LOWEST_HZ: f64 = 5.0;
/// MIDI's controllers for the pedal and for the end of all notes.
const PEDAL: u8 = 64;
const ALL_NOTES_OFF: u8 = 123;

/// Who plays the reverb and the chorus of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sends {
    /// The synthesizer, as the controllers 91 and 93 of each channel ask.
    Channels,
    /// Our bus, which the piece itself moves.
    Bus,
}

/// A high-pass of one pole: what came in and what went out before.
#[derive(Debug, Clone, Copy, Default)]
struct HighPass {
    before: f32,
    out: f32,
}

impl HighPass {
    fn process(&mut self, samples: &mut [f32], pole: f32) {
        for sample in samples {
            let out = pole.mul_add(self.out, *sample - self.before);
            // Silence becomes exact.
            *self = Self { before: *sample, out: if out.abs() < 1e-20 { 0.0 } else { out } };
            *sample = self.out;
        }
    }
}

/// Plays messages at their samples; the bits do not depend on the blocks that are asked for.
pub(in crate::synth) struct Player {
    synthesizer: Synthesizer,
    font: SoundFont,
    messages: Arc<[(u64, ChannelMessage)]>,
    /// The note of each strike.
    strikes: Arc<[u32]>,
    sends: Sends,
    /// The only part whose strikes are heard.
    only: Option<(Parts, usize)>,
    n_struck: usize,
    next: usize,
    position: u64,
    /// Samples of silence up to now.
    n_quiet: u64,
    high_passes: [HighPass; 2],
    /// The pole of both.
    pole: f32,
    sample_rate: u32,
    /// A bit for each key that is down, by channel.
    down: [u128; 16],
}

impl std::fmt::Debug for Player {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Player").field("next", &self.next).field("position", &self.position).finish_non_exhaustive()
    }
}

impl Player {
    pub(in crate::synth) fn new(sequence: &Sequence, font: &SoundFont, sample_rate: u32) -> Result<Self> {
        let mut messages = sequence.at_rate(sample_rate);
        let end = messages.last().map_or(0, |(at, _)| *at);
        // A file may leave keys or pedals down.
        for channel in 0..16 {
            for (number, value) in [(PEDAL, 0), (ALL_NOTES_OFF, 0)] {
                messages.push((end, ChannelMessage::Controller { channel, number, value }));
            }
        }
        let sends = if sequence.score().controls.is_empty() { Sends::Channels } else { Sends::Bus };
        Self::with(messages.into(), sequence.strikes(), sends, (font, sample_rate))
    }

    /// Creates a player of one part alone, from the beginning on. It gets all other messages as well.
    pub(in crate::synth) fn part(&self, parts: &Parts, part: usize) -> Result<Self> {
        let (messages, strikes) = (Arc::clone(&self.messages), Arc::clone(&self.strikes));
        let player = Self::with(messages, strikes, self.sends, (&self.font, self.sample_rate))?;
        Ok(Self { only: Some((parts.clone(), part)), ..player })
    }

    fn with(
        messages: Arc<[(u64, ChannelMessage)]>,
        strikes: Arc<[u32]>,
        sends: Sends,
        (font, sample_rate): (&SoundFont, u32),
    ) -> Result<Self> {
        if !RATES.contains(&sample_rate) {
            let message = format!("a SoundFont is played at 16000 to 192000 Hz, not at {sample_rate}");
            return Err(Error::unsupported(message).with_hint("use a higher sample rate"));
        }
        let mut settings = SynthesizerSettings::new(sample_rate as i32);
        settings.block_size = RASTER;
        settings.maximum_polyphony = MAX_VOICES;
        settings.enable_reverb_and_chorus = sends == Sends::Channels;
        let synthesizer = guarded(|| {
            let made = Synthesizer::new(&font.font, &settings);
            made.map_err(|error| Error::invalid(format!("SoundFont: {error}")))
        })?;
        Ok(Self {
            synthesizer,
            font: font.clone(),
            messages,
            strikes,
            sends,
            only: None,
            n_struck: 0,
            next: 0,
            position: 0,
            n_quiet: 0,
            high_passes: [HighPass::default(); 2],
            pole: (-std::f64::consts::TAU * LOWEST_HZ / f64::from(sample_rate)).exp() as f32,
            sample_rate,
            down: [0; 16],
        })
    }

    /// Returns the number of notes.
    pub(in crate::synth) fn n_strikes(&self) -> usize {
        self.strikes.len()
    }

    pub(in crate::synth) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the sample of the last message.
    pub(in crate::synth) fn end(&self) -> u64 {
        self.messages.last().map_or(0, |(at, _)| *at)
    }

    /// Returns the sample at which nothing sounds any more, at the latest, with a second for the last block.
    pub(in crate::synth) fn longest(&self) -> u64 {
        self.end() + (LONGEST_TAIL_SECONDS + 1) * u64::from(self.sample_rate)
    }

    /// Returns the number of keys that are down.
    pub(in crate::synth) fn n_keys(&self) -> usize {
        self.down.iter().map(|keys| keys.count_ones() as usize).sum()
    }

    /// Returns whether nothing more will sound.
    pub(in crate::synth) fn is_over(&self) -> bool {
        let rate = u64::from(self.sample_rate);
        let tail = self.position.saturating_sub(self.end());
        self.next == self.messages.len()
            && (self.n_quiet.min(tail) >= QUIET_SECONDS * rate || tail >= LONGEST_TAIL_SECONDS * rate)
    }

    /// Renders the next samples.
    pub(in crate::synth) fn render(&mut self, left: &mut [f32], right: &mut [f32]) -> Result<()> {
        let mut done = 0;
        while done < left.len() {
            while let Some((_, message)) = self.messages.get(self.next).filter(|(at, _)| *at <= self.position).copied()
            {
                guarded(|| {
                    self.send(message);
                    Ok(())
                })?;
                self.next += 1;
            }
            let until = self.messages.get(self.next).map_or(u64::MAX, |(at, _)| at - self.position);
            let n = usize::try_from(until).unwrap_or(usize::MAX).min(left.len() - done);
            let (left, right) = (&mut left[done..done + n], &mut right[done..done + n]);
            guarded(|| {
                self.synthesizer.render(left, right);
                Ok(())
            })?;
            for sample in left.iter_mut().chain(right.iter_mut()) {
                // Tables of a damaged file may lead to NaN.
                *sample = if sample.is_finite() { *sample } else { 0.0 };
            }
            let sounding = left.iter().zip(&*right).rposition(|(left, right)| *left != 0.0 || *right != 0.0);
            self.n_quiet = sounding.map_or(self.n_quiet + n as u64, |last| (n - 1 - last) as u64);
            for (filter, side) in self.high_passes.iter_mut().zip([left, right]) {
                filter.process(side, self.pole);
            }
            self.position += n as u64;
            done += n;
        }
        Ok(())
    }

    /// Returns whether a message is for this player: all but the strikes of other parts.
    fn is_heard(&mut self, message: ChannelMessage) -> bool {
        let ChannelMessage::Strike { .. } = message else { return true };
        let note = self.strikes.get(self.n_struck).map_or(usize::MAX, |note| *note as usize);
        self.n_struck += 1;
        self.only.as_ref().is_none_or(|(parts, part)| parts.has(*part, note))
    }

    fn send(&mut self, message: ChannelMessage) {
        if !self.is_heard(message) {
            return;
        }
        let (channel, command, a, b) = match message {
            ChannelMessage::Strike { channel, key, velocity } => {
                self.down[usize::from(channel & 15)] |= 1 << (key & 127);
                (channel, 0x90, key, velocity)
            }
            ChannelMessage::Lift { channel, key } => {
                self.down[usize::from(channel & 15)] &= !(1 << (key & 127));
                (channel, 0x80, key, 0)
            }
            ChannelMessage::Controller { channel, number, value } => {
                if number == ALL_NOTES_OFF {
                    self.down[usize::from(channel & 15)] = 0;
                }
                (channel, 0xb0, number, value)
            }
            ChannelMessage::Program { channel, program } => (channel, 0xc0, program, 0),
            ChannelMessage::Bend { channel, value } => {
                let bend = (i32::from(value) + 8192).clamp(0, 16_383);
                (channel, 0xe0, (bend & 127) as u8, (bend >> 7) as u8)
            }
        };
        self.synthesizer.process_midi_message(i32::from(channel), command, i32::from(a), i32::from(b));
    }
}
