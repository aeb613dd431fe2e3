//! The messages of channels, as a synthesiser of General MIDI takes them.

use super::clock::Clock;
use super::parse::{ChannelMessage, Message, Timed, parse};
use crate::Result;

/// Reads the messages of all channels with their seconds, in order.
pub(in crate::synth) fn channel_messages(bytes: &[u8]) -> Result<Vec<(f64, ChannelMessage)>> {
    let file = parse(bytes)?;
    let mut clock = Clock::new(file.division);
    let mut found = Vec::new();
    for Timed { tick, message, .. } in file.messages {
        let seconds = clock.seconds(tick);
        match message {
            Message::Channel(message) => found.push((seconds, message)),
            Message::Tempo(tempo) => clock.set_tempo(tempo),
            Message::Control(..) | Message::End => {}
        }
    }
    Ok(found)
}
