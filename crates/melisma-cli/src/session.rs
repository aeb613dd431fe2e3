//! What every command works with: settings, device, memory, trace, and where output goes.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use melisma::runtime::config::{Environment, Sources};
use melisma::runtime::device::{self, Device, Queue};
use melisma::runtime::output::{self, Existing, OutputFile};
use melisma::runtime::trace::{Collector, Nvtx};
use melisma::runtime::{Config, MemoryTracker, memory};
use melisma::{Error, Result};
use serde_json::Value;

use crate::args::Globals;
use crate::interrupt;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

pub struct Session {
    pub config: Config,
    pub existing: Existing,
    pub collector: Collector,
    format: Format,
    memory: OnceLock<MemoryTracker>,
    engine: OnceLock<Engine>,
    is_collecting: AtomicBool,
    has_refused: AtomicBool,
    trace: Trace,
}

/// The device, its memory and its queue, made when a command first needs them.
pub struct Engine {
    pub device: Device,
    pub memory: MemoryTracker,
    pub queue: Queue,
}

/// The trace file, taken by whoever ends the session first.
#[derive(Clone)]
pub struct Trace {
    collector: Collector,
    file: Arc<Mutex<Option<OutputFile>>>,
}

impl Session {
    /// Resolves the settings and opens the trace file, so that a bad one is refused before any work.
    pub fn open(globals: &Globals) -> Result<Self> {
        let environment = Environment::process();
        let sources = Sources { file: globals.config.clone(), environment, flags: globals.settings() };
        let config = Config::load(&sources)?;
        if let Some(directory) = &config.cache_dir.value {
            device::cuda::set_cache_directory(directory.clone());
        }
        let existing = if globals.force { Existing::Replace } else { Existing::Refuse };
        let file = match &config.trace.value {
            Some(path) if !globals.print_config => Some(OutputFile::create(path, existing)?),
            _ => None,
        };
        let collector = collector();
        let trace = Trace { collector: collector.clone(), file: Arc::new(Mutex::new(file)) };
        interrupt::watch(trace.clone())?;
        let format = if globals.json { Format::Json } else { Format::Text };
        let session = Self {
            config,
            existing,
            collector,
            format,
            memory: OnceLock::new(),
            engine: OnceLock::new(),
            is_collecting: AtomicBool::new(false),
            has_refused: AtomicBool::new(false),
            trace,
        };
        if session.config.trace.value.is_some() || session.config.profile_table.value || wants_nvtx() {
            session.collect()?;
        }
        Ok(session)
    }

    /// Collects spans from now on; without this they cost nothing.
    pub fn collect(&self) -> Result<()> {
        if self.is_collecting.swap(true, Relaxed) { Ok(()) } else { self.collector.install() }
    }

    /// The device that the settings ask for.
    pub fn engine(&self) -> Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let device = device::select(self.config.device.value, self.config.threads.value)?;
        let memory = self.memory(&device).clone();
        let queue = device.queue(memory.budget())?;
        if self.is_collecting.load(Relaxed) {
            queue.start_timing()?;
        }
        Ok(self.engine.get_or_init(|| Engine { device, memory, queue }))
    }

    /// The memory of the command under `--memory-limit`, for work on `device`: all of it counts here.
    pub fn memory(&self, device: &Device) -> &MemoryTracker {
        self.memory.get_or_init(|| MemoryTracker::new(memory::budget(self.config.memory_limit.value, device)))
    }

    /// Prints the result: `text`, or `json` with the device in it.
    pub fn print(&self, device: impl ToString, text: impl FnOnce() -> String, mut json: Value) -> Result<()> {
        match self.format {
            Format::Text => print(&text()),
            Format::Json => {
                json["device"] = device.to_string().into();
                print(&format!("{json:#}\n"))
            }
        }
    }

    /// Whether the result is JSON.
    pub fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Says that the work is done, but some inputs were refused and listed.
    pub fn refused_some(&self) {
        self.has_refused.store(true, Relaxed);
    }

    /// The code of a command that did its work.
    pub fn exit_code(&self) -> ExitCode {
        if self.has_refused.load(Relaxed) { ExitCode::from(1) } else { ExitCode::SUCCESS }
    }

    /// Says something on stderr unless quiet.
    pub fn say(&self, text: &str) {
        if !self.config.quiet.value {
            eprintln_if_open(text);
        }
    }

    /// Whether progress may be drawn.
    pub fn has_audience(&self) -> bool {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !self.config.quiet.value && !is_dumb && io::stderr().is_terminal()
    }

    /// Writes the trace and prints the tables that were asked for, also when the command failed.
    pub fn finish(&self) -> Result<()> {
        if let Some(engine) = self.engine.get() {
            self.collector.add_device(&engine.device.to_string(), engine.queue.device_spans()?);
        }
        if self.config.profile_table.value {
            let rows = usize::try_from(self.config.profile_rows.value).unwrap_or(usize::MAX);
            eprintln_if_open(self.collector.report().text(self.config.profile_sort.value, rows).trim_end());
        }
        if self.config.verbose.value {
            eprintln_if_open(self.memory_summary().trim_end());
        }
        self.trace.write()
    }
}

impl Session {
    /// What was counted, where anything was, and what the process has had.
    fn memory_summary(&self) -> String {
        if let Some(engine) = self.engine.get()
            && let Some(bytes) = device::bytes_in_use(&engine.device)
        {
            engine.memory.device_reports(engine.device.to_string(), bytes);
        }
        match self.memory.get() {
            Some(memory) => memory.summary().to_string(),
            None => memory::resident_line().unwrap_or_default(),
        }
    }
}

impl Trace {
    pub fn write(&self) -> Result<()> {
        // Held to the end: the other of the main and the signal thread waits until the file is complete.
        let mut waiting = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut file) = waiting.take() else { return Ok(()) };
        let path = file.path().to_owned();
        self.collector.write_chrome(&mut file).map_err(|error| output::failed(&path, error))?;
        file.commit()
    }
}

/// Writes to stdout; a reader that went away is no error.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(output::failed(Path::new("stdout"), error)),
        _ => Ok(()),
    }
}

fn wants_nvtx() -> bool {
    std::env::var_os("MELISMA_NVTX").is_some_and(|value| value == "1")
}

fn collector() -> Collector {
    if !wants_nvtx() {
        return Collector::new();
    }
    if !Nvtx::is_available() {
        eprintln_if_open("note: MELISMA_NVTX: the NVTX library was not found; no ranges are emitted");
    }
    Collector::with_ranges(Box::new(Nvtx))
}

fn eprintln_if_open(text: &str) {
    // Without stderr there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Reads a whole file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    use std::io::Read;
    let failed = |error| Error::io(path.display(), error).with_hint("check the name, and that it is a text file");
    let mut text = String::new();
    std::fs::File::open(path).map_err(failed)?.take(limit + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limit {
        return Err(Error::invalid(format!("{}: the file is larger than {limit} bytes", path.display())));
    }
    Ok(text)
}
