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

use super::written::Written;
use crate::decode::{Place, partial_name};
use crate::input::is_pipe;
use crate::interrupt;
use crate::session::Session;
use crate::terminal;

/// A file or pipe of tokens. If a signal ends the process, the signal thread saves a file of text.
pub struct Sink<'a> {
    session: &'a Session,
    model: &'a Model,
    device: &'a Device,
    written: Written,
    name: PathBuf,
    state: Arc<Mutex<State>>,
    /// All codes of a list, which is written at the end.
    codes: Codes,
    list_memory: Vec<Reservation>,
}

struct State {
    place: Option<Place>,
    n_frames: u64,
}

/// What a sink works with.
pub struct Work<'a> {
    pub session: &'a Session,
    pub model: &'a Model,
    pub device: &'a Device,
}

/// Opens `path`, or stdout for `-`.
pub fn open(session: &Session, path: &Path) -> Result<Place> {
    match is_pipe(path) {
        true => terminal::check_stdout().map(|()| Place::Stdout(io::stdout())),
        false => OutputFile::create(path, session.existing).map(Place::File),
    }
}

impl<'a> Sink<'a> {
    pub fn new(work: Work<'a>, place: Place, written: Written) -> Result<Self> {
        let Work { session, model, device } = work;
        let name = match &place {
            Place::File(file) => file.path().to_owned(),
            Place::Stdout(_) => "stdout".into(),
        };
        let state = Arc::new(Mutex::new(State { place: Some(place), n_frames: 0 }));
        let codes = Codes::empty(model.config());
        let sink = Self { session, model, device, written, name, state, codes, list_memory: Vec::new() };
        if let Written::Text(text) = written {
            sink.put(text.start(model)?.as_bytes(), 0)?;
            let at_interrupt = Arc::clone(&sink.state);
            interrupt::keep_with(move || at_interrupt.lock().keep());
        }
        Ok(sink)
    }

    /// Writes frames as text and flushes it, or adds them to the list.
    pub fn write(&mut self, frames: Frames<'_>) -> Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        if let Written::Text(text) = self.written {
            return self.put(text.lines(frames).as_bytes(), frames.len() as u64);
        }
        let bytes = self.written.code_bytes() * frames.as_slice().len() as u64;
        self.list_memory.push(self.session.reserve(self.device, "the codes of this file", bytes)?);
        self.codes.append(frames)
    }

    /// Finishes the file and gives it its name.
    pub fn finish(self) -> Result<()> {
        if let Written::List(list) = self.written {
            self.put(&list.bytes(self.model, &self.codes)?, 0)?;
        }
        let place = self.state.lock().place.take();
        place.map_or(Ok(()), Place::commit)
    }

    fn put(&self, bytes: &[u8], n_frames: u64) -> Result<()> {
        let mut state = self.state.lock();
        let Some(place) = &mut state.place else {
            return Err(Error::new(ErrorKind::Io, "the output was closed by an earlier failure"));
        };
        let written = place.write_all(bytes).and_then(|()| place.flush());
        written.map_err(|error| output::failed(&self.name, error))?;
        state.n_frames += n_frames;
        Ok(())
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        // The signal thread shares the state, so ending it here removes an unfinished file at once.
        self.state.lock().place = None;
    }
}

impl State {
    /// Finishes an incomplete file of text, under a name that marks it as partial.
    fn keep(&mut self) -> Option<String> {
        let Some(Place::File(file)) = self.place.take() else { return None };
        if self.n_frames == 0 || !file.is_seekable() {
            return None;
        }
        let path = partial_name(file.target());
        let said = format!("the first {} are in {}", count(self.n_frames, "frame"), terminal::name(&path));
        file.commit_as(path).ok().map(|()| said)
    }
}
