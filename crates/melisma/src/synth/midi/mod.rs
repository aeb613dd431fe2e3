//! Reads and writes standard MIDI files.
//!
//! Times are exact: ticks are added up as integers and converted to seconds once, so a note starts at the sample of the
//! tempo map, however long the file is. The reader takes files of format 0 and 1 with running status, tempo changes, the
//! sustain pedal, pitch bend with its range, volume, expression and pan. Controls of scores are written as
//! sequencer-specific events, which other programs skip.
//!
//! # Why our own reader?
//!
//! About 500 lines enforce our limits and name the byte of every error. A composed piece comes back
//! from a MIDI file bit for bit.

mod channel;
mod clock;
mod parse;
mod program;
mod read;
mod strike;
mod write;

pub(super) use channel::channel_messages;
pub(super) use parse::ChannelMessage;
pub(super) use strike::{Strikes, strikes};

/// Ticks of a beat in composed pieces, and at most in files that are written.
pub(super) const DIVISION: u16 = 9600;
/// MIDI's percussion channel, counted from 0.
const DRUMS: u8 = 9;
/// The manufacturer number for private use, and our mark.
const OWN: [u8; 2] = [0x7d, b'm'];
/// Microseconds of a beat at MIDI's default of 120 beats per minute.
const DEFAULT_TEMPO: u32 = 500_000;

#[cfg(test)]
mod tests;
