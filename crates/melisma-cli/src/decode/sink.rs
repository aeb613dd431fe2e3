//! The WAV file or pipe at the end of `decode`.

use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Stdout, Write};
use std::path::Path;

use melisma::audio::wav::{SampleFormat, Writer};
use melisma::runtime::output::{Existing, OutputFile};
use melisma::{Error, Kind, Result};

use crate::codec::with_hint;
use crate::input::is_pipe;

/// A sink that was opened, before the first sample: nothing was written yet.
pub struct Sink {
    name: String,
    place: Option<Place>,
    is_seekable: bool,
    writer: Option<Writer<Place>>,
    layout: Layout,
}

/// What the header says.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub sample_rate: u32,
    pub format: SampleFormat,
}

/// Where the bytes go.
pub enum Place {
    File(OutputFile),
    Stdout(Stdout),
}

impl Place {
    /// Opens `path`, or stdout for `-`.
    pub fn open(path: &Path, existing: Existing) -> Result<Self> {
        if !is_pipe(path) {
            check_suffix(path)?;
            return OutputFile::create(path, existing).map(Self::File);
        }
        if io::stdout().is_terminal() {
            return Err(Error::invalid("stdout is a terminal, and WAV is no text")
                .with_hint("send it to a player, as in `melisma ... -o - | aplay`, or name a file"));
        }
        Ok(Self::Stdout(io::stdout()))
    }

    /// Whether a header can be written again.
    pub fn is_seekable(&self) -> bool {
        matches!(self, Self::File(file) if file.is_seekable())
    }

    /// Gives a file its name.
    pub fn commit(self) -> Result<()> {
        match self {
            Self::File(file) => file.commit(),
            Self::Stdout(_) => Ok(()),
        }
    }
}

impl Sink {
    pub fn new(place: Place, layout: Layout) -> Self {
        let name = match &place {
            Place::File(file) => file.path().display().to_string(),
            Place::Stdout(_) => "stdout".to_owned(),
        };
        let is_seekable = place.is_seekable();
        Self { name, place: Some(place), is_seekable, writer: None, layout }
    }

    /// Writes samples; the header goes before the first.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        if !samples.is_empty() {
            self.start().and_then(|writer| writer.write(samples)).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Hands everything to whoever reads at the other end.
    pub fn flush(&mut self) -> Result<()> {
        let flushed = self.writer.as_mut().map_or(Ok(()), Writer::flush);
        flushed.map_err(|error| self.failed(error))
    }

    /// Ends the file and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        self.start().map(drop).map_err(|error| self.failed(error))?;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let ended = if self.is_seekable { writer.seal() } else { writer.finish() };
        ended.map_err(|error| self.failed(error))?.commit()
    }

    fn start(&mut self) -> Result<&mut Writer<Place>> {
        if let Some(place) = self.place.take() {
            self.writer = Some(Writer::new(place, self.layout.sample_rate, 1, self.layout.format)?);
        }
        self.writer.as_mut().ok_or_else(|| Error::new(Kind::Io, "the output was closed by an earlier failure"))
    }

    fn failed(&self, error: Error) -> Error {
        with_hint(error.at(&self.name), "free some space, or write to another place")
    }
}

/// Whether `error` is that the reader of a pipe went away, which is its right.
pub fn is_closed_pipe(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe)
}

fn check_suffix(path: &Path) -> Result<()> {
    let is_wav = |suffix: &std::ffi::OsStr| suffix.eq_ignore_ascii_case("wav") || suffix.eq_ignore_ascii_case("wave");
    match path.extension() {
        Some(suffix) if !is_wav(suffix) => {
            Err(Error::unsupported(format!("{}: .{} files are not written", path.display(), suffix.display()))
                .with_hint("name it .wav"))
        }
        _ => Ok(()),
    }
}

impl Read for Place {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(bytes),
            Self::Stdout(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

impl Seek for Place {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(place),
            Self::Stdout(_) => Err(io::ErrorKind::NotSeekable.into()),
        }
    }
}
