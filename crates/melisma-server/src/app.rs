//! The state that all requests share.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::iter;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use melisma::lock::Mutex;
use melisma::runtime::device::Device;
use melisma::snac::Model;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::batcher::Batcher;
use crate::build_info::BuildInfo;
use crate::config;
use crate::encoder::Encoder;
use crate::http::failure::Failure;
use crate::http::guard::Guard;
use crate::http::timeouts::ConnectionTimeouts;
use crate::live::SynthPool;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::queue::SlotQueue;
use crate::speakers::Speakers;
use crate::stopper::Stopper;
use crate::token_report::TokenReports;
use crate::upstream::Upstream;

/// Settings of a server.
#[derive(Debug)]
pub struct Settings {
    /// Where to listen.
    pub listen: Listen,
    /// Authentication and allowed hosts.
    pub guard: Guard,
    /// Limits on the clients.
    pub limits: Limits,
    /// Log of events.
    pub log: Log,
    /// Threads for connections.
    pub threads: usize,
    /// The language model behind `/v1/audio/speech`.
    pub upstream: Option<Upstream>,
    /// What the program was built from.
    pub build: BuildInfo,
    /// Ends the server from another thread.
    pub stopper: Stopper,
}

/// Where a server listens.
#[derive(Debug)]
pub enum Listen {
    /// At an address; port 0 takes any free port.
    Address(SocketAddr),
    /// At a socket that somebody else opened, and that other servers may share. Connections wait in it until the
    /// server is ready, and while none runs.
    Socket(TcpListener),
}

/// Limits on the clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most connections at a time.
    pub connections: usize,
    /// Time limits of a connection.
    pub timeouts: ConnectionTimeouts,
    /// Bytes of tokens in one request.
    pub token_bytes: usize,
    /// Bytes of an audio file.
    pub audio_bytes: usize,
    /// Bytes of tokens without a whole frame.
    pub frameless_bytes: u64,
    /// Bytes of a list of codes, which is held in memory.
    pub list_bytes: usize,
    /// Bytes of a request for speech.
    pub speech_bytes: usize,
    /// Bytes of one WebSocket message.
    pub message_bytes: usize,
    /// Longest audio of one stream.
    pub audio: Duration,
    /// Most listeners of live music.
    pub listeners: usize,
    /// Most pieces that are rendered at a time.
    pub renders: usize,
    /// Most audio files that are drawn at a time.
    pub pictures: usize,
    /// The longest piece that is rendered.
    pub piece: Duration,
    /// Longest time without progress while a client receives an answer or sends a body.
    pub stall_timeout: Duration,
    /// Silence after which the server pings a WebSocket client.
    pub ping: Duration,
    /// Longest wait of a request for speech or decoding for a free stream; zero refuses it at once.
    pub queue: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 4096,
            timeouts: ConnectionTimeouts { header: seconds(10), idle: seconds(60), total: seconds(24 * 3600) },
            token_bytes: 256 << 20,
            audio_bytes: 1 << 30,
            frameless_bytes: 1 << 20,
            list_bytes: 16 << 20,
            speech_bytes: 128 << 10,
            message_bytes: 1 << 20,
            audio: seconds(4 * 3600),
            listeners: 1024,
            renders: 2,
            pictures: 2,
            piece: seconds(3600),
            stall_timeout: seconds(10),
            ping: seconds(15),
            queue: config::DEFAULT_QUEUE,
        }
    }
}

/// The decoder, once it is loaded and measured.
#[derive(Debug)]
pub struct Decoder {
    /// The model, for its shape and its hash.
    pub model: Arc<Model>,
    /// The engine that all streams share.
    pub batcher: Batcher,
    /// The engine that all clips share.
    pub encoder: Encoder,
    /// The voice models, the default one first.
    pub speakers: Vec<Speakers>,
    /// Its device.
    pub device: Device,
}

/// The state of a server.
#[derive(Debug)]
pub struct App {
    /// Authentication and allowed hosts.
    pub guard: Guard,
    /// Limits on the clients.
    pub limits: Limits,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Events.
    pub log: Log,
    /// Token counts of finished requests.
    pub token_reports: TokenReports,
    /// Open streams.
    pub streams: Streams,
    /// Limits the number of connections.
    pub connections: Admission,
    /// The language model behind speech, if there is one.
    pub upstream: Option<Arc<Upstream>>,
    /// Asks the server to drain, and ends its measurements.
    pub stopper: Stopper,
    /// Becomes true when the server drains.
    pub stop: watch::Receiver<bool>,
    /// Limits the number of whole renders.
    pub renders: Admission,
    /// Limits the number of pictures of audio files.
    pub pictures: Admission,
    /// Warns once about tokens that are probably of another codec.
    pub(crate) doubt: Once,
    /// Tells once that the built-in codec made tokens.
    pub(crate) encode_doubt: Once,
    /// What the program was built from.
    pub build: BuildInfo,
    pub(crate) decoder: OnceLock<Decoder>,
    pub(crate) synth_pool: OnceLock<SynthPool>,
    ids: Ids,
}

impl Decoder {
    /// Returns the queues in which requests wait: for a stream, and for a speaker of each voice model.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &SlotQueue> {
        iter::once(self.batcher.slots()).chain(self.speakers.iter().map(Speakers::slots))
    }

    /// Returns the largest load of these queues, from 0 to 1.
    pub(crate) fn load(&self) -> f64 {
        self.queues().map(SlotQueue::load).fold(0.0, f64::max)
    }

    /// Returns the frames that wait for their step, in all engines.
    pub(crate) fn queue_depth(&self) -> usize {
        let own = self.speakers.iter().filter_map(Speakers::codec).map(|codec| codec.batcher.queue_depth());
        self.batcher.queue_depth() + own.sum::<usize>()
    }
}

impl App {
    pub(crate) fn new(settings: Settings, stop: watch::Receiver<bool>) -> Self {
        let Settings { guard, limits, log, upstream, build, stopper, .. } = settings;
        let metrics = Arc::<Metrics>::default();
        Self {
            guard,
            limits,
            streams: Streams::new(&metrics),
            metrics,
            log,
            token_reports: TokenReports::default(),
            connections: Admission::new(limits.connections),
            upstream: upstream.map(Arc::new),
            stopper,
            stop,
            renders: Admission::new(limits.renders),
            pictures: Admission::new(limits.pictures),
            doubt: Once::new(),
            encode_doubt: Once::new(),
            build,
            decoder: OnceLock::new(),
            synth_pool: OnceLock::new(),
            ids: Ids::default(),
        }
    }

    /// Returns the decoder.
    ///
    /// # Errors
    /// 503 while it is being loaded.
    pub fn decoder(&self) -> Result<&Decoder, Failure> {
        self.decoder.get().ok_or_else(|| Failure::busy("loading", "the model is being loaded"))
    }

    /// Returns the threads that play music.
    ///
    /// # Errors
    /// 503 while they are being measured.
    pub fn synth_pool(&self) -> Result<&SynthPool, Failure> {
        self.synth_pool.get().ok_or_else(|| Failure::busy("loading", "the server is starting"))
    }

    /// Refuses new work while the server drains.
    ///
    /// # Errors
    /// 503 if it does.
    pub fn check_open(&self) -> Result<(), Failure> {
        match self.is_draining() {
            true => Err(draining()),
            false => Ok(()),
        }
    }

    /// Returns whether the server takes no further requests.
    pub fn is_draining(&self) -> bool {
        *self.stop.borrow()
    }

    /// Returns a new request id.
    pub fn request_id(&self) -> String {
        self.ids.next()
    }
}

/// Returns the refusal of new work while the server drains.
pub(crate) fn draining() -> Failure {
    Failure::busy("draining", "the server is stopping").and_close()
}

/// Generates request ids that cannot be guessed from each other.
#[derive(Debug, Default)]
struct Ids {
    keys: [RandomState; 2],
    n: AtomicU64,
}

impl Ids {
    fn next(&self) -> String {
        let n = self.n.fetch_add(1, Relaxed);
        self.keys.iter().map(|key| format!("{:016x}", key.hash_one(n))).collect()
    }
}

/// The open streams, for the status.
#[derive(Debug)]
pub struct Streams {
    open: Arc<Mutex<BTreeMap<u64, Stream>>>,
    n: AtomicU64,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Stream {
    id: String,
    kind: &'static str,
    start: Instant,
    buffer_ms: Arc<AtomicU64>,
}

/// Keeps an open stream in the list until it is dropped.
#[derive(Debug)]
pub struct OpenStreamGuard {
    open: Arc<Mutex<BTreeMap<u64, Stream>>>,
    key: u64,
    buffer_ms: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

impl Streams {
    fn new(metrics: &Arc<Metrics>) -> Self {
        Self { open: Arc::default(), n: AtomicU64::new(0), metrics: Arc::clone(metrics) }
    }

    /// Lists the stream of the request `id`.
    pub fn list(&self, id: &str, kind: &'static str) -> OpenStreamGuard {
        let key = self.n.fetch_add(1, Relaxed);
        let buffer_ms = Arc::<AtomicU64>::default();
        let stream = Stream { id: id.to_owned(), kind, start: Instant::now(), buffer_ms: Arc::clone(&buffer_ms) };
        self.open.lock().insert(key, stream);
        self.metrics.stream_opened();
        OpenStreamGuard { open: Arc::clone(&self.open), key, buffer_ms, metrics: Arc::clone(&self.metrics) }
    }

    /// Returns `[{"id", "kind", "seconds", "buffer_seconds"}]`.
    pub fn json(&self) -> Value {
        let one = |stream: &Stream| {
            json!({
                "id": stream.id,
                "kind": stream.kind,
                "seconds": stream.start.elapsed().as_secs_f64(),
                "buffer_seconds": stream.buffer_ms.load(Relaxed) as f64 / 1e3,
            })
        };
        self.open.lock().values().map(one).collect()
    }

    /// Returns how many are open.
    pub fn count(&self) -> usize {
        self.metrics.open_streams()
    }
}

impl OpenStreamGuard {
    /// Notes how far ahead of real time the client's audio is.
    pub fn sent(&self, audio: Duration, since: Instant) {
        let ahead = audio.saturating_sub(since.elapsed());
        self.buffer_ms.store(ahead.as_millis() as u64, Relaxed);
    }
}

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        self.open.lock().remove(&self.key);
        self.metrics.stream_ended();
    }
}
