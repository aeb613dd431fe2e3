//! Writes Opus in Ogg (RFC 6716, RFC 7845).

use std::fmt;
use std::io::Write;

use opus_pure::{Application, MAX_PACKET_BYTES, OggOpusWriter, OpusEncoder, OpusHead};

use super::Layout;
use super::rate_converter::RateConverter;
use crate::{Error, Result};

/// Bits per second and channel.
const BIT_RATE: i32 = 64_000;
/// Packets per second.
const PACKETS: u32 = 50;
/// The rate that positions in a file count in.
const TICKS: u32 = 48_000;

/// Writes Opus incrementally.
pub(super) struct Writer<W: Write> {
    ogg: OggOpusWriter<W>,
    encoder: OpusEncoder,
    rates: RateConverter,
    /// Samples that wait for a full packet, interleaved.
    waiting: Vec<f32>,
    packet: Vec<u8>,
    /// Samples per channel.
    n_samples: u64,
    n_packets: u64,
    /// Ticks at the start that a player drops.
    pre_skip: u64,
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("layout", &self.rates.layout()).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a file whose pages hold about a second.
    pub(super) fn new(sink: W, layout: Layout) -> Result<Self> {
        let Layout { sample_rate, n_channels } = layout;
        if !(1..=2).contains(&n_channels) {
            return Err(Error::invalid(format!("an Opus file holds 1 or 2 channels, not {n_channels}"))
                .with_hint("write a WAV or FLAC file instead"));
        }
        let rates = RateConverter::new(layout, rate(sample_rate))?;
        let coded = rates.layout();
        let mut encoder = OpusEncoder::new(coded.sample_rate as i32, n_channels, Application::Audio).map_err(failed)?;
        encoder.bitrate_bps = BIT_RATE * n_channels as i32;
        let head = OpusHead::for_encoder(&encoder, sample_rate);
        let pre_skip = u64::from(head.pre_skip);
        let ogg = OggOpusWriter::new(sink, head).map_err(failed)?;
        let packet = vec![0; MAX_PACKET_BYTES];
        Ok(Self { ogg, encoder, rates, waiting: Vec::new(), packet, n_samples: 0, n_packets: 0, pre_skip })
    }

    /// Begins a stream in which every packet is a page of its own, so that it leaves with the next
    /// one.
    pub(super) fn piped(sink: W, layout: Layout) -> Result<Self> {
        let mut writer = Self::new(sink, layout)?;
        writer.ogg.set_page_target(1);
        Ok(writer)
    }

    /// Appends interleaved samples, in whole frames.
    pub(super) fn write(&mut self, samples: &[f32]) -> Result<()> {
        self.rates.push(samples);
        self.take_ready();
        let len = self.packet_samples() * self.rates.layout().n_channels;
        let n_whole = self.waiting.len() / len;
        for k in 0..n_whole {
            let n = self.encode(k * len..(k + 1) * len)?;
            self.ogg.write_packet(&self.packet[..n]).map_err(failed)?;
        }
        self.waiting.drain(..n_whole * len);
        Ok(())
    }

    fn take_ready(&mut self) {
        let ready = self.rates.ready();
        self.n_samples += (ready.len() / self.rates.layout().n_channels) as u64;
        self.waiting.extend_from_slice(ready);
    }

    /// Returns the number of samples of a packet, per channel.
    fn packet_samples(&self) -> usize {
        (self.rates.layout().sample_rate / PACKETS) as usize
    }

    fn encode(&mut self, range: std::ops::Range<usize>) -> Result<usize> {
        let n_samples = self.packet_samples();
        self.n_packets += 1;
        self.encoder.encode(&self.waiting[range], n_samples, &mut self.packet).map_err(failed)
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.ogg.get_mut().map_or(Ok(()), |sink| sink.flush().map_err(|error| Error::io("writing Opus", error)))
    }

    /// Ends the file where the audio ends: the last samples leave the encoder with silence behind
    /// them, which the last position cuts off.
    pub(super) fn finish(mut self) -> Result<W> {
        self.rates.finish();
        self.take_ready();
        let Layout { sample_rate, n_channels } = self.rates.layout();
        let (ticks, n_samples) = (u64::from(TICKS / sample_rate), self.packet_samples());
        let coded = self.n_samples + self.pre_skip.div_ceil(ticks);
        let rest = coded.div_ceil(n_samples as u64) - self.n_packets;
        self.waiting.resize(rest as usize * n_samples * n_channels, 0.0);
        let end = self.pre_skip + self.n_samples * ticks;
        for k in 0..rest as usize {
            let n = self.encode(k * n_samples * n_channels..(k + 1) * n_samples * n_channels)?;
            let duration = (n_samples as u64 * ticks).min(end - self.ogg.granule() as u64);
            self.ogg.write_packet_with_duration(&self.packet[..n], duration as u32).map_err(failed)?;
        }
        self.ogg.finish().map_err(failed)
    }
}

/// Returns the rate that audio of `sample_rate` is coded at.
fn rate(sample_rate: u32) -> u32 {
    if [8000, 12_000, 16_000, 24_000].contains(&sample_rate) { sample_rate } else { TICKS }
}

fn failed(error: opus_pure::Error) -> Error {
    match error {
        opus_pure::Error::Io(error) => Error::io("writing Opus", error),
        error => Error::invalid(format!("Opus: {error}")),
    }
}
