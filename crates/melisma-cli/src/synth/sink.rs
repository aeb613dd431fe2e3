//! The output file of `synth`.

use std::path::{Path, PathBuf};

use melisma::Result;
use melisma::audio::wav::SampleFormat;
use melisma::audio::{self, Format, Writer};
use melisma::output::{self, Existing};

use crate::decode::Output;
use crate::input::is_pipe;

/// A stereo file that appears when it is complete, or a pipe. Its errors name the file.
pub struct Sink {
    name: PathBuf,
    is_seekable: bool,
    writer: Writer<Output>,
}

/// Settings shared by all files of one command.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub sample_rate: u32,
    pub format: SampleFormat,
    pub existing: Existing,
}

impl Sink {
    pub fn create(path: &Path, layout: Layout) -> Result<Self> {
        let name = if is_pipe(path) { PathBuf::from("stdout") } else { path.to_owned() };
        let format = if is_pipe(path) { Format::Wav(layout.format) } else { Format::of(path, layout.format)? };
        let output = Output::open(path, layout.existing)?;
        let is_seekable = output.is_seekable();
        let stereo = audio::Layout::new(layout.sample_rate, 2);
        let open = if is_seekable { Writer::new } else { Writer::piped };
        let writer = open(output, format, stereo).map_err(|error| output::named(path, error))?;
        Ok(Self { name, is_seekable, writer })
    }

    /// Appends interleaved samples.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        self.writer.write(samples).map_err(|error| output::named(&self.name, error))
    }

    /// Finishes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        self.end()?.commit()
    }

    /// Finishes the file without naming it.
    pub fn end(self) -> Result<Output> {
        let ended = if self.is_seekable { self.writer.seal() } else { self.writer.finish() };
        ended.map_err(|error| output::named(&self.name, error))
    }
}

/// Interleaves samples in file order.
pub fn interleave(left: &[f32], right: &[f32], to: &mut Vec<f32>) {
    to.clear();
    to.extend(left.iter().zip(right).flat_map(|(left, right)| [*left, *right]));
}
