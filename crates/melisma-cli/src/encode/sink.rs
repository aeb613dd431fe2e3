//! The token file or pipe at the end of `encode`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::lock::Mutex;
use melisma::output::{self, OutputFile};
use melisma::runtime::device::Device;
use melisma::runtime::memory::Reservation;
use melisma::snac::{Codes, Frames, Model};
use melisma::text::count;
use melisma::{Error, ErrorKind, Result};

use super::token_format::TokenFormat;
use crate::decode::{Output, partial_name};
use crate::input::is_pipe;
use crate::interrupt;
use crate::session::Session;
use crate::terminal;

/// A file or pipe of tokens. If a signal ends the process, the signal thread saves a file of text.
pub struct Sink<'a> {
    session: &'a Session,
    model: &'a Model,
    device: &'a Device,
    format: TokenFormat,
    name: PathBuf,
    state: Arc<Mutex<State>>,
    /// All codes of a list, which is written at the end.
    codes: Codes,
    list_memory: Vec<Reservation>,
}

struct State {
    output: Option<Output>,
    n_frames: u64,
}

/// What a sink works with.
pub struct Work<'a> {
    pub session: &'a Session,
    pub model: &'a Model,
    pub device: &'a Device,
}

/// Opens `path`, or stdout for `-`.
pub fn open(session: &Session, path: &Path) -> Result<Output> {
    match is_pipe(path) {
        true => terminal::check_stdout().map(|()| Output::Stdout(io::stdout())),
        false => OutputFile::create(path, session.existing).map(Output::File),
    }
}

impl<'a> Sink<'a> {
    pub fn new(work: Work<'a>, output: Output, format: TokenFormat) -> Result<Self> {
        let Work { session, model, device } = work;
        let name = match &output {
            Output::File(file) => file.path().to_owned(),
            Output::Stdout(_) => "stdout".into(),
        };
        let state = Arc::new(Mutex::new(State { output: Some(output), n_frames: 0 }));
        let codes = Codes::empty(model.config());
        let sink = Self { session, model, device, format, name, state, codes, list_memory: Vec::new() };
        if let TokenFormat::Text(text) = format {
            sink.put(text.start(model)?.as_bytes(), 0)?;
            let at_interrupt = Arc::clone(&sink.state);
            interrupt::on_interrupt(move || at_interrupt.lock().save());
        }
        Ok(sink)
    }

    /// Writes frames as text and flushes it, or adds them to the list.
    pub fn write(&mut self, frames: Frames<'_>) -> Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        if let TokenFormat::Text(text) = self.format {
            return self.put(text.lines(frames).as_bytes(), frames.len() as u64);
        }
        let bytes = self.format.code_bytes() * frames.as_slice().len() as u64;
        self.list_memory.push(self.session.reserve(self.device, "the codes of this file", bytes)?);
        self.codes.append(frames)
    }

    /// Finishes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        if let TokenFormat::List(list) = self.format {
            self.put(&list.bytes(self.model, &self.codes)?, 0)?;
        }
        let output = self.state.lock().output.take();
        output.map_or(Ok(()), Output::commit)
    }

    fn put(&self, bytes: &[u8], n_frames: u64) -> Result<()> {
        let mut state = self.state.lock();
        let Some(output) = &mut state.output else {
            return Err(Error::new(ErrorKind::Io, "the output was closed by an earlier failure"));
        };
        let written = output.write_all(bytes).and_then(|()| output.flush());
        written.map_err(|error| output::failed(&self.name, error))?;
        state.n_frames += n_frames;
        Ok(())
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        // The signal thread shares the state, so ending it here removes an unfinished file at once.
        self.state.lock().output = None;
    }
}

impl State {
    /// Finishes an incomplete file of text, under a name that marks it as partial.
    fn save(&mut self) -> Option<String> {
        let Some(Output::File(file)) = self.output.take() else { return None };
        if self.n_frames == 0 || !file.is_seekable() {
            return None;
        }
        let path = partial_name(file.target());
        let said = format!("the first {} are in {}", count(self.n_frames, "frame"), terminal::name(&path));
        file.commit_as(path).ok().map(|()| said)
    }
}
