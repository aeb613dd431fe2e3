//! The context of every command: settings, device, memory, trace, and where output goes.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use melisma::Existing;
use melisma::config::{self, Config, Entry, Environment, Layers, Section, Sources};
use melisma::runtime::MemoryTracker;
use melisma::runtime::device::{self, Device, DeviceRequest};
use melisma::runtime::memory::{self, Needed, Reservation, Space};
use melisma::speak;
use melisma::text::size;
use melisma::trace::{Collector, Detail, Nvtx};
use melisma::{Context, Error, ErrorKind, Remedy, Result};
use melisma_server::upstream;
use serde_json::Value;

use crate::args::Cli;
use crate::input::Input;
use crate::settings::Settings;
use crate::trace_file::TraceFile;
use crate::{interrupt, json_output, terminal, variable};

/// The exit code of a command that finished but skipped some inputs.
const REFUSED: u8 = 1;
/// The exit code of a process ended by SIGPIPE.
const LOST_READER: u8 = 128 + 13;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

pub struct Session {
    pub config: Config,
    pub settings: Settings,
    pub upstream: upstream::Config,
    /// Where the settings come from.
    pub sources: Sources,
    pub serve: melisma_server::Config,
    pub speak: speak::Config,
    pub existing: Existing,
    pub collector: Collector,
    format: Format,
    memory: OnceLock<MemoryTracker>,
    /// Created when a command first needs it.
    context: OnceLock<Context>,
    is_collecting: AtomicBool,
    code: AtomicU8,
    trace: TraceFile,
}

impl Session {
    /// Resolves the settings and opens the trace file, so that a bad path fails before any work. No
    /// output may also be an input.
    pub fn open(cli: &Cli) -> Result<Self> {
        let Cli { globals, paths, .. } = cli;
        let environment = Environment::process();
        let sources = Sources::default()
            .with_file(globals.config.clone())
            .with_environment(environment)
            .with_flags(cli.settings());
        let layers = Layers::read(&sources)?;
        let config = Config::of(&layers)?;
        let (settings, upstream): (Settings, _) = (layers.section()?, layers.section()?);
        let (serve, speak) = (layers.section()?, layers.section()?);
        if let Some(directory) = &config.cache_dir.value {
            device::cuda::set_cache_directory(directory.clone());
        }
        if !globals.print_config {
            paths.protect(&config, &settings)?;
        }
        let existing = if globals.force { Existing::Replace } else { Existing::Refuse };
        let collector = collector();
        let trace = match globals.print_config {
            true => TraceFile::none(&collector),
            false => TraceFile::open(&collector, &settings.trace, existing)?,
        };
        interrupt::watch(trace.clone())?;
        let format = if globals.json { Format::Json } else { Format::Text };
        let session = Self {
            config,
            settings,
            upstream,
            sources,
            serve,
            speak,
            existing,
            collector,
            format,
            memory: OnceLock::new(),
            context: OnceLock::new(),
            is_collecting: AtomicBool::new(false),
            code: AtomicU8::new(0),
            trace,
        };
        if session.settings.trace.value.is_some() || session.settings.profile_table.value || wants_nvtx() {
            session.collect()?;
        }
        Ok(session)
    }

    /// Returns every setting with its value and origin.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        let fronts = [self.settings.entries(), self.serve.entries(), self.upstream.entries()].concat();
        [self.config.entries(), fronts, self.speak.entries()].concat()
    }

    /// Starts collecting spans; until then they cost nothing.
    pub fn collect(&self) -> Result<()> {
        if self.is_collecting.swap(true, Relaxed) {
            return Ok(());
        }
        let detail = if self.settings.profile_kernels.value { Detail::Kernels } else { Detail::Graphs };
        self.collector.time_devices(detail);
        self.collector.set_threads(self.config.threads.value.count());
        self.collector.install()
    }

    /// Returns the configured device, its memory and its queue.
    pub fn context(&self) -> Result<&Context> {
        self.context_on(self.config.device.value)
    }

    /// Returns the context of `request`, for commands with their own default. The first call decides.
    pub fn context_on(&self, request: DeviceRequest) -> Result<&Context> {
        if let Some(context) = self.context.get() {
            return Ok(context);
        }
        let device = device::select(request, self.config.threads.value)?;
        let memory = self.memory(&device).clone();
        let context = Context::on(device, memory)?;
        Ok(self.context.get_or_init(|| context))
    }

    /// Returns the memory tracker of the command under `--memory-limit`, for work on `device`. It counts
    /// everything.
    pub fn memory(&self, device: &Device) -> &MemoryTracker {
        self.memory.get_or_init(|| MemoryTracker::new(memory::budget(self.config.memory_limit.value, device)))
    }

    /// Reserves `bytes` of host memory for `what`, or fails and names the smallest sufficient
    /// limit.
    pub fn reserve(&self, device: &Device, what: &str, bytes: u64) -> Result<Reservation> {
        let memory = self.memory(device);
        let held = memory.budget().usage(Space::Host).now;
        memory.reserve(Space::Host, bytes).map_err(|_| self.too_small(what, held.saturating_add(bytes)))
    }

    /// Fails if the limit has no room for `needed`, before `what` allocates any.
    pub fn require(&self, device: &Device, what: &str, needed: Needed) -> Result<()> {
        let budget = self.memory(device).budget();
        let host = budget.reserve(Space::Host, needed.host);
        if host.is_ok() && budget.reserve(Space::Device, needed.device).is_ok() {
            return Ok(());
        }
        drop(host);
        let held = |spaces: &[Space]| spaces.iter().map(|&space| budget.usage(space).now).sum::<u64>();
        let host = held(&[Space::Host, Space::Pinned]).saturating_add(needed.host);
        let device = held(&[Space::Device]).saturating_add(needed.device);
        Err(self.too_small(what, if budget.is_shared() { host.saturating_add(device) } else { host.max(device) }))
    }

    /// Returns the error for a memory limit below the `bytes` that `what` needs in total.
    pub fn too_small(&self, what: &str, bytes: u64) -> Error {
        let most = || self.memory.get().and_then(|memory| memory.budget().limit(Space::Host));
        let limit = self.config.memory_limit.value.bytes().or_else(most);
        memory::too_small(what, bytes, limit.unwrap_or(0))
    }

    /// Prints the result: `text` unless quiet, or at the end of the command `json` with the device
    /// added.
    pub fn print(&self, device: impl ToString, text: impl FnOnce() -> String, mut json: Value) -> Result<()> {
        match self.format {
            Format::Text if self.settings.quiet.value => Ok(()),
            Format::Text => terminal::print(&text()),
            Format::Json => {
                json["device"] = device.to_string().into();
                json_output::set_result(json);
                Ok(())
            }
        }
    }

    /// Prints output that the user asked for explicitly, such as a script or the settings, even if
    /// quiet.
    pub fn print_asked(&self, device: impl ToString, text: impl FnOnce() -> String, json: Value) -> Result<()> {
        match self.format {
            Format::Text => terminal::print(&text()),
            Format::Json => self.print(device, text, json),
        }
    }

    /// Warns about environment variables that look like ours but that nothing reads.
    pub fn warn_of_misspelt_variables(&self) {
        for (name, meant) in variable::misspelt(&Environment::process()) {
            let name = terminal::one_line(name);
            self.say(&format!("warning: the environment variable {name} is not read\nhint: did you mean {meant}?"));
        }
    }

    /// Reads all of `input`, at most `most` bytes. Each byte takes `bytes_each` bytes of the free
    /// memory.
    pub fn read_all(&self, device: &Device, input: Input, most: u64, bytes_each: u64) -> Result<Vec<u8>> {
        let (name, len) = (input.name().to_owned(), input.len());
        let room = self.memory(device).budget().free(Space::Host) / bytes_each;
        if let Some(bytes) = input.read_all(most.min(room))? {
            return Ok(bytes);
        }
        if room >= most || len.is_some_and(|len| len > most) {
            return Err(Error::invalid(format!("{name}: more than {most} bytes")).with_hint("cut it first"));
        }
        // The length of a pipe is known only at its end.
        let limit = size::show_limit(self.config.memory_limit.value.bytes());
        let message =
            format!("{name} has more than the {} that are free; the memory limit is {limit}", size::show(room));
        Err(Error::new(ErrorKind::Memory, message).with_hint(Remedy::RaiseMemoryLimit { least: None }))
    }

    /// Notes where a `melisma.yaml` in the current folder would be read from, if it is not read.
    pub fn note_unread_config(&self) {
        let here = Path::new(config::FILE_NAME);
        let is_same = |path: &Path| matches!((path.canonicalize(), here.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if !here.is_file() || self.config.file.as_deref().is_some_and(is_same) {
            return;
        }
        let place = config::default_file(&Environment::process());
        let place = place.map_or_else(String::new, |place| format!(", or move it to {}", terminal::name(&place)));
        self.say(&format!("note: {0} in this folder is not read; use --config {0}{place}", config::FILE_NAME));
    }

    /// Returns whether the result is JSON.
    pub fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Records that the work is done, but some inputs were rejected and listed.
    pub fn refused_some(&self) {
        self.code.store(REFUSED, Relaxed);
    }

    /// Ends the command quietly, because the reader of its output closed the pipe early.
    pub fn lost_reader(&self) -> Result<()> {
        self.code.store(LOST_READER, Relaxed);
        Ok(())
    }

    /// Returns the exit code of a command that ended without an error.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code.load(Relaxed))
    }

    /// Prints `text` on stderr unless quiet.
    pub fn say(&self, text: &str) {
        if !self.settings.quiet.value {
            terminal::say(text);
        }
    }

    /// Returns whether progress may be drawn.
    pub fn has_audience(&self) -> bool {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        !self.settings.quiet.value && !is_dumb && io::stderr().is_terminal()
    }

    /// Writes the trace and prints the requested tables, even if the command failed.
    pub fn finish(&self) -> Result<()> {
        if self.settings.profile_table.value {
            let report = self.collector.report();
            terminal::say(report.text(self.settings.profile_sort.value, self.settings.rows()).trim_end());
            if let Some(line) = self.context.get().and_then(|context| gpu_line(context.device())) {
                terminal::say(&line);
            }
        }
        if self.settings.verbose.value {
            terminal::say(self.memory_summary().trim_end());
        }
        self.trace.write()
    }
}

impl Session {
    /// Returns the counted memory, if any, and the peak memory of the process.
    fn memory_summary(&self) -> String {
        if let Some(context) = self.context.get()
            && let Some(usage) = device::usage(context.device())
        {
            context.memory().device_reports(context.device().to_string(), usage.memory_bytes);
        }
        match self.memory.get() {
            Some(memory) => memory.summary().to_string(),
            None => memory::resident_lines(),
        }
    }
}

/// Returns `cuda:0: 1.2GiB of 80GiB in use, 37 % busy, 123 W`, without what the GPU does not tell.
fn gpu_line(gpu: &Device) -> Option<String> {
    let usage = device::usage(gpu)?;
    let mut line = format!("{gpu}: {} of {} in use", size::show(usage.memory_bytes), size::show(usage.total_bytes));
    if let Some(percent) = usage.busy_percent {
        line += &format!(", {percent} % busy");
    }
    if let Some(watts) = usage.power_watts {
        line += &format!(", {watts:.0} W");
    }
    Some(line)
}

fn wants_nvtx() -> bool {
    std::env::var_os("MELISMA_NVTX").is_some_and(|value| value == "1")
}

fn collector() -> Collector {
    if !wants_nvtx() {
        return Collector::new();
    }
    if !Nvtx::is_available() {
        terminal::say("note: MELISMA_NVTX: the NVTX library was not found; no ranges are emitted");
    }
    Collector::with_ranges(Box::new(Nvtx))
}
