//! Compressed sound through symphonia, as one channel, read forwards.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Symphonia;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

use super::file::open_regular;
use crate::{Error, Kind, Result};

const MAX_CHANNELS: usize = 256;
const MAX_SAMPLE_RATE: u32 = 3_072_000;
/// Larger files are refused: no limit of the decoder's own holds for all formats.
const MAX_BYTES: u64 = 16 << 30;
/// The longest packet, in bytes.
const MAX_PACKET: usize = 32 << 20;

/// An open file. Samples that were passed are forgotten; a step back decodes from the start.
pub(super) struct Decoder {
    path: PathBuf,
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    pub(super) sample_rate: u32,
    pub(super) n_channels: usize,
    /// Mono samples from `start` on that are decoded but may still be asked for.
    ready: Vec<f32>,
    start: u64,
    interleaved: Vec<f32>,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("path", &self.path).field("start", &self.start).finish_non_exhaustive()
    }
}

impl Decoder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        guarded(|| Self::open_unguarded(path))
    }

    fn open_unguarded(path: &Path) -> Result<Self> {
        let file = open_regular(path)?;
        let len = file.metadata().map_err(|error| Error::io("its size", error))?.len();
        if len > MAX_BYTES {
            return Err(Error::unsupported(format!("{len} bytes; compressed files of at most {MAX_BYTES} are read")));
        }
        let stream = MediaSourceStream::new(Box::new(file), MediaSourceStreamOptions::default());
        let mut hint = Hint::new();
        if let Some(suffix) = path.extension().and_then(|suffix| suffix.to_str()) {
            hint.with_extension(suffix);
        }
        let probed =
            symphonia::default::get_probe().probe(&hint, stream, FormatOptions::default(), MetadataOptions::default());
        let format = probed.map_err(|error| match error {
            Symphonia::Unsupported(_) => Error::unsupported("no sound format that is known"),
            error => failed(error),
        })?;
        let track = format.default_track(TrackType::Audio).ok_or_else(|| Error::unsupported("no track with sound"))?;
        let parameters = track.codec_params.as_ref().and_then(|parameters| parameters.audio());
        let parameters = parameters.ok_or_else(|| Error::unsupported("a track of unknown coding"))?;
        let decoder = symphonia::default::get_codecs().make_audio_decoder(parameters, &AudioDecoderOptions::default());
        let decoder = decoder.map_err(|error| match error {
            Symphonia::Unsupported(what) => Error::unsupported(format!("a coding that is not known: {what}")),
            error => failed(error),
        })?;
        let track = track.id;
        let mut opened = Self {
            path: path.to_owned(),
            format,
            decoder,
            track,
            sample_rate: 0,
            n_channels: 0,
            ready: Vec::new(),
            start: 0,
            interleaved: Vec::new(),
        };
        // Rate and channels are those of the decoded sound: some containers say something else.
        opened.decode()?;
        match opened.n_channels {
            0 => Err(Error::new(Kind::Truncated, "the file holds no samples")),
            _ => Ok(opened),
        }
    }

    /// Samples in all, by decoding to the end.
    pub(super) fn count(mut self) -> Result<u64> {
        guarded(|| {
            loop {
                self.start += self.ready.len() as u64;
                self.ready.clear();
                if !self.decode()? {
                    return Ok(self.start);
                }
            }
        })
    }

    /// Reads the mean of all channels from sample `first` on.
    pub(super) fn read_mono(&mut self, first: u64, to: &mut [f32]) -> Result<()> {
        if first < self.start {
            *self = Self::open(&self.path.clone())?;
        }
        guarded(|| {
            loop {
                let passed = ((first - self.start) as usize).min(self.ready.len());
                self.ready.drain(..passed);
                self.start += passed as u64;
                if self.start == first && self.ready.len() >= to.len() {
                    to.copy_from_slice(&self.ready[..to.len()]);
                    return Ok(());
                }
                if !self.decode()? {
                    let end = self.start + self.ready.len() as u64;
                    return Err(Error::new(Kind::Truncated, format!("the sound ends at sample {end}")));
                }
            }
        })
    }

    /// Decodes one packet; false at the end.
    fn decode(&mut self) -> Result<bool> {
        loop {
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) if packet.track_id == self.track => packet,
                Ok(Some(_)) => continue,
                Ok(None) => return Ok(false),
                Err(error) => return Err(failed(error)),
            };
            if packet.data.len() > MAX_PACKET {
                return Err(Error::unsupported(format!(
                    "a packet of {} bytes; at most {MAX_PACKET} are read",
                    packet.data.len()
                )));
            }
            let sound = self.decoder.decode(&packet).map_err(failed)?;
            if sound.frames() == 0 {
                continue;
            }
            let (rate, channels) = (sound.spec().rate(), sound.num_planes());
            if rate == 0 || rate > MAX_SAMPLE_RATE || channels == 0 || channels > MAX_CHANNELS {
                return Err(Error::unsupported(format!("{channels} channels at {rate} Hz")));
            }
            if self.n_channels == 0 {
                (self.sample_rate, self.n_channels) = (rate, channels);
            }
            if (rate, channels) != (self.sample_rate, self.n_channels) {
                return Err(Error::unsupported(format!(
                    "{} channels at {} Hz become {channels} at {rate} Hz",
                    self.n_channels, self.sample_rate
                )));
            }
            self.interleaved.resize(sound.samples_interleaved(), 0.0);
            sound.copy_to_slice_interleaved(&mut self.interleaved);
            let scale = 1.0 / channels as f32;
            let mean = |frame: &[f32]| frame.iter().sum::<f32>() * scale;
            self.ready.extend(self.interleaved.chunks_exact(channels).map(mean));
            return Ok(true);
        }
    }
}

/// Runs foreign code: a panic in it is an error of the file.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic: Box<dyn Any + Send>| {
        let message = panic.downcast_ref::<&str>().copied().unwrap_or("no message");
        Err(Error::new(Kind::Corrupt, format!("the decoder gave up: {message}")))
    })
}

fn failed(error: Symphonia) -> Error {
    match error {
        Symphonia::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::new(Kind::Truncated, "the file ends too early")
        }
        Symphonia::IoError(error) => Error::io("reading it", error),
        Symphonia::Unsupported(what) => Error::unsupported(what),
        error => Error::new(Kind::Corrupt, error.to_string()),
    }
}
