//! Bytes to messages with their ticks. No length is trusted beyond the end of the bytes.

use super::OWN;
use super::clock::Division;
use crate::synth::parameter::Parameter;
use crate::{Error, Result};

/// The largest file.
const MAX_BYTES: usize = 64 << 20;
/// The most messages of a file.
const MAX_MESSAGES: usize = 8 << 20;

/// A message of a channel. Keys, values and programs are below 128, channels below 16.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::synth) enum ChannelMessage {
    Strike {
        channel: u8,
        key: u8,
        velocity: u8,
    },
    Lift {
        channel: u8,
        key: u8,
    },
    Controller {
        channel: u8,
        number: u8,
        value: u8,
    },
    Program {
        channel: u8,
        program: u8,
    },
    /// -8192 to 8191.
    Bend {
        channel: u8,
        value: i16,
    },
}

/// The MIDI messages that a score needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Message {
    Channel(ChannelMessage),
    /// Microseconds of a beat, at least 1.
    Tempo(u32),
    Control(Parameter, f32),
    End,
}

/// A message and the ticks before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Timed {
    pub(super) tick: u64,
    pub(super) message: Message,
    /// Counted from 1.
    pub(super) track: u16,
}

/// All messages of all tracks, by their ticks; simultaneous ones stay in the order of the tracks.
pub(super) struct File {
    pub(super) division: Division,
    pub(super) messages: Vec<Timed>,
    /// The name of each track, or empty.
    pub(super) names: Vec<String>,
    /// Whether it has format 0, one track for all channels.
    pub(super) is_single: bool,
}

pub(super) fn parse(bytes: &[u8]) -> Result<File> {
    if bytes.len() > MAX_BYTES {
        return Err(Error::unsupported(format!("the MIDI file has {} bytes; at most {MAX_BYTES}", bytes.len()))
            .with_hint("cut it into parts"));
    }
    let mut reader = Reader { bytes, at: 0 };
    let (n_tracks, division, is_single) = header(&mut reader)?;
    let (mut messages, mut names) = (Vec::new(), Vec::new());
    let mut found = 0;
    while found < n_tracks {
        if reader.rest().is_empty() {
            let message = format!("byte {}: the header says {n_tracks} tracks, the file ends after {found}", reader.at);
            return Err(Error::truncated(message).with_hint("the file was cut off: make or fetch it again"));
        }
        let (name, body) = reader.chunk()?;
        // Chunks of other kinds may appear anywhere and are skipped.
        if name == *b"MTrk" {
            found += 1;
            let place = body.at;
            let read = track(body, found, &mut messages);
            names.push(read.map_err(|error| error.at(format!("track {found} at byte {place}")))?);
        }
    }
    messages.sort_by_key(|timed: &Timed| timed.tick);
    Ok(File { division, messages, names, is_single })
}

fn header(reader: &mut Reader<'_>) -> Result<(u16, Division, bool)> {
    if reader.rest().starts_with(b"RIFF") && reader.rest().get(8..12) == Some(b"RMID") {
        unwrap_riff(reader)?;
    }
    if !reader.rest().starts_with(b"MThd") {
        let message = format!("byte {}: not a MIDI file: it does not begin with MThd", reader.at);
        return Err(Error::unsupported(message).with_hint("scores are .mid or .json files"));
    }
    let (_, mut body) = reader.chunk()?;
    let [format, n_tracks, division] = [body.u16()?, body.u16()?, body.u16()?];
    if format > 1 {
        return Err(Error::unsupported(format!("byte 8: MIDI format {format}; 0 and 1 are read"))
            .with_hint("save it as format 1"));
    }
    let division = match division.to_be_bytes() {
        [0..0x80, _] if division > 0 => Division::Beat(division),
        [frames, ticks] if ticks > 0 => match 0u8.wrapping_sub(frames) {
            29 => Division::Second { ticks: 30_000 * u32::from(ticks), per: 1001 },
            frames @ (24 | 25 | 30) => Division::Second { ticks: u32::from(frames) * u32::from(ticks), per: 1 },
            frames => return Err(damaged(12, format!("{frames} frames a second; 24, 25, 29 and 30 exist"))),
        },
        _ => return Err(damaged(12, "a beat has 0 ticks".to_owned())),
    };
    Ok((n_tracks, division, format == 0))
}

/// Skips to the MIDI file inside RIFF, the content of the chunk `data`. Other chunks, such as `LIST` or `DISP`, may come
/// before it.
fn unwrap_riff(reader: &mut Reader<'_>) -> Result<()> {
    reader.take(12)?;
    loop {
        let head = reader.take(8)?;
        if head.starts_with(b"data") {
            return Ok(());
        }
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        // Chunks of odd length are followed by a byte of padding.
        reader.take(len + len % 2)?;
    }
}

/// Reads a track, the messages behind those of others, and returns its name.
fn track(mut reader: Reader<'_>, track: u16, messages: &mut Vec<Timed>) -> Result<String> {
    let (mut tick, mut name) = (0u64, String::new());
    let mut running = None;
    while !reader.rest().is_empty() {
        tick += u64::from(reader.number()?);
        let at = reader.at;
        let first = reader.byte()?;
        let message = match first {
            0xff => match meta(&mut reader, &mut name)? {
                Some(Message::End) => {
                    messages.push(Timed { tick, message: Message::End, track });
                    return Ok(name);
                }
                message => message,
            },
            0xf0 | 0xf7 => {
                let len = reader.number()?;
                reader.take(len as usize)?;
                None
            }
            0xf1..=0xfe => return Err(damaged(at, format!("status {first:#04x}, which no file may hold"))),
            // Running status outlives meta events here: the standard ends it, many programs do not.
            0..=0x7f => match running {
                Some(status) => channel(&mut reader, status, Some(first))?,
                None => return Err(damaged(at, format!("data byte {first:#04x} comes before any status"))),
            },
            status => {
                running = Some(status);
                channel(&mut reader, status, None)?
            }
        };
        if let Some(message) = message {
            if messages.len() == MAX_MESSAGES {
                return Err(Error::unsupported(format!("byte {at}: more than {MAX_MESSAGES} messages")));
            }
            messages.push(Timed { tick, message, track });
        }
    }
    // A track without an end event is accepted.
    messages.push(Timed { tick, message: Message::End, track });
    Ok(name)
}

fn channel(reader: &mut Reader<'_>, status: u8, first: Option<u8>) -> Result<Option<Message>> {
    let channel = status & 15;
    let a = match first {
        Some(byte) => byte,
        None => reader.data()?,
    };
    let b = if matches!(status >> 4, 0xc | 0xd) { 0 } else { reader.data()? };
    let message = match status >> 4 {
        0x8 => Some(ChannelMessage::Lift { channel, key: a }),
        0x9 if b == 0 => Some(ChannelMessage::Lift { channel, key: a }),
        0x9 => Some(ChannelMessage::Strike { channel, key: a, velocity: b }),
        0xb => Some(ChannelMessage::Controller { channel, number: a, value: b }),
        0xc => Some(ChannelMessage::Program { channel, program: a }),
        0xe => Some(ChannelMessage::Bend { channel, value: i16::from(a) + (i16::from(b) << 7) - 8192 }),
        _ => None,
    };
    Ok(message.map(Message::Channel))
}

fn meta(reader: &mut Reader<'_>, name: &mut String) -> Result<Option<Message>> {
    let kind = reader.byte()?;
    let len = reader.number()?;
    let at = reader.at;
    let body = reader.take(len as usize)?;
    Ok(match (kind, body) {
        (0x2f, _) => Some(Message::End),
        (0x03, text) if name.is_empty() => {
            *name = text_of(text);
            None
        }
        (0x51, &[a, b, c]) => match u32::from_be_bytes([0, a, b, c]) {
            0 => {
                return Err(damaged(at, "the tempo is 0 microseconds a beat".to_owned()));
            }
            tempo => Some(Message::Tempo(tempo)),
        },
        (0x51, _) => return Err(damaged(at, format!("a tempo of {len} bytes; it has 3"))),
        (0x7f, &[id, mark, index, a, b, c, d]) if [id, mark] == OWN => {
            let value = f32::from_be_bytes([a, b, c, d]);
            let parameter = Parameter::ALL.get(usize::from(index)).copied();
            let is_sane = |parameter: &Parameter| {
                let [low, high] = parameter.range();
                (low..=high).contains(&value)
            };
            parameter.filter(is_sane).map(|parameter| Message::Control(parameter, value))
        }
        _ => None,
    })
}

/// Returns a text in UTF-8, or in Latin-1, which older programs write.
fn text_of(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.iter().map(|&byte| char::from(byte)).collect(), str::to_owned)
}

/// A part of the file; `at` counts from the file's beginning.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.rest().get(..len).ok_or_else(|| {
            let left = self.rest().len();
            Error::truncated(format!("byte {}: {len} bytes are announced, {left} are left", self.at))
                .with_hint("the file was cut off or damaged: make or fetch it again")
        })?;
        self.at += len;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Returns a data byte, below 128.
    fn data(&mut self) -> Result<u8> {
        let at = self.at;
        match self.byte()? {
            byte @ 0..0x80 => Ok(byte),
            byte => Err(damaged(at, format!("{byte:#04x} where a value below 0x80 belongs"))),
        }
    }

    /// Reads seven bits a byte, the highest first, four bytes at most.
    fn number(&mut self) -> Result<u32> {
        let at = self.at;
        let mut value = 0;
        for _ in 0..4 {
            let byte = self.byte()?;
            value = value << 7 | u32::from(byte & 0x7f);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged(at, "a number of more than four bytes".to_owned()))
    }

    /// Returns a chunk's name and its body. A last track that is cut off inside of its announced length fails where
    /// it ends.
    fn chunk(&mut self) -> Result<([u8; 4], Self)> {
        let head = self.take(8)?;
        let name = [head[0], head[1], head[2], head[3]];
        let len = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let start = self.at;
        self.take(len as usize)?;
        Ok((name, Self { bytes: &self.bytes[..self.at], at: start }))
    }
}

fn damaged(at: usize, what: String) -> Error {
    Error::corrupt(format!("byte {at}: {what}")).with_hint("the file is damaged: make or fetch it again")
}
