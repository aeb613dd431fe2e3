//! The output file of `synth`.

use std::path::{Path, PathBuf};

use melisma::audio::{flac, wav};
use melisma::output::{self, Existing, OutputFile};
use melisma::{Error, Result};

use crate::decode::Place;
use crate::input::is_pipe;

/// A stereo file that appears when it is complete, or a pipe. Its errors name the file.
pub struct Sink {
    name: PathBuf,
    writer: Writer,
}

enum Writer {
    Wav(wav::Writer<Place>),
    Flac(Box<flac::Writer<OutputFile>>),
}

/// Settings shared by all files of one command.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub sample_rate: u32,
    pub format: wav::SampleFormat,
    pub existing: Existing,
}

impl Sink {
    pub fn create(path: &Path, layout: Layout) -> Result<Self> {
        let name = if is_pipe(path) { PathBuf::from("stdout") } else { path.to_owned() };
        let writer = Writer::create(path, layout)?;
        Ok(Self { name, writer })
    }

    /// Appends interleaved samples.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        let written = match &mut self.writer {
            Writer::Wav(writer) => writer.write(samples),
            Writer::Flac(writer) => writer.write(samples),
        };
        written.map_err(|error| output::named(&self.name, error))
    }

    /// Finishes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        self.end()?.commit()
    }

    /// Finishes the file without naming it.
    pub fn end(self) -> Result<Place> {
        let ended = match self.writer {
            Writer::Wav(writer) if !writer.sink().is_seekable() => writer.finish(),
            Writer::Wav(writer) => writer.seal(),
            Writer::Flac(writer) => writer.seal().map(Place::File),
        };
        ended.map_err(|error| output::named(&self.name, error))
    }
}

impl Writer {
    fn create(path: &Path, layout: Layout) -> Result<Self> {
        let named = |error| output::named(path, error);
        let new_wav =
            |place| wav::Writer::new(place, layout.sample_rate, 2, layout.format).map_err(named).map(Self::Wav);
        if is_pipe(path) {
            return new_wav(Place::open(path, layout.existing)?);
        }
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
        match (suffix.as_deref(), layout.format) {
            (Some("wav" | "wave"), _) => new_wav(Place::open(path, layout.existing)?),
            (Some("flac"), wav::SampleFormat::F32) => {
                Err(Error::invalid(format!("{}: FLAC does not store floats", path.display()))
                    .with_hint("use --sample-format s24, or name a .wav file"))
            }
            (Some("flac"), format) => {
                let depth = if format == wav::SampleFormat::S24 { flac::Depth::S24 } else { flac::Depth::S16 };
                let file = OutputFile::create(path, layout.existing)?;
                let writer = flac::Writer::new(file, layout.sample_rate, 2, depth).map_err(named)?;
                Ok(Self::Flac(Box::new(writer)))
            }
            _ => Err(Error::unsupported(format!("{}: cannot write this format", path.display()))
                .with_hint("name it .wav or .flac, or - for a pipe")),
        }
    }
}

/// Interleaves samples in file order.
pub fn interleave(left: &[f32], right: &[f32], to: &mut Vec<f32>) {
    to.clear();
    to.extend(left.iter().zip(right).flat_map(|(left, right)| [*left, *right]));
}
