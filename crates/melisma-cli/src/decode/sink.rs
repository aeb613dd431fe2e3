//! The audio file or pipe at the end of `decode`.

use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::audio::{self, Format, Writer};
use melisma::lock::Mutex;
use melisma::output::{self, Existing, OutputFile};
use melisma::{Error, ErrorKind, Result};

use crate::input::is_pipe;
use crate::interrupt;
use crate::terminal::{self, check_stdout};

/// A file or pipe of samples. If a signal ends the process, the signal thread saves the file.
pub struct Sink {
    name: PathBuf,
    is_seekable: bool,
    state: Arc<Mutex<State>>,
    layout: Layout,
}

enum State {
    /// Nothing has been written yet.
    Opened(Output),
    Writing {
        writer: Writer<Output>,
        n_samples: u64,
    },
    Ended,
}

/// The format of the audio.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub sample_rate: u32,
    pub format: Format,
}

/// The output: a file or stdout.
pub enum Output {
    File(OutputFile),
    Stdout(Stdout),
}

impl Output {
    /// Opens `path`, or stdout for `-`.
    pub fn open(path: &Path, existing: Existing) -> Result<Self> {
        if !is_pipe(path) {
            return OutputFile::create(path, existing).map(Self::File);
        }
        if io::stdout().is_terminal() {
            return Err(Error::invalid("stdout is a terminal, which cannot show WAV")
                .with_hint("send it to a player, as in `melisma ... -o - | aplay`, or name a file"));
        }
        check_stdout()?;
        Ok(Self::Stdout(io::stdout()))
    }

    /// Returns whether the header can be rewritten.
    pub fn is_seekable(&self) -> bool {
        matches!(self, Self::File(file) if file.is_seekable())
    }

    /// Gives a file its name, or flushes the last bytes of a pipe.
    pub fn commit(self) -> Result<()> {
        match self {
            Self::File(file) => file.commit(),
            Self::Stdout(mut pipe) => pipe.flush().map_err(|error| output::failed(Path::new("stdout"), error)),
        }
    }
}

impl Sink {
    pub fn new(output: Output, layout: Layout) -> Self {
        let name = match &output {
            Output::File(file) => file.path().to_owned(),
            Output::Stdout(_) => "stdout".into(),
        };
        let is_seekable = output.is_seekable();
        let state = Arc::new(Mutex::new(State::Opened(output)));
        let at_interrupt = Arc::clone(&state);
        interrupt::on_interrupt(move || if is_seekable { at_interrupt.lock().save(layout) } else { None });
        Self { name, is_seekable, state, layout }
    }

    /// Writes samples, with the header before the first.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        self.state.lock().write(self.layout, samples).map_err(|error| self.failed(error))
    }

    /// Flushes everything to the reader of the pipe.
    pub fn flush(&mut self) -> Result<()> {
        let flushed = match &mut *self.state.lock() {
            State::Writing { writer, .. } => writer.flush(),
            State::Opened(_) | State::Ended => Ok(()),
        };
        flushed.map_err(|error| self.failed(error))
    }

    /// Finishes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        let writer = {
            let mut state = self.state.lock();
            state.write(self.layout, &[]).map_err(|error| self.failed(error))?;
            state.take()
        };
        let Some((writer, _)) = writer else { return Ok(()) };
        let ended = if self.is_seekable { writer.seal() } else { writer.finish() };
        ended.map_err(|error| self.failed(error))?.commit()
    }

    fn failed(&self, error: Error) -> Error {
        output::named(&self.name, error)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // The signal thread shares the state, so ending it here removes an unfinished file at once.
        *self.state.lock() = State::Ended;
    }
}

impl State {
    fn write(&mut self, layout: Layout, samples: &[f32]) -> Result<()> {
        if let Self::Opened(_) = self
            && let Self::Opened(output) = std::mem::replace(self, Self::Ended)
        {
            let open = if output.is_seekable() { Writer::new } else { Writer::piped };
            let mono = audio::Layout::new(layout.sample_rate, 1);
            let writer = open(output, layout.format, mono)?;
            *self = Self::Writing { writer, n_samples: 0 };
        }
        match self {
            Self::Writing { writer, n_samples } => {
                *n_samples += samples.len() as u64;
                writer.write(samples)
            }
            Self::Opened(_) | Self::Ended => {
                Err(Error::new(ErrorKind::Io, "the output was closed by an earlier failure"))
            }
        }
    }

    fn take(&mut self) -> Option<(Writer<Output>, u64)> {
        match std::mem::replace(self, Self::Ended) {
            Self::Writing { writer, n_samples } => Some((writer, n_samples)),
            Self::Opened(_) | Self::Ended => None,
        }
    }

    /// Finishes an incomplete file, under a name that marks it as partial.
    fn save(&mut self, layout: Layout) -> Option<String> {
        let (writer, n_samples) = self.take()?;
        if n_samples == 0 {
            return None;
        }
        let seconds = n_samples as f64 / f64::from(layout.sample_rate);
        let Ok(Output::File(file)) = writer.seal() else { return None };
        let path = partial_name(file.target());
        let said = format!("the first {seconds:.2} s of audio are in {}", terminal::name(&path));
        file.commit_as(path).ok().map(|()| said)
    }
}

/// Returns `speech.partial.wav` for `speech.wav`: a playable file that cannot be mistaken for the whole.
pub fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".partial.");
    name.push(path.extension().unwrap_or("wav".as_ref()));
    path.with_file_name(name)
}

impl Read for Output {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(bytes),
            Self::Stdout(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Write for Output {
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

impl Seek for Output {
    fn seek(&mut self, output: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(output),
            Self::Stdout(_) => Err(io::ErrorKind::NotSeekable.into()),
        }
    }
}
