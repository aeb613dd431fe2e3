//! The sound file at the end of `synth`.

use std::path::Path;

use melisma::audio::{flac, wav};
use melisma::runtime::output::{Existing, OutputFile};
use melisma::{Error, Result};

use crate::decode::Place;
use crate::input::is_pipe;

/// A stereo file on its way, which appears when it is complete; or a pipe.
pub enum Sink {
    Wav(wav::Writer<Place>),
    Flac(Box<flac::Writer<OutputFile>>),
}

/// What files of one command have in common.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub sample_rate: u32,
    pub format: wav::SampleFormat,
    pub existing: Existing,
}

impl Sink {
    pub fn create(path: &Path, layout: Layout) -> Result<Self> {
        if is_pipe(path) {
            let pipe = Place::open(path, layout.existing)?;
            return wav::Writer::new(pipe, layout.sample_rate, 2, layout.format).map(Self::Wav);
        }
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
        match (suffix.as_deref(), layout.format) {
            (Some("wav" | "wave"), format) => {
                let file = Place::open(path, layout.existing)?;
                wav::Writer::new(file, layout.sample_rate, 2, format).map(Self::Wav)
            }
            (Some("flac"), wav::SampleFormat::F32) => {
                Err(Error::invalid(format!("{}: FLAC has no floats", path.display()))
                    .with_hint("use --sample-format s24, or name a .wav file"))
            }
            (Some("flac"), format) => {
                let depth = if format == wav::SampleFormat::S24 { flac::Depth::S24 } else { flac::Depth::S16 };
                let file = OutputFile::create(path, layout.existing)?;
                flac::Writer::new(file, layout.sample_rate, 2, depth).map(|writer| Self::Flac(Box::new(writer)))
            }
            _ => Err(Error::unsupported(format!("{}: files of this kind are not written", path.display()))
                .with_hint("name it .wav or .flac, or - for a pipe")),
        }
    }

    /// Appends interleaved samples.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        match self {
            Self::Wav(writer) => writer.write(samples),
            Self::Flac(writer) => writer.write(samples),
        }
    }

    /// Ends the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Wav(writer) if !writer.sink().is_seekable() => writer.finish()?.commit(),
            Self::Wav(writer) => writer.seal()?.commit(),
            Self::Flac(writer) => writer.seal()?.commit(),
        }
    }
}

/// Samples in the order of a file.
pub fn interleave(left: &[f32], right: &[f32], to: &mut Vec<f32>) {
    to.clear();
    to.extend(left.iter().zip(right).flat_map(|(left, right)| [*left, *right]));
}
