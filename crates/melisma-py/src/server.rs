//! `serve`: a server in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use melisma::lock::Mutex;
use melisma::runtime::device::Device;
use melisma::runtime::machine::raise_file_limit;
use melisma::snac::EngineOptions;
use melisma::{Error, Result};
use melisma_server::batcher::{Batcher, Setup};
use melisma_server::metrics::Metrics;
use melisma_server::upstream::{self, Upstream};
use melisma_server::{Decoder, Guard, Limits, Log, Server, Settings, Stopper, encoder, key};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::raise;
use crate::exec_context::ExecOptions;
use crate::local::Local;
use crate::signal;
use crate::snac::Codec;

const UPSTREAM_KEY_VARIABLE: &str = "MELISMA_UPSTREAM_KEY";
const DEFAULT_MODEL: &str = "builtin:mini24";
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
///     api_key: The key that clients must send.
///
/// Returns:
///     The server, for `with`.
#[pyfunction]
#[pyo3(signature = (*, port=0, model=None, upstream=None, api_key=None))]
pub fn serve(
    py: Python<'_>,
    port: u16,
    model: Option<String>,
    upstream: Option<String>,
    api_key: Option<String>,
) -> PyResult<PyServer> {
    if upstream.is_some() && model.is_none() {
        return Err(raise(
            Error::invalid("upstream without model: its tokens are codes of one codec")
                .with_hint("name the codec that the language model was trained with, as in model=\"snac_24khz/\""),
        ));
    }
    let api_key = api_key.map(|text| key::check("api_key", &text)).transpose().map_err(raise)?;
    let codec = Codec::open(py, model.as_deref().unwrap_or(DEFAULT_MODEL), ExecOptions::default())?;
    let of = |url: String| {
        let key = key::of_environment(UPSTREAM_KEY_VARIABLE)?;
        Upstream::new(upstream::Settings { key, ..upstream::Settings::new(&url, &codec.exec.upstream)? })
    };
    let upstream = upstream.map(of).transpose().map_err(raise)?;
    let settings = Settings {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        guard: Guard { key: api_key, ..Guard::default() },
        limits: Limits::default(),
        log: Log::default(),
        threads: codec.exec.config.threads.value.count(),
        upstream,
    };
    // Where the limit cannot be raised, fewer connections fit.
    let _ = raise_file_limit();
    let server = py.detach(|| Server::bind(settings)).map_err(raise)?;
    let (url, stopper, is_ready) = (format!("http://{}", server.address()), server.stopper(), server.readiness());
    let run = move || server.run(|metrics| load(codec, metrics));
    let thread = std::thread::Builder::new().name("melisma-serve".to_owned()).spawn(run);
    let thread = thread.map_err(|error| raise(Error::io("the server's thread", error)))?;
    let running = Local::new(Running { stopper, thread: Mutex::new(Some(thread)) });
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

fn load(codec: Codec, metrics: &Arc<Metrics>) -> Result<Decoder> {
    let Codec { model, exec } = codec;
    let max_streams = match exec.context.device() {
        Device::Cpu(_) => 64,
        Device::Cuda(_) => 2048,
    };
    let setup = Setup {
        queue: exec.context.queue(),
        budget: exec.context.budget(),
        options: EngineOptions::new(max_streams),
        capacity: None,
        metrics: Arc::clone(metrics),
    };
    let batcher = Batcher::start(&model, setup)?;
    let budget = exec.context.budget();
    let encoder = encoder::start(&model, &exec.context.device().queue(budget)?, budget, metrics)?;
    Ok(Decoder { model, batcher, encoder, device: exec.context.device().clone() })
}
