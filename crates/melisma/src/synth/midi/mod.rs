//! Standard MIDI files, read and written.
//!
//! Times are exact: ticks are added up as integers and become seconds once, so a note starts at the sample that the tempo map says,
//! however long the file. Files of format 0 and 1 are read, with running status, tempo changes, the sustain pedal, pitch bend with its range,
//! volume, expression and pan. Controls of scores travel as sequencer-specific events, which other programs skip.
//!
//! # Why our own reader?
//!
//! It is small, its limits are ours, and every error names its byte. A composed piece comes back
//! from a MIDI file bit for bit.

mod clock;
mod parse;
mod program;
mod read;
mod write;

/// The most ticks of a beat in files that are written, and those that composed pieces are made of.
pub(super) const DIVISION: u16 = 9600;
/// MIDI's percussion channel, counted from 0.
const DRUMS: u8 = 9;
/// The manufacturer number for private use, and our mark.
const OWN: [u8; 2] = [0x7d, b'm'];
/// One time a beat at MIDI's default of 120 beats a minute, in microseconds.
const DEFAULT_TEMPO: u32 = 500_000;

#[cfg(test)]
mod tests;
