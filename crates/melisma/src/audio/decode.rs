//! Decodes compressed audio with symphonia to one channel, sequentially, from a file or a pipe.

mod count;
mod live;
mod matroska;
mod opus;
mod registry;

pub(super) use opus::pre_skip_in_ogg;

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use symphonia::core::codecs::audio::well_known::{CODEC_ID_MP3, CODEC_ID_OPUS};
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Symphonia;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::well_known::{
    FORMAT_ID_ADTS, FORMAT_ID_FLAC, FORMAT_ID_ISOMP4, FORMAT_ID_MKV, FORMAT_ID_MP3, FORMAT_ID_OGG,
};
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::packet::Packet;
use symphonia::core::units::Duration;

use super::Channel;
use super::check::{Format, Watch};
use super::clipping::Clipping;
use super::edit::Edits;
use super::file::{needs_file, open_regular};
use super::wav::MAX_SAMPLE_RATE;
use crate::{Error, Result};

const MAX_CHANNELS: usize = 256;
/// Larger files are rejected, because the decoder's own limits do not cover all formats.
const MAX_BYTES: u64 = 16 << 30;
/// The longest packet, in bytes.
const MAX_PACKET: usize = 32 << 20;

/// An open file or pipe. Samples before the current position are dropped; seeking back decodes from
/// the start, which a pipe cannot do.
pub(super) struct Decoder {
    /// `None` for a pipe.
    path: Option<PathBuf>,
    /// The check of a pipe; a file was checked before.
    watch: Option<Watch>,
    channel: Channel,
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    options: AudioDecoderOptions,
    track: u32,
    sample_rate: u32,
    n_channels: usize,
    /// Which of the decoded samples are audio.
    edits: Edits,
    /// Samples before the first one, by the granule positions of the streams in an Ogg file.
    n_before: u64,
    /// Whether the next packet is the first one of an Ogg stream.
    is_start: bool,
    /// Whether the end of an MP3 file is only an estimate from its first bit rates, which would cut
    /// off audio.
    is_estimated: bool,
    /// The declared samples of the last packet.
    last_packet: u64,
    /// Decoded mono samples from `start` on that may still be requested.
    ready: Vec<f32>,
    start: u64,
    interleaved: Vec<f32>,
    clipping: Clipping,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("path", &self.path).field("start", &self.start).finish_non_exhaustive()
    }
}

impl Decoder {
    pub(super) fn open(path: &Path, channel: Channel) -> Result<Self> {
        guarded(|| Self::of_file(path, channel, AudioDecoderOptions::default()))
    }

    pub(super) fn sample_rate(&self) -> u32 {
        self.sample_rate
    }

    pub(super) fn n_channels(&self) -> usize {
        self.n_channels
    }

    fn of_file(path: &Path, channel: Channel, options: AudioDecoderOptions) -> Result<Self> {
        let file = open_regular(path)?;
        let len = file.metadata().map_err(|error| Error::io("its size", error))?.len();
        if len > MAX_BYTES {
            return Err(Error::unsupported(format!("{len} bytes; compressed files of at most {MAX_BYTES} are read")));
        }
        Self::new(Box::new(file), Some(path), channel, options)
    }

    fn new(
        source: Box<dyn MediaSource>,
        path: Option<&Path>,
        channel: Channel,
        options: AudioDecoderOptions,
    ) -> Result<Self> {
        let stream = MediaSourceStream::new(source, MediaSourceStreamOptions::default());
        let mut hint = Hint::new();
        if let Some(suffix) = path.and_then(|path| path.extension()?.to_str()) {
            hint.with_extension(suffix);
        }
        let probed = registry::PROBE.probe(&hint, stream, FormatOptions::default(), MetadataOptions::default());
        let format = probed.map_err(|error| match error {
            Symphonia::Unsupported(_) => Error::unsupported("its audio format is not known"),
            error => failed(error),
        })?;
        let (track, decoder) = (audio_track(&*format)?.id, registry::decoder(&*format, &options)?);
        let mut opened = Self {
            path: path.map(Path::to_owned),
            watch: None,
            channel,
            format,
            decoder,
            options,
            track,
            sample_rate: 0,
            n_channels: 0,
            edits: Edits::all(),
            n_before: 0,
            is_start: false,
            is_estimated: false,
            last_packet: 0,
            ready: Vec::new(),
            start: 0,
            interleaved: Vec::new(),
            clipping: Clipping::default(),
        };
        opened.edits = opened.edits()?;
        // The rate and the channels come from the decoded audio: some containers declare other
        // values.
        opened.decode()?;
        match opened.n_channels {
            0 => Err(Error::truncated("the file holds no samples")),
            _ => Ok(opened),
        }
    }

    /// Returns which samples of the current track are audio.
    fn edits(&mut self) -> Result<Edits> {
        let track = audio_track(&*self.format)?;
        let (delay, n_frames) = (u64::from(track.delay.unwrap_or(0)), track.num_frames.filter(|&n| n > 0));
        let codec = self.decoder.codec_params().codec;
        match self.format.format_info().format {
            FORMAT_ID_OGG => {
                self.is_start = true;
                Ok(Edits::all())
            }
            FORMAT_ID_ISOMP4 => {
                let rate = self.decoder.codec_params().sample_rate.unwrap_or(0);
                let rate = if self.is_opus() { opus::RATE } else { rate };
                let path = self.path.as_ref().ok_or_else(needs_file)?;
                let edits = Edits::of_mp4(&open_regular(path)?, track.id, rate)?;
                let edits = if edits == Edits::all() { Edits::span(self.pre_skip()?, u64::MAX) } else { edits };
                Ok(edits.until(n_frames.unwrap_or(u64::MAX)))
            }
            FORMAT_ID_MKV => Ok(Edits::span(delay, u64::MAX)),
            _ if codec == CODEC_ID_MP3 => {
                // Only the LAME tag, which has a delay, says how much padding the encoder added at
                // the end.
                self.is_estimated = delay == 0;
                Ok(Edits::all())
            }
            _ => Ok(Edits::span(delay, n_frames.map_or(u64::MAX, |n| n.saturating_add(delay)))),
        }
    }

    /// Sets the clock of an Ogg stream by its first packet. Samples before 0 are not audio; the
    /// decoder itself removes the trim. Opus counts its pre-skip.
    fn start_clock(&mut self, packet: &Packet) -> Result<()> {
        let first = packet.pts.get().saturating_add_unsigned(packet.trim_start.get());
        if self.is_opus() && first < 0 {
            let message = format!("the clock of an Opus stream begins {} samples before 0", first.unsigned_abs());
            return Err(Error::corrupt(message));
        }
        self.n_before = self.n_before.saturating_add(first.max(0).unsigned_abs());
        self.edits = Edits::span(first.min(0).unsigned_abs() + self.pre_skip()?, u64::MAX);
        Ok(())
    }

    fn is_opus(&self) -> bool {
        self.decoder.codec_params().codec == CODEC_ID_OPUS
    }

    /// Returns the samples at the start of an Opus stream that are not audio.
    fn pre_skip(&self) -> Result<u64> {
        opus::pre_skip(self.decoder.codec_params())
    }

    fn checked_format(&self) -> Option<Format> {
        match self.format.format_info().format {
            FORMAT_ID_FLAC => Some(Format::Flac),
            FORMAT_ID_OGG => Some(Format::Ogg),
            FORMAT_ID_MP3 => Some(Format::Mp3),
            FORMAT_ID_ADTS => Some(Format::Adts),
            _ => None,
        }
    }

    /// Returns what was found in the samples that were decoded.
    pub(super) fn clipping(&self) -> &Clipping {
        &self.clipping
    }

    /// Reads samples from sample `first` on.
    pub(super) fn read_mono(&mut self, first: u64, to: &mut [f32]) -> Result<()> {
        if first < self.start
            && let Some(path) = self.path.clone()
        {
            *self = Self::open(&path, self.channel)?;
        }
        guarded(|| {
            let mut n = 0;
            loop {
                let passed = ((first + n as u64 - self.start) as usize).min(self.ready.len());
                self.ready.drain(..passed);
                self.start += passed as u64;
                if self.start == first + n as u64 {
                    let there = self.ready.len().min(to.len() - n);
                    to[n..n + there].copy_from_slice(&self.ready[..there]);
                    n += there;
                }
                if n == to.len() {
                    return Ok(());
                }
                if !self.decode()? {
                    let end = self.start + self.ready.len() as u64;
                    return Err(Error::truncated(format!("the sound ends at sample {end}")));
                }
            }
        })
    }

    /// Returns the next packet of the track; `None` at the end of the file.
    fn next_packet(&mut self) -> Result<Option<Packet>> {
        loop {
            let sample = self.start + self.ready.len() as u64;
            let mut packet = match self.format.next_packet() {
                Ok(Some(packet)) if packet.track_id == self.track => packet,
                Ok(Some(_)) => continue,
                Ok(None) => return Ok(None),
                // Another stream follows in the same file.
                Err(Symphonia::ResetRequired) => {
                    self.track = audio_track(&*self.format)?.id;
                    self.decoder = registry::decoder(&*self.format, &self.options)?;
                    self.edits = self.edits()?;
                    if self.is_opus() {
                        self.check_layout(opus::RATE, opus::n_channels(self.decoder.codec_params())?)?;
                    }
                    continue;
                }
                Err(error) => return Err(failed_at(error, sample)),
            };
            if packet.data.len() > MAX_PACKET {
                return Err(Error::unsupported(format!(
                    "a packet of {} bytes; at most {MAX_PACKET} are read",
                    packet.data.len()
                )));
            }
            self.check_length(&packet).map_err(|error| at(error, sample))?;
            if std::mem::take(&mut self.is_start) {
                self.start_clock(&packet)?;
            }
            if self.is_estimated {
                packet.trim_end = Duration::ZERO;
            }
            self.last_packet = packet.dur.get();
            return Ok(Some(packet));
        }
    }

    /// Decodes a packet that has samples; false at the end of the file.
    fn decode(&mut self) -> Result<bool> {
        while let Some(packet) = self.next_packet()? {
            if self.sound(&packet)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Decodes `packet`; false if it has no samples.
    fn sound(&mut self, packet: &Packet) -> Result<bool> {
        let sample = self.start + self.ready.len() as u64;
        let sound = self.decoder.decode(packet).map_err(|error| failed_at(error, sample))?;
        if sound.frames() == 0 {
            return Ok(false);
        }
        let (rate, channels) = (sound.spec().rate(), sound.num_planes());
        self.interleaved.resize(sound.samples_interleaved(), 0.0);
        sound.copy_to_slice_interleaved(&mut self.interleaved);
        self.check_layout(rate, channels)?;
        for part in self.edits.take(self.interleaved.len() / channels) {
            let frames = &self.interleaved[part.start * channels..part.end * channels];
            let first = self.start + self.ready.len() as u64;
            self.clipping.add(self.channel, first, frames, channels);
            self.ready.extend(self.channel.pick(frames, channels));
        }
        Ok(true)
    }

    /// Checks that all packets have the rate and channels of the first one.
    fn check_layout(&mut self, rate: u32, channels: usize) -> Result<()> {
        if rate == 0 || rate > MAX_SAMPLE_RATE || channels == 0 || channels > MAX_CHANNELS {
            return Err(Error::unsupported(format!("{channels} channels at {rate} Hz are not supported")));
        }
        if self.n_channels == 0 {
            self.channel.check(channels)?;
            (self.sample_rate, self.n_channels) = (rate, channels);
        }
        if (rate, channels) != (self.sample_rate, self.n_channels) {
            let sample = self.start + self.ready.len() as u64;
            return Err(Error::unsupported(format!(
                "{} channels at {} Hz become {channels} at {rate} Hz, at sample {sample}",
                self.n_channels, self.sample_rate
            )));
        }
        Ok(())
    }
}

fn audio_track(format: &dyn FormatReader) -> Result<&Track> {
    format.default_track(TrackType::Audio).ok_or_else(|| match format.format_info().format {
        FORMAT_ID_OGG => Error::unsupported("it has no track of Vorbis, FLAC, or Opus of up to 8 channels"),
        _ => Error::unsupported("it has no audio track"),
    })
}

/// Runs third-party code. A panic in it becomes an error about the file.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic: Box<dyn Any + Send>| {
        let message = panic.downcast_ref::<&str>().copied().unwrap_or("no message");
        Err(Error::corrupt(format!("the decoder failed: {message}")))
    })
}

fn failed_at(error: Symphonia, sample: u64) -> Error {
    at(failed(error), sample)
}

fn at(error: Error, sample: u64) -> Error {
    Error::new(error.kind(), format!("{error}, at sample {sample}")).with_remedies_of(&error)
}

/// Wraps an error of our readers and decoders in one of symphonia's, which name no place.
fn carried(error: Error) -> Symphonia {
    Symphonia::IoError(io::Error::other(error))
}

fn failed(error: Symphonia) -> Error {
    match error {
        Symphonia::IoError(error) => match error.downcast() {
            Ok(ours) => ours,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Error::truncated("the file ends too early"),
            Err(error) => Error::io("reading it", error),
        },
        Symphonia::Unsupported(what) => Error::unsupported(what),
        error => Error::corrupt(error.to_string()),
    }
}
