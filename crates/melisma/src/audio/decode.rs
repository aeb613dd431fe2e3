//! Decodes compressed audio with symphonia to one channel, sequentially, from a file or a pipe.

mod live;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use symphonia::core::codecs::audio::well_known::{CODEC_ID_ALAC, CODEC_ID_MP3};
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Symphonia;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::well_known::{
    FORMAT_ID_ADTS, FORMAT_ID_FLAC, FORMAT_ID_ISOMP4, FORMAT_ID_MP3, FORMAT_ID_OGG,
};
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::packet::Packet;
use symphonia::core::units::Duration;

use super::Channel;
use super::check::{self, Format, Watch};
use super::clipping::Clipping;
use super::edit::{Edits, too_short};
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

    /// The total number of samples, found by decoding a complete file to its end.
    pub(super) fn count(path: &Path) -> Result<u64> {
        // Runs before the decoder, which does not say where a file is damaged.
        let begins_as = check::sniff(open_regular(path)?)?;
        let checked = begins_as.map(|format| check::whole(format, open_regular(path)?)).transpose()?;
        guarded(|| {
            let opened = Self::of_file(path, Channel::Mix, AudioDecoderOptions::default().verify(true))?;
            let format = opened.checked_format();
            let declared = match (format, checked) {
                (Some(format), Some(declared)) if begins_as == Some(format) => declared,
                (Some(format), _) => check::whole(format, open_regular(path)?)?,
                (None, _) => audio_track(&*opened.format)?.num_frames,
            };
            opened.count_to_end(format, declared)
        })
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
        let probed =
            symphonia::default::get_probe().probe(&hint, stream, FormatOptions::default(), MetadataOptions::default());
        let format = probed.map_err(|error| match error {
            Symphonia::Unsupported(_) => Error::unsupported("its audio format is not known"),
            error => failed(error),
        })?;
        let (track, decoder) = (audio_track(&*format)?.id, decoder(&*format, &options)?);
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

    /// Which samples of the current track are audio.
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
                let path = self.path.as_ref().ok_or_else(needs_file)?;
                let edits = Edits::of_mp4(&open_regular(path)?, track.id, rate)?;
                Ok(edits.until(n_frames.unwrap_or(u64::MAX)))
            }
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
    /// decoder itself removes the trim.
    fn start_clock(&mut self, packet: &Packet) {
        let first = packet.pts.get().saturating_add_unsigned(packet.trim_start.get());
        self.n_before = self.n_before.saturating_add(first.max(0).unsigned_abs());
        self.edits = Edits::span(first.min(0).unsigned_abs(), u64::MAX);
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

    /// Decodes everything and returns the number of samples. Fails if there are fewer than
    /// `declared`.
    fn count_to_end(mut self, format: Option<Format>, declared: Option<u64>) -> Result<u64> {
        loop {
            self.start += self.ready.len() as u64;
            self.ready.clear();
            if !self.decode()? {
                break;
            }
        }
        self.check_end(format, declared).map(|()| self.start)
    }

    /// Checks all samples against their declared number and checksum, if any.
    fn check_end(&mut self, format: Option<Format>, mut declared: Option<u64>) -> Result<()> {
        if format == Some(Format::Ogg) {
            declared = declared.map(|declared| declared.saturating_sub(self.n_before));
        }
        let decoded = if format.is_some() { self.start } else { self.edits.at };
        // The last packet of ALAC states its own length; some CAF writers declare a full packet.
        let is_alac = self.decoder.codec_params().codec == CODEC_ID_ALAC;
        let tolerated = if is_alac { self.last_packet.saturating_sub(1) } else { 0 };
        if let Some(declared) = declared.filter(|&declared| declared > decoded + tolerated) {
            return Err(too_short(declared, decoded));
        }
        match self.decoder.finalize().verify_ok {
            Some(false) => {
                let message = format!("the MD5 of its {} samples is not the one that it declares", self.start);
                Err(Error::corrupt(message))
            }
            _ => Ok(()),
        }
    }

    /// What was found in the samples that were decoded.
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

    /// Decodes one packet; false at the end of the file.
    fn decode(&mut self) -> Result<bool> {
        loop {
            let sample = self.start + self.ready.len() as u64;
            let mut packet = match self.format.next_packet() {
                Ok(Some(packet)) if packet.track_id == self.track => packet,
                Ok(Some(_)) => continue,
                Ok(None) => return Ok(false),
                // Another stream follows in the same file.
                Err(Symphonia::ResetRequired) => {
                    self.track = audio_track(&*self.format)?.id;
                    self.decoder = decoder(&*self.format, &self.options)?;
                    self.edits = self.edits()?;
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
            if std::mem::take(&mut self.is_start) {
                self.start_clock(&packet);
            }
            if self.is_estimated {
                packet.trim_end = Duration::ZERO;
            }
            self.last_packet = packet.dur.get();
            let sound = self.decoder.decode(&packet).map_err(|error| failed_at(error, sample))?;
            if sound.frames() == 0 {
                continue;
            }
            let (rate, channels) = (sound.spec().rate(), sound.num_planes());
            if rate == 0 || rate > MAX_SAMPLE_RATE || channels == 0 || channels > MAX_CHANNELS {
                return Err(Error::unsupported(format!("{channels} channels at {rate} Hz are not supported")));
            }
            if self.n_channels == 0 {
                self.channel.check(channels)?;
                (self.sample_rate, self.n_channels) = (rate, channels);
            }
            if (rate, channels) != (self.sample_rate, self.n_channels) {
                return Err(Error::unsupported(format!(
                    "{} channels at {} Hz become {channels} at {rate} Hz, at sample {sample}",
                    self.n_channels, self.sample_rate
                )));
            }
            self.interleaved.resize(sound.samples_interleaved(), 0.0);
            sound.copy_to_slice_interleaved(&mut self.interleaved);
            for part in self.edits.take(self.interleaved.len() / channels) {
                let frames = &self.interleaved[part.start * channels..part.end * channels];
                let first = self.start + self.ready.len() as u64;
                self.clipping.add(self.channel, first, frames, channels);
                self.ready.extend(self.channel.pick(frames, channels));
            }
            return Ok(true);
        }
    }
}

fn audio_track(format: &dyn FormatReader) -> Result<&Track> {
    format.default_track(TrackType::Audio).ok_or_else(|| Error::unsupported("it has no audio track"))
}

fn decoder(format: &dyn FormatReader, options: &AudioDecoderOptions) -> Result<Box<dyn AudioDecoder>> {
    let parameters = audio_track(format)?.codec_params.as_ref().and_then(|parameters| parameters.audio());
    let parameters = parameters.ok_or_else(|| Error::unsupported("the coding of its audio track is not known"))?;
    symphonia::default::get_codecs().make_audio_decoder(parameters, options).map_err(|error| match error {
        Symphonia::Unsupported(what) => Error::unsupported(format!("its audio coding is not known: {what}")),
        error => failed(error),
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
    let error = failed(error);
    Error::new(error.kind(), format!("{error}, at sample {sample}"))
}

fn failed(error: Symphonia) -> Error {
    match error {
        Symphonia::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::truncated("the file ends too early")
        }
        Symphonia::IoError(error) => Error::io("reading it", error),
        Symphonia::Unsupported(what) => Error::unsupported(what),
        error => Error::corrupt(error.to_string()),
    }
}
