//! Writes MP3 (MPEG-1 Layer III) with a variable bit rate.
//!
//! # Why only 32, 44.1 and 48 kHz?
//!
//! The encoder's MPEG-2 form, which 24 kHz would take, has no bit reservoir and a log-mel distance
//! 1.7 to 1.9 times LAME's. Speech at 24 kHz that is doubled to 48 kHz is closer to its original
//! than LAME's MPEG-2 at the same number of bytes.
//!
//! # Why a variable bit rate?
//!
//! With a constant one the encoder returns nothing before the end, because it moves bits between
//! frames. With a variable one every frame leaves at once: 24 ms at 48 kHz.

use std::fmt;
use std::io::{Seek, SeekFrom, Write};

use rusty_mp3::{Mp3Encoder, Mp3EncoderConfig};

use super::Layout;
use super::mp3_length::{MAX_SAMPLES, first_frame};
use super::rate_converter::RateConverter;
use crate::audio::resample::resampled_len;
use crate::{Error, Result};

/// Average kbit/s of one channel and of two.
const KBITS_PER_SECOND: [f32; 2] = [128.0, 192.0];

/// Writes MP3 incrementally.
pub(super) struct Writer<W> {
    sink: W,
    encoder: Mp3Encoder,
    rates: RateConverter,
    head: Head,
}

/// The first frame, which holds no sound but the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Still to come, and to be left out: a pipe cannot be completed later.
    Omit,
    /// Still to come, for so many samples per channel of the file.
    Sized(u64),
    /// To be written, and completed at the end.
    Keep,
    /// Behind us.
    Past,
}

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("layout", &self.rates.layout()).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a stream of `n_samples` per channel, if known, which [`Writer::finish`] ends.
    pub(super) fn piped(sink: W, layout: Layout, n_samples: Option<u64>) -> Result<Self> {
        let of_file = |n| resampled_len(n, layout.sample_rate, rate(layout.sample_rate));
        let can_tell = |n: &usize| *n as u64 <= MAX_SAMPLES;
        let n_samples = n_samples.and_then(|n| usize::try_from(n).ok()).filter(can_tell);
        let n_samples = n_samples.map(of_file).transpose()?.filter(can_tell);
        Self::build(sink, layout, n_samples.map_or(Head::Omit, |n| Head::Sized(n as u64)))
    }

    fn build(sink: W, layout: Layout, head: Head) -> Result<Self> {
        let Layout { sample_rate, n_channels } = layout;
        if !(1..=2).contains(&n_channels) {
            return Err(Error::invalid(format!("an MP3 file holds 1 or 2 channels, not {n_channels}"))
                .with_hint("write a WAV or FLAC file instead"));
        }
        let rates = RateConverter::new(layout, rate(sample_rate))?;
        let config = Mp3EncoderConfig { bitrate_kbps: 0, vbr_quality: Some(KBITS_PER_SECOND[n_channels - 1]) };
        Ok(Self { sink, encoder: Mp3Encoder::new(config), rates, head })
    }

    /// Appends interleaved samples, in whole frames.
    pub(super) fn write(&mut self, samples: &[f32]) -> Result<()> {
        self.rates.push(samples);
        self.encode()
    }

    fn encode(&mut self) -> Result<()> {
        let Layout { sample_rate, n_channels } = self.rates.layout();
        self.encoder.push_pcm_f32(self.rates.ready(), n_channels as u16, sample_rate).map_err(refused)?;
        self.drain()
    }

    fn drain(&mut self) -> Result<()> {
        while let Ok(frame) = self.encoder.next_packet() {
            let frame = match std::mem::replace(&mut self.head, Head::Past) {
                Head::Omit => continue,
                Head::Sized(n_samples) => first_frame(&frame, n_samples).unwrap_or_default(),
                Head::Keep | Head::Past => frame,
            };
            self.sink.write_all(&frame).map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.sink.flush().map_err(failed)
    }

    /// Finishes a pipe.
    pub(super) fn finish(mut self) -> Result<W> {
        self.end()?;
        self.flush()?;
        Ok(self.sink)
    }

    fn end(&mut self) -> Result<()> {
        self.rates.finish();
        self.encode()?;
        self.encoder.finish();
        self.drain()
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file, which [`Writer::seal`] ends.
    pub(super) fn new(sink: W, layout: Layout) -> Result<Self> {
        Self::build(sink, layout, Head::Keep)
    }

    /// Finishes a file: writes its length into the first frame, at position 0 of the sink.
    pub(super) fn seal(mut self) -> Result<W> {
        self.end()?;
        if let Some(head) = self.encoder.lame_tag_frame() {
            self.sink.seek(SeekFrom::Start(0)).map_err(failed)?;
            self.sink.write_all(head).map_err(failed)?;
            self.sink.seek(SeekFrom::End(0)).map_err(failed)?;
        }
        self.flush()?;
        Ok(self.sink)
    }
}

/// Returns the rate of a file for audio of `sample_rate`.
fn rate(sample_rate: u32) -> u32 {
    match sample_rate {
        32_000 => 32_000,
        _ if sample_rate.is_multiple_of(11_025) => 44_100,
        _ => 48_000,
    }
}

fn refused(error: rusty_mp3::Error) -> Error {
    Error::invalid(format!("MP3: {error}"))
}

fn failed(error: std::io::Error) -> Error {
    Error::io("writing MP3", error)
}
