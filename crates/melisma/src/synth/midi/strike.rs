//! The strikes of a MIDI file: which note each begins, and in which track it lies.

use super::parse::{ChannelMessage, Message, Timed, parse};
use super::read::Player;
use crate::Result;

/// All strikes, in the order of the file's messages.
pub(in crate::synth) struct Strikes {
    /// The place of each one's note in the score.
    pub(in crate::synth) notes: Vec<u32>,
    /// Its track, counted from 1; in a file of format 0 its channel.
    pub(in crate::synth) tracks: Vec<u16>,
    /// The name of each track, or empty.
    pub(in crate::synth) names: Vec<String>,
}

/// Reads the strikes of the file that [`Score::from_midi`](crate::synth::Score::from_midi) reads.
pub(in crate::synth) fn strikes(bytes: &[u8]) -> Result<Strikes> {
    let file = parse(bytes)?;
    let notes = Player::play(&file)?.places();
    let track = |timed: &Timed| match timed.message {
        Message::Channel(ChannelMessage::Strike { channel, .. }) if file.is_single => Some(u16::from(channel) + 1),
        Message::Channel(ChannelMessage::Strike { .. }) => Some(timed.track),
        _ => None,
    };
    let tracks = file.messages.iter().filter_map(track).collect();
    let names = if file.is_single { vec!["channel".to_owned(); 16] } else { file.names };
    Ok(Strikes { notes, tracks, names })
}
