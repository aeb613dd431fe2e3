//! Tokens from a client to the frames of a stream, within limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use melisma::snac::tokens::{Format, Ledger, Reader};
use melisma::snac::{Codes, Model, Noise};
use melisma::text::count;
use serde_json::Value;
use tokio::time::sleep;

use crate::app::{App, Decoder, draining};
use crate::audio::Layout;
use crate::batcher::{self, Input, Output};
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::http::race::{First, race};
use crate::log::Level;
use crate::metrics::Stage;
use crate::queue::{Entry, Slot, SlotQueue};
use crate::speakers::OwnCodec;
use crate::token_report::TokenReport;

/// What the built-in codec says about tokens that do not name their model.
const DOUBT: &str = "warning: tokens without a model's stamp: builtin:mini24 turns those of another codec, such as \
                     Orpheus', into noise; name it with --model";
/// The most frames of `chunk`.
const MAX_CHUNK: usize = 4096;

/// The number of samples of a stream, set before its first frame is decoded, or else 0.
pub(super) type Length = Arc<AtomicU64>;

/// Options of a stream.
#[derive(Debug)]
pub(super) struct Choice {
    noise: Noise,
    chunk: usize,
    pub(super) tokens: Format,
}

impl Choice {
    /// Reads `noise` and `chunk`.
    pub(super) fn new(query: &mut Query) -> Result<Self, Failure> {
        let noise = query.value("noise", "off or seed:N", |text| match text {
            "off" => Some(Noise::Off),
            _ => Some(Noise::Seed(text.strip_prefix("seed:")?.parse().ok()?)),
        })?;
        let chunk = query.value("chunk", "1 to 4096 frames", |text| {
            text.parse().ok().filter(|frames| (1..=MAX_CHUNK).contains(frames))
        })?;
        Ok(Self { noise: noise.unwrap_or_default(), chunk: chunk.unwrap_or(1), tokens: Format::Auto })
    }

    /// Returns the options of a stream of speech.
    pub(super) fn speech() -> Self {
        Self { noise: Noise::default(), chunk: 1, tokens: Format::Orpheus }
    }

    /// Returns the options of a stream of frames from a voice model of this server.
    pub(super) fn frames() -> Self {
        Self { tokens: Format::Codes, ..Self::speech() }
    }

    /// Decodes no frame before the last one has arrived, so that the length is known.
    pub(super) fn gather(&mut self) {
        self.chunk = usize::MAX;
    }

    /// Returns why a stream would be refused now.
    pub(super) fn refusal(app: &App) -> Option<Failure> {
        let longest = app.limits.queue;
        let refusal = |places: Places<'_>| places.slots.refusal(longest).map(|wait| places.too_long(longest, wait));
        ready(app).map_or_else(Some, |decoder| refusal(Places::of(decoder)))
    }

    /// Opens a stream; waits for one to become free, as long as the queue allows.
    ///
    /// # Errors
    /// 503 while the model is loaded, when the device is fully used for too long, and when the server drains.
    pub(super) async fn open(self, app: &Arc<App>) -> Result<(Intake, Output, Layout), Failure> {
        self.open_for(app, None, app.limits.queue).await
    }

    /// Opens a stream of a voice model, which may have its own codec, see [`OwnCodec`]. `left` is what its request may
    /// yet wait.
    ///
    /// # Errors
    /// As [`Choice::open`].
    pub(super) async fn open_for(
        self,
        app: &Arc<App>,
        own: Option<&OwnCodec>,
        left: Duration,
    ) -> Result<(Intake, Output, Layout), Failure> {
        let decoder = ready(app)?;
        let (model, batcher) = match own {
            Some(own) => (&own.model, &own.batcher),
            None => (&decoder.model, &decoder.batcher),
        };
        let config = model.config();
        let reader = Reader::new(self.tokens, config)?;
        let places = Places::of(decoder);
        let slot = places.slot(app, left).await?;
        let (input, output) = batcher.open_in(slot, self.noise).ok_or_else(|| places.full(""))?;
        let period = batcher::period(config);
        let intake = Intake {
            app: Arc::clone(app),
            model: Arc::clone(model),
            reader,
            input,
            pending: Codes::empty(config),
            chunk: self.chunk,
            length: Length::default(),
            max_frames: (app.limits.audio.as_secs_f64() / period.as_secs_f64()) as u64,
            n_listed: 0,
            n_frameless: 0,
            n_frames: 0,
        };
        Ok((intake, output, Layout::new(config.sampling_rate, 1)))
    }
}

fn ready(app: &App) -> Result<&Decoder, Failure> {
    app.check_open()?;
    app.decoder()
}

/// Places of which each client needs one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    /// Who has which, and who waits.
    pub(super) slots: &'a SlotQueue,
    /// What they are called.
    pub(super) name: &'static str,
}

impl<'a> Places<'a> {
    fn of(decoder: &'a Decoder) -> Self {
        Self { slots: decoder.batcher.slots(), name: "streams" }
    }

    /// Returns a slot, at once or after a wait in the queue of at most `left`: the limit, less what the request has
    /// waited for another slot.
    ///
    /// # Errors
    /// 503 when all are taken for too long, and when the server drains.
    pub(super) async fn slot(self, app: &App, left: Duration) -> Result<Slot, Failure> {
        let (longest, queue) = (app.limits.queue, &app.metrics.queue);
        let mut waiting = match self.slots.enter(left) {
            Entry::Slot(slot) => return Ok(slot),
            Entry::Refused { wait } => {
                queue.gave_up("refused");
                return Err(self.too_long(longest, wait.saturating_add(longest.saturating_sub(left))));
            }
            Entry::Waiting(waiting) => waiting,
        };
        // A client that leaves ends this future where it waits.
        let mut wait = queue.wait();
        let mut stop = app.stop.clone();
        let drained = async { drop(stop.wait_for(|stop| *stop).await) };
        let first = race(waiting.slot(), race(sleep(left), drained)).await;
        let failure = match first {
            First::A(Some(slot)) => {
                wait.reason = None;
                return Ok(slot);
            }
            First::A(None) | First::B(First::A(())) => {
                waiting.give_up();
                wait.reason = Some("timeout");
                self.full(&format!("; the wait was longer than {} s", longest.as_secs_f64()))
            }
            First::B(First::B(())) => {
                wait.reason = Some("draining");
                draining()
            }
        };
        Err(failure)
    }

    /// Returns the refusal of a request whose whole wait would be longer than `longest`.
    fn too_long(self, longest: Duration, wait: Duration) -> Failure {
        match longest.is_zero() {
            true => self.full(""),
            false => {
                let (wait_s, longest_s) = (wait.as_secs_f64(), longest.as_secs_f64());
                let more = format!("; the wait for one is about {wait_s:.1} s, the limit {longest_s} s");
                self.full(&more).retry_after(wait.saturating_sub(longest))
            }
        }
    }

    pub(super) fn full(self, more: &str) -> Failure {
        let (limit, name) = (self.slots.limit(), self.name);
        Failure::busy("full", format!("{limit} of {limit} {name} are in use{more}"))
    }
}

/// Feeds one client's tokens to the batcher.
#[derive(Debug)]
pub(super) struct Intake {
    app: Arc<App>,
    /// The codec.
    model: Arc<Model>,
    reader: Reader,
    input: Input,
    /// Frames that wait for a whole chunk.
    pending: Codes,
    chunk: usize,
    length: Length,
    max_frames: u64,
    /// Bytes of a list of codes.
    n_listed: usize,
    /// Bytes since the last frame.
    n_frameless: u64,
    /// Frames that came without tokens.
    n_frames: u64,
}

impl Intake {
    /// Takes tokens in any split. Returns the frames that they complete.
    ///
    /// # Errors
    /// They are of another model, break a limit, or the stream has ended.
    pub(super) async fn push(&mut self, bytes: &[u8]) -> Result<Codes, Failure> {
        let limits = self.app.limits;
        if matches!(self.reader.format(), Format::Codes | Format::Auto) {
            self.n_listed += bytes.len();
            if self.n_listed > limits.list_bytes {
                return Err(Failure::too_large("the list of codes", limits.list_bytes));
            }
        }
        let start = Instant::now();
        let codes = self.reader.push(bytes)?;
        self.app.metrics.stage(Stage::Validation, start.elapsed());
        self.n_frameless = if codes.n_frames() > 0 { 0 } else { self.n_frameless + bytes.len() as u64 };
        if self.n_frameless > limits.frameless_bytes && self.reader.format() != Format::Codes {
            let message = format!("{} bytes without a whole frame", self.n_frameless);
            return Err(Failure::invalid("no_frames", message).and_close());
        }
        self.take(&codes)?;
        if self.pending.n_frames() >= self.chunk {
            self.send().await?;
        }
        Ok(codes)
    }

    /// Takes frames of a voice model, which need no reader.
    ///
    /// # Errors
    /// There is too much audio, or the stream has ended.
    pub(super) async fn frames(&mut self, codes: &Codes) -> Result<(), Failure> {
        self.n_frames += codes.n_frames() as u64;
        self.check_length(self.n_frames)?;
        self.pending.append(codes.frames())?;
        self.send().await
    }

    /// Ends the frames of a voice model.
    pub(super) fn end(self) {
        self.input.finish();
    }

    /// Returns where the length of the stream will be.
    pub(super) fn length(&self) -> Length {
        Arc::clone(&self.length)
    }

    /// Returns the counts of the tokens so far.
    pub(super) fn ledger(&self) -> Ledger {
        self.reader.ledger()
    }

    /// Ends the tokens and returns their counts.
    ///
    /// # Errors
    /// As [`Intake::push`]; there was no whole frame.
    pub(super) async fn finish(mut self) -> Result<Ledger, Failure> {
        let codes = self.reader.finish()?;
        self.take(&codes)?;
        let ledger = self.reader.ledger();
        if ledger.frames == 0 {
            let message = format!("no whole frame in {}", count(ledger.seen(), "token"));
            return Err(Failure::invalid("no_frames", message));
        }
        let n_pending = self.pending.n_frames() as u64;
        if n_pending == ledger.frames {
            let frame_len = self.model.config().frame_len() as u64;
            self.length.store(n_pending * frame_len, Relaxed);
        }
        self.send().await?;
        self.input.finish();
        Ok(ledger)
    }

    fn take(&mut self, codes: &Codes) -> Result<(), Failure> {
        self.reader.origin(&self.model)?;
        // With an upstream, the program has warned at its start.
        if self.app.upstream.is_none() && self.reader.is_doubtful(&self.model) {
            self.app.doubt.call_once(|| self.app.log.line(Level::Warn, DOUBT));
        }
        self.check_length(self.reader.ledger().frames)?;
        Ok(self.pending.append(codes.frames())?)
    }

    fn check_length(&self, n_frames: u64) -> Result<(), Failure> {
        let message = || format!("more than {} seconds of audio", self.app.limits.audio.as_secs());
        match n_frames > self.max_frames {
            true => Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", message()).and_close()),
            false => Ok(()),
        }
    }

    async fn send(&mut self) -> Result<(), Failure> {
        let ready = std::mem::replace(&mut self.pending, Codes::empty(self.model.config()));
        Ok(self.input.push(ready.frames().chunks(1).map(Codes::from).collect()).await?)
    }
}

/// Stores the report of a request and returns it as JSON.
pub(super) fn record(app: &App, id: &str, ledger: Ledger, n_samples: u64) -> Value {
    let report = TokenReport { ledger, n_samples };
    app.token_reports.insert(id, report);
    report.json()
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;
    use tokio::sync::watch;

    use super::*;
    use crate::app::{Limits, Listen, Settings};
    use crate::build_info::BuildInfo;
    use crate::http::guard::Guard;
    use crate::log::Log;
    use crate::stopper::Stopper;

    #[test]
    fn the_waits_of_a_request_have_one_limit_together() {
        let queue = Duration::from_secs(3600);
        let settings = Settings {
            listen: Listen::Address("127.0.0.1:0".parse().unwrap()),
            guard: Guard::default(),
            limits: Limits { queue, ..Limits::default() },
            log: Log::default(),
            threads: 1,
            upstream: None,
            build: BuildInfo::default(),
            stopper: Stopper::default(),
        };
        let (_drain, stop) = watch::channel(false);
        let (app, slots) = (App::new(settings, stop), SlotQueue::new(1));
        let places = Places { slots: &slots, name: "streams" };
        let held = slots.try_acquire();
        Runtime::new().unwrap().block_on(async {
            let first = race(places.slot(&app, queue), async {}).await;
            assert!(held.is_some() && matches!(first, First::B(())), "{first:?}");
            // This one has waited as long before.
            let failure = places.slot(&app, Duration::ZERO).await.unwrap_err();
            let expected = "1 of 1 streams are in use; the wait for one is about 3600.";
            assert!(failure.message().starts_with(expected), "{}", failure.message());
        });
        assert_eq!(app.metrics.queue.json()["given_up"]["refused"], 1);
    }
}
