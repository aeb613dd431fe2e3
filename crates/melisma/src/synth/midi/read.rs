//! Messages to a score.

use std::collections::VecDeque;

use super::clock::Clock;
use super::parse::{ChannelMessage, File, Message, Timed, parse};
use super::program::instrument;
use crate::synth::score::{Bend, Control, MAX_NOTES, MAX_SECONDS, Note, Score};
use crate::{Error, Result};

/// The largest bend, in semitones.
const MAX_BEND: f32 = 24.0;
/// The volume that leaves velocities as they are: General MIDI's default.
const FULL_VOLUME: u8 = 100;

impl Score {
    /// Reads a MIDI file. Volume and expression become part of a note's velocity, the pedal part of its duration; a drum
    /// is a kick or a hat.
    ///
    /// # Errors
    /// It is not a MIDI file of format 0 or 1, is truncated or contradicts itself, lasts for more than a day, or has more
    /// than a million notes. Messages name the byte.
    pub fn from_midi(bytes: &[u8]) -> Result<Self> {
        Ok(Player::play(&parse(bytes)?)?.finish())
    }
}

/// A channel's controllers.
#[derive(Debug, Clone)]
struct Channel {
    program: u8,
    volume: u8,
    expression: u8,
    pan: u8,
    pedal: bool,
    bend: i16,
    /// Semitones and cents.
    range: [u8; 2],
    /// The registered parameter that data entry sets; 0, 0 is the bend's range.
    registered: [u8; 2],
    /// A bit for each key that may have notes down, and that has notes that wait for the pedal.
    down: u128,
    held: u128,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            program: 0,
            volume: FULL_VOLUME,
            expression: 127,
            pan: 64,
            pedal: false,
            bend: 0,
            range: [2, 0],
            registered: [127, 127],
            down: 0,
            held: 0,
        }
    }
}

/// Notes of one key that have not ended, by their place in the score.
#[derive(Debug, Clone, Default)]
struct Key {
    /// Oldest first.
    down: VecDeque<usize>,
    /// Those that wait for the pedal.
    held: Vec<usize>,
}

pub(super) struct Player {
    score: Score,
    channels: [Channel; 16],
    /// By `128 channel + key`.
    keys: Vec<Key>,
    now: f64,
    has_tempo: bool,
}

impl Default for Player {
    fn default() -> Self {
        let score = Score::default();
        let keys = vec![Key::default(); 16 * 128];
        Self { score, channels: Default::default(), keys, now: 0.0, has_tempo: false }
    }
}

impl Player {
    /// Takes all messages of a file.
    pub(super) fn play(file: &File) -> Result<Self> {
        let mut clock = Clock::new(file.division);
        let mut player = Self::default();
        for &Timed { tick, message, .. } in &file.messages {
            let seconds = clock.seconds(tick);
            if seconds > MAX_SECONDS {
                return Err(Error::unsupported(format!("tick {tick} lies at {seconds:.0} s; at most {MAX_SECONDS} s"))
                    .with_hint("check the tempo and the times of the file, or cut it into parts"));
            }
            if let Message::Tempo(tempo) = message {
                clock.set_tempo(tempo);
            }
            player.take(seconds, message)?;
        }
        Ok(player)
    }

    /// Returns the place in the score of the note that each strike begins.
    pub(super) fn places(&self) -> Vec<u32> {
        self.score.places()
    }

    fn take(&mut self, now: f64, message: Message) -> Result<()> {
        self.now = now;
        match message {
            Message::Channel(message) => self.take_channel(message)?,
            Message::Tempo(tempo) if !self.has_tempo => {
                self.has_tempo = true;
                self.score.tempo = (60e6 / f64::from(tempo)).clamp(1.0, 1000.0);
            }
            Message::Control(parameter, value) => {
                self.score.controls.push(Control { at: now, parameter, value });
            }
            Message::Tempo(_) | Message::End => {}
        }
        Ok(())
    }

    fn take_channel(&mut self, message: ChannelMessage) -> Result<()> {
        match message {
            ChannelMessage::Strike { channel, key, velocity } => self.strike(channel, key, velocity)?,
            ChannelMessage::Lift { channel, key } => self.lift(channel, key),
            ChannelMessage::Controller { channel, number, value } => self.control(channel, number, value),
            ChannelMessage::Program { channel, program } => self.channels[usize::from(channel)].program = program,
            ChannelMessage::Bend { channel, value } => {
                self.channels[usize::from(channel)].bend = value;
                self.bend(channel);
            }
        }
        Ok(())
    }

    fn strike(&mut self, channel: u8, key: u8, velocity: u8) -> Result<()> {
        if self.score.notes.len() == MAX_NOTES {
            return Err(Error::unsupported(format!("more than {MAX_NOTES} notes")).with_hint("cut the file into parts"));
        }
        let state = &mut self.channels[usize::from(channel)];
        let (now, notes) = (self.now, &mut self.score.notes);
        let strings = &mut self.keys[slot(channel, key)];
        // A key that is played again under the pedal ends its earlier note.
        strings.held.drain(..).for_each(|index| end(&mut notes[index], now));
        let level = f32::from(state.volume) / f32::from(FULL_VOLUME) * (f32::from(state.expression) / 127.0);
        notes.push(Note {
            instrument: instrument(channel, state.program, key),
            start: now,
            duration: f64::NAN,
            key,
            velocity: (f32::from(velocity) / 127.0 * level).min(1.0),
            pan: ((f32::from(state.pan) - 64.0) / 63.0).max(-1.0),
            channel,
        });
        strings.down.push_back(notes.len() - 1);
        state.down |= 1 << key;
        Ok(())
    }

    fn lift(&mut self, channel: u8, key: u8) {
        let strings = &mut self.keys[slot(channel, key)];
        let Some(index) = strings.down.pop_front() else { return };
        let state = &mut self.channels[usize::from(channel)];
        if state.pedal {
            strings.held.push(index);
            state.held |= 1 << key;
        } else {
            end(&mut self.score.notes[index], self.now);
        }
    }

    fn control(&mut self, channel: u8, number: u8, value: u8) {
        let state = &mut self.channels[usize::from(channel)];
        match number {
            7 => state.volume = value,
            10 => state.pan = value,
            11 => state.expression = value,
            64 => {
                state.pedal = value >= 64;
                if !state.pedal {
                    self.let_go(channel);
                }
            }
            6 | 38 if state.registered == [0, 0] => {
                state.range[usize::from(number == 38)] = value;
                if state.bend != 0 {
                    self.bend(channel);
                }
            }
            98 | 99 => state.registered = [127, 127],
            100 => state.registered[1] = value,
            101 => state.registered[0] = value,
            // All sound off, all notes off, and the modes that include it.
            120 | 123..=127 => self.lift_all(channel),
            121 => {
                (state.expression, state.pedal, state.registered) = (127, false, [127, 127]);
                let was_bent = std::mem::take(&mut state.bend) != 0;
                self.let_go(channel);
                if was_bent {
                    self.bend(channel);
                }
            }
            _ => {}
        }
    }

    fn bend(&mut self, channel: u8) {
        let Channel { bend, range: [semitones, cents], .. } = self.channels[usize::from(channel)];
        let range = f32::from(semitones) + f32::from(cents) / 100.0;
        let semitones = (range * f32::from(bend) / 8192.0).clamp(-MAX_BEND, MAX_BEND);
        self.score.bends.push(Bend { at: self.now, channel, semitones });
    }

    fn let_go(&mut self, channel: u8) {
        let (now, notes) = (self.now, &mut self.score.notes);
        for key in bits(std::mem::take(&mut self.channels[usize::from(channel)].held)) {
            let strings = &mut self.keys[slot(channel, key)];
            strings.held.drain(..).for_each(|index| end(&mut notes[index], now));
        }
    }

    fn lift_all(&mut self, channel: u8) {
        self.let_go(channel);
        let (now, notes) = (self.now, &mut self.score.notes);
        for key in bits(std::mem::take(&mut self.channels[usize::from(channel)].down)) {
            let strings = &mut self.keys[slot(channel, key)];
            strings.down.drain(..).for_each(|index| end(&mut notes[index], now));
        }
    }

    /// Ends the notes that still sound at the end of the file.
    fn finish(mut self) -> Score {
        (0..16).for_each(|channel| self.lift_all(channel));
        self.score.sort();
        self.score
    }
}

/// Returns the indices of the bits that are set.
fn bits(mut word: u128) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let place = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (place < 128).then_some(place as u8)
    })
}

fn slot(channel: u8, key: u8) -> usize {
    usize::from(channel) * 128 + usize::from(key)
}

fn end(note: &mut Note, now: f64) {
    note.duration = now - note.start;
}
