//! `serve`: a server in this process.

use std::ffi::CStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use melisma::config::{Layers, Origin, Policy, Raw, Section};
use melisma::lock::Mutex;
use melisma::runtime::machine::raise_file_limit;
use melisma::snac::{self, EngineOptions};
use melisma::speak::Opening;
use melisma::{Error, Result};
use melisma_server::batcher::{Batcher, CapacityCache, Setup};
use melisma_server::metrics::Metrics;
use melisma_server::speakers::{self, VoiceModel};
use melisma_server::upstream::{self, Upstream};
use melisma_server::{
    BuildInfo, Decoder, Guard, Keyring, Limits, Listen, Log, Server, Settings, Stopper, Streams, encoder, key,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::raise;
use crate::exec_context::ExecOptions;
use crate::local::Local;
use crate::snac::Codec;
use crate::{log, settings, signal};

const UPSTREAM_KEY_VARIABLE: &str = "MELISMA_UPSTREAM_KEY";
const DEFAULT_MODEL: &str = snac::MINI24;
/// A warning about the built-in model behind a language model.
const FOREIGN: &CStr =
    c"a language model such as Orpheus speaks in codes of its own codec, which builtin:mini24 turns \
                         into noise: serve(model=...)";
/// How long leaving the server waits for open streams.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(20);

/// A server that runs until it is closed.
#[pyclass(name = "Server", module = "melisma", frozen)]
pub struct PyServer {
    /// Where it listens, as in http://127.0.0.1:8431.
    #[pyo3(get)]
    url: String,
    running: Local<Running>,
}

struct Running {
    stopper: Stopper,
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
    keys: Keyring,
    key_file: Option<PathBuf>,
    /// The language model and its URL.
    upstream: Option<(Arc<Upstream>, String)>,
}

impl Drop for Running {
    /// Ends the server when the object is collected.
    fn drop(&mut self) {
        self.stopper.drain();
    }
}

#[pymethods]
impl PyServer {
    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Stops the server: it refuses new requests and finishes open streams, for at most five seconds.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.get()?;
        running.stopper.drain();
        py.detach(|| {
            let thread = running.thread.lock().take();
            let Some(thread) = thread else { return Ok(()) };
            let start = Instant::now();
            while !thread.is_finished() && start.elapsed() < CLOSE_TIMEOUT {
                std::thread::sleep(TICK);
                signal::check()?;
            }
            match thread.is_finished() {
                true => thread.join().unwrap_or(Ok(())).map_err(raise),
                false => Ok(()),
            }
        })
    }

    /// Reads the file of keys and the voices in `melisma.yaml` again. What cannot be read raises and stays.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.get()?;
        let sources = settings::sources(None, None, None)?;
        py.detach(|| {
            if let Some(path) = &running.key_file {
                running.keys.read_again(path)?;
            }
            if let Some((upstream, url)) = &running.upstream {
                let config = Layers::read(&sources)?.section()?;
                upstream.set_voices(upstream::Settings::new(url, &config)?)?;
            }
            Ok(())
        })
        .map_err(raise)
    }

    fn __repr__(&self) -> String {
        format!("Server({:?})", self.url)
    }
}

impl PyServer {
    fn has_ended(&self) -> PyResult<bool> {
        let thread = self.running.get()?.thread.lock();
        Ok(thread.as_ref().is_none_or(JoinHandle::is_finished))
    }
}

/// Starts a server on 127.0.0.1, and waits until it is ready.
///
/// Args:
///     port: Its port; 0 takes any free one.
///     model: A codec model, as `melisma.snac.Decoder` takes it.
///     upstream: The URL of a language model's server, for speech.
///     voice_model: A language model that speaks here, as `melisma.speak.Speaker` takes it: "builtin:voice" or a folder;
///         or a dictionary of such models by the name that clients give them, the first one being the default; or "none".
///         `None` is the built-in voice, and with an upstream none.
///     speakers: Texts that each voice model speaks at a time; `None` measures how many are heard without a gap.
///     normalise: Whether texts are read out in words before any language model sees them. `None` is what each voice
///         model's speak.yaml or the settings say, and no for an upstream.
///     api_key: The key that clients must send.
///     api_key_file: A file with one key, or with a line `NAME: KEY [streams=N] [until=DATE] [scope=metrics]` for each client.
///     log: Called with each line of the log, on a thread of the server; an event is a JSON object. `None` gives them to
///         `logging.getLogger("melisma")`.
///     log_level: The least level of these lines: "debug" adds probes and scrapes, "error" leaves only errors. `None` is
///         "info" with `log` and "warn" without.
///     streams: Streams at a time; `None` measures how many the device keeps up with.
///     max_streams: Most streams at a time, and most listeners of live music; 64 streams on a CPU and 2048 on a GPU
///         unless given.
///     queue: Seconds that a request may wait for a free stream, 5 unless the settings say otherwise; 0 refuses it.
///
/// Returns:
///     The server, for `with`.
#[pyfunction]
#[pyo3(signature = (
    *, port=0, model=None, upstream=None, voice_model=None, speakers=None, normalise=None, api_key=None, api_key_file=None,
    log=None, log_level=None, streams=None, max_streams=None, queue=None
))]
#[allow(clippy::too_many_arguments, reason = "Python names its arguments")]
pub fn serve(
    py: Python<'_>,
    port: u16,
    model: Option<PathBuf>,
    upstream: Option<String>,
    voice_model: Option<VoiceModels>,
    speakers: Option<i64>,
    normalise: Option<bool>,
    api_key: Option<String>,
    api_key_file: Option<PathBuf>,
    log: Option<Py<PyAny>>,
    log_level: Option<&str>,
    streams: Option<i64>,
    max_streams: Option<i64>,
    queue: Option<f64>,
) -> PyResult<PyServer> {
    if upstream.is_some() && model.is_none() {
        return Err(raise(
            Error::invalid("upstream without model: its tokens are codes of one codec")
                .with_hint("name the codec that the language model was trained with, as in model=\"snac_24khz/\""),
        ));
    }
    let keys = keys(api_key.as_deref(), api_key_file.as_deref()).map_err(raise)?;
    let mut codec = Codec::open(py, model.unwrap_or_else(|| DEFAULT_MODEL.into()), ExecOptions::default())?;
    if upstream.is_some() {
        codec.warn_of_builtin(py, FOREIGN, 1)?;
    }
    let voice_models = match voice_model {
        Some(models) => models.read()?,
        None if upstream.is_some() => Vec::new(),
        None => VoiceModel::builtin().into_iter().collect(),
    };
    let given = [
        ("serve.speakers", "speakers", speakers.map(|n| n.to_string())),
        ("serve.streams", "streams", streams.map(|n| n.to_string())),
        ("serve.queue", "queue", queue.map(|seconds| format!("{seconds}s"))),
    ];
    for (key, name, text) in given {
        let Some(text) = text else { continue };
        let set = codec.exec.serve.set(key, &Raw::Word(text), Origin::Flag(name));
        set.map_err(|error| raise(error.at(name)))?;
    }
    if let Some(normalise) = normalise {
        let (raw, origin) = (Raw::Bool(normalise), Origin::Flag("normalise"));
        codec.exec.speak.set("speak.normalise", &raw, origin.clone()).map_err(raise)?;
        codec.exec.upstream.set("upstream.normalise", &raw, origin).map_err(raise)?;
    }
    let of = |url: String| {
        let key = key::of_environment(UPSTREAM_KEY_VARIABLE)?;
        Upstream::new(upstream::Settings { key, ..upstream::Settings::new(&url, &codec.exec.upstream)? })
    };
    let level = log_level.map(log::level).transpose().map_err(raise)?;
    let max_streams = max_streams.map(checked).transpose().map_err(raise)?;
    let log = log::open(py, level, log)?;
    let stopper = Stopper::default();
    let settings = Settings {
        stopper: stopper.clone(),
        listen: Listen::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        guard: Guard { keys: keys.clone(), ..Guard::default() },
        limits: limits(codec.exec.serve.queue.value.0, max_streams),
        log: log.clone(),
        threads: codec.exec.config.threads.value.count(),
        upstream: upstream.clone().map(of).transpose().map_err(raise)?,
        build: build_info(),
    };
    // Where the limit cannot be raised, fewer connections fit.
    let _ = raise_file_limit();
    let server = py.detach(|| Server::bind(settings)).map_err(raise)?;
    let (url, is_ready) = (format!("http://{}", server.address()), server.readiness());
    let upstream = server.upstream().zip(upstream);
    let run = move || server.run(|metrics, stopper| load(codec, (max_streams, &voice_models), (metrics, stopper), log));
    let thread = std::thread::Builder::new().name("melisma-serve".to_owned()).spawn(run);
    let thread = thread.map_err(|error| raise(Error::io("the server's thread", error)))?;
    let thread = Mutex::new(Some(thread));
    let running = Local::new(Running { stopper, thread, keys, key_file: api_key_file, upstream });
    let server = PyServer { url, running };
    let waited = py.detach(|| {
        while !is_ready() {
            if server.has_ended()? {
                return Ok(false);
            }
            std::thread::sleep(TICK);
            signal::check()?;
        }
        Ok(true)
    });
    match waited {
        Ok(true) => Ok(server),
        // Closing it gives the error that ended it.
        Ok(false) => server.close(py).and_then(|()| Err(raise(Error::invalid("the server ended")))),
        Err(raised) => server.close(py).and(Err(raised)),
    }
}

fn keys(key: Option<&str>, file: Option<&Path>) -> Result<Keyring> {
    match (key, file) {
        (Some(_), Some(_)) => {
            Err(Error::invalid("api_key and api_key_file: expected one of them").with_hint("put the key into the file"))
        }
        (Some(key), None) => Keyring::of_key("api_key", key),
        (None, Some(file)) => Keyring::read(file),
        (None, None) => Ok(Keyring::default()),
    }
}

/// Returns `max_streams` if it is in its range.
fn checked(max_streams: i64) -> Result<usize> {
    let most = usize::try_from(max_streams).ok().filter(|most| (1..=Streams::MAX).contains(most));
    most.ok_or_else(|| Error::invalid(format!("max_streams: expected 1 to {}, got {max_streams}", Streams::MAX)))
}

/// Returns the limits on clients, with at most so many listeners as streams.
fn limits(queue: Duration, max_streams: Option<usize>) -> Limits {
    let defaults = Limits::default();
    let listeners = max_streams.map_or(defaults.listeners, |most| defaults.listeners.min(most));
    Limits { listeners, queue, ..defaults }
}

/// Returns version and features, and the commit if the build was told.
pub fn build_info() -> BuildInfo {
    BuildInfo::new(option_env!("MELISMA_COMMIT"))
}

/// One voice model, or several by their names.
#[derive(FromPyObject)]
pub enum VoiceModels<'py> {
    One(PathBuf),
    Named(Bound<'py, PyDict>),
}

impl VoiceModels<'_> {
    fn read(self) -> PyResult<Vec<VoiceModel>> {
        let named = |error: Error| raise(error.at("voice_model"));
        let models = match self {
            Self::One(folder) if folder == Path::new("none") => Vec::new(),
            Self::One(folder) => vec![VoiceModel::new(None, &folder).map_err(named)?],
            Self::Named(models) => {
                let one = |(name, folder): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                    let (name, folder) = (name.extract::<String>()?, folder.extract::<PathBuf>()?);
                    VoiceModel::new(Some(&name), &folder).map_err(named)
                };
                models.iter().map(one).collect::<PyResult<_>>()?
            }
        };
        VoiceModel::check_names(&models).map_err(named)?;
        Ok(models)
    }
}

fn load(
    codec: Codec,
    (most, voice_models): (Option<usize>, &[VoiceModel]),
    (metrics, stopper): (&Arc<Metrics>, &Stopper),
    log: Log,
) -> Result<Decoder> {
    let Codec { model, exec } = codec;
    let (device, streams) = (exec.context.device(), exec.serve.streams.value);
    let max_streams = streams.slots(device, most);
    let folder = exec.config.cache_dir.value.as_deref();
    let cache = folder.map(|folder| CapacityCache::of(folder, &model, device, max_streams));
    let rounding = Policy::new(&exec.config).rounding()?;
    let options = EngineOptions::new(max_streams).with_rounding(rounding);
    let setup = Setup {
        queue: exec.context.queue(),
        budget: exec.context.budget(),
        options,
        sizing: streams.sizing(cache),
        metrics: Arc::clone(metrics),
        log: log.clone(),
        stopper: stopper.clone(),
    };
    let batcher = Batcher::start(&model, setup)?;
    let budget = exec.context.budget();
    let encoder = encoder::start(&model, &exec.context.device().queue(budget)?, budget, metrics)?;
    let opening = Opening::default().with_rounding(rounding).with_config(exec.speak.clone());
    let (context, sizing) = (&exec.context, exec.serve.speakers.value);
    let decoding = speakers::Decoding::like(&batcher, options, metrics, stopper);
    let loading = speakers::Loading { context, codec: &model, opening, sizing, decoding, log };
    let speakers = speakers::open_all(voice_models, loading)?;
    Ok(Decoder { model, batcher, encoder, speakers, device: exec.context.device().clone() })
}
