//! Audio to a client while it becomes final.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, TRAILER};
use hyper::{HeaderMap, Response, StatusCode};
use melisma::audio::stretch::Stretch;
use melisma::snac::tokens::Ledger;
use melisma::text::base64;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::intake::{Length, record};
use crate::app::{App, OpenStreamGuard};
use crate::audio::{Encoder, Format, Layout};
use crate::batcher::{Block, Output};
use crate::http::body::{Body, BodySender, Reply, SendError};
use crate::http::failure::Failure;
use crate::http::race::{First, race};
use crate::metrics::Stage;
use crate::picture::Picture;
use crate::record::Record;

const LEDGER: HeaderName = HeaderName::from_static("x-melisma-ledger");
pub(super) const SAMPLE_RATE: HeaderName = HeaderName::from_static("x-melisma-sample-rate-hz");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The task that feeds a stream. Dropping it ends the task.
#[derive(Debug)]
pub(super) struct Feed {
    task: JoinHandle<Result<Ledger, Failure>>,
}

impl Feed {
    /// Starts feeding.
    pub(super) fn start(feed: impl Future<Output = Result<Ledger, Failure>> + Send + 'static) -> Self {
        Self { task: tokio::spawn(feed) }
    }

    /// Returns the first audio that has bytes, or all of it.
    async fn first(&mut self, mut output: Output, player: &mut Player) -> Result<(Encoded, Output), Failure> {
        let mut first = Encoded::default();
        let failed = loop {
            match output.next().await {
                Ok(Some(block)) => {
                    player.declare(player.length.swap(0, Relaxed))?;
                    let mut next = player.encode(block)?;
                    next.n_samples += first.n_samples;
                    next.drawn.splice(..0, first.drawn);
                    first = next;
                    if first.is_last || !first.bytes.is_empty() {
                        return Ok((first, output));
                    }
                }
                Ok(None) => break lost(),
                Err(error) => break error.into(),
            }
        };
        drop(output);
        Err(self.end().await.err().unwrap_or(failed))
    }

    async fn end(&mut self) -> Result<Ledger, Failure> {
        (&mut self.task).await.unwrap_or_else(|_| Err(lost()))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lost() -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the stream was lost")
}

/// How the bytes of a format are sent.
#[derive(Debug)]
pub(super) enum Packaging {
    /// As they are.
    Plain,
    /// As OpenAI's events, with the tokens of the prompts at the end.
    Events(Arc<AtomicU64>),
}

impl Packaging {
    fn audio(&self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Plain => bytes,
            Self::Events(_) => event(&json!({"type": "speech.audio.delta", "audio": base64::encode(&bytes)})),
        }
    }

    fn end(&self, ledger: Ledger) -> Option<Vec<u8>> {
        let Self::Events(prompt_tokens) = self else { return None };
        let (input, output) = (prompt_tokens.load(Relaxed), ledger.accepted);
        let usage =
            json!({"input_tokens": input, "output_tokens": output, "total_tokens": input.saturating_add(output)});
        Some(event(&json!({"type": "speech.audio.done", "usage": usage})))
    }

    /// Returns the bytes of a picture's messages.
    fn drawn(&self, messages: &[Value]) -> Vec<u8> {
        match self {
            Self::Plain => Vec::new(),
            Self::Events(_) => messages.iter().flat_map(event).collect(),
        }
    }

    fn failure(&self, failure: &Failure) -> Option<Vec<u8>> {
        let Self::Events(_) = self else { return None };
        Some(event(&json!({"type": "error", "error": failure.json()["error"]})))
    }
}

fn event(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

/// Why an answer ended early.
enum Fault {
    Client(SendError),
    Server(Failure),
}

impl From<SendError> for Fault {
    fn from(lost: SendError) -> Self {
        Self::Client(lost)
    }
}

impl From<melisma::Error> for Fault {
    fn from(error: melisma::Error) -> Self {
        Self::Server(error.into())
    }
}

/// The parts of an answer.
pub(super) struct Play {
    pub(super) record: Arc<Record>,
    /// Its name in status and events.
    pub(super) kind: &'static str,
    pub(super) layout: Layout,
    pub(super) length: Length,
    pub(super) format: Format,
    pub(super) packaging: Packaging,
    /// 1 leaves the audio as it is.
    pub(super) speed: f64,
    /// Sent with events only.
    pub(super) picture: Option<Picture>,
}

/// A block of audio as bytes of a format.
#[derive(Default)]
struct Encoded {
    bytes: Vec<u8>,
    n_samples: u64,
    /// The picture of the samples.
    drawn: Vec<Value>,
    is_last: bool,
}

/// Answers with the first bytes of audio; until then a fault has its own status.
pub(super) async fn play(play: Play, mut feed: Feed, output: Output) -> Result<Reply, Failure> {
    let Play { record, kind, layout, length, format, packaging, speed, picture } = play;
    let app = Arc::clone(&record.app);
    let open_stream = app.streams.list(&record.id, kind);
    let encoder = Encoder::new(format, layout, None)?;
    let stretch = (speed != 1.0).then(|| Stretch::new(layout, speed)).transpose()?;
    let (pieces, body) = Body::stream(app.limits.stall_timeout);
    let media_type = match packaging {
        Packaging::Plain => format.media_type(),
        Packaging::Events(_) => "text/event-stream",
    };
    let mut player =
        Player { app, record, kind, open_stream, layout, length, format, stretch, encoder, packaging, picture, pieces };
    let (first, output) = feed.first(output, &mut player).await?;
    player.record.first_audio();
    tokio::spawn(player.play(first, output, feed));
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(TRAILER, HeaderValue::from_name(LEDGER));
    headers.insert(SAMPLE_RATE, HeaderValue::from(layout.sample_rate));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(reply)
}

/// Sends the audio of one stream.
struct Player {
    app: Arc<App>,
    record: Arc<Record>,
    kind: &'static str,
    open_stream: OpenStreamGuard,
    layout: Layout,
    length: Length,
    format: Format,
    stretch: Option<Stretch>,
    encoder: Encoder,
    packaging: Packaging,
    picture: Option<Picture>,
    pieces: BodySender,
}

impl Player {
    /// Sends all audio from `first` on.
    async fn play(self, first: Encoded, output: Output, feed: Feed) {
        let (record, kind) = (Arc::clone(&self.record), self.kind);
        let reason = match self.send_all(first, output, feed).await {
            Ok(()) => "done",
            Err(Fault::Client(SendError::Gone)) => "client_left",
            Err(Fault::Client(SendError::Slow)) => "slow_client",
            Err(Fault::Server(failure)) => {
                record.failed(&failure);
                "fault"
            }
        };
        record.ended(kind, reason);
    }

    async fn send_all(mut self, first: Encoded, mut output: Output, mut feed: Feed) -> Result<(), Fault> {
        let (start, mut n_samples) = (Instant::now(), 0);
        let mut next = Some(first);
        let mut is_whole = false;
        while let Some(encoded) = next {
            is_whole = encoded.is_last;
            n_samples += self.send(encoded).await?;
            self.open_stream.sent(seconds(n_samples, self.layout), start);
            let block = match race(output.next(), self.pieces.closed()).await {
                First::A(Ok(block)) => block,
                First::A(Err(error)) => return Err(self.fail(error.into()).await),
                First::B(()) => return Err(SendError::Gone.into()),
            };
            next = block.map(|block| self.encode(block)).transpose()?;
        }
        let ledger = match (feed.end().await, is_whole) {
            (Ok(ledger), true) => ledger,
            (ended, _) => return Err(self.fail(ended.err().unwrap_or_else(lost)).await),
        };
        if let Some(stretch) = self.stretch.take() {
            let rest = self.bytes(&stretch.finish())?;
            n_samples += self.send(rest).await?;
        }
        // Less audio than a frame has no picture.
        let drawn = self.picture.take().map(Picture::finish).and_then(Result::ok).unwrap_or_default();
        self.show(&drawn).await?;
        let last = self.encoder.finish()?;
        if !last.is_empty() {
            self.pieces.send(self.packaging.audio(last)).await?;
        }
        if let Some(end) = self.packaging.end(ledger) {
            self.pieces.send(end).await?;
        }
        let shown = record(&self.app, &self.record.id, ledger, n_samples);
        let mut trailers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&shown.to_string()) {
            trailers.insert(LEDGER, value);
        }
        Ok(self.pieces.finish(trailers).await?)
    }

    /// Sends the reason as an event where the format has events; aborts any other answer.
    async fn fail(self, failure: Failure) -> Fault {
        if let Some(event) = self.packaging.failure(&failure) {
            // A client that has left does not hear it.
            let _ = self.pieces.send(event).await;
            let _ = self.pieces.finish(HeaderMap::new()).await;
        }
        Fault::Server(failure)
    }

    /// Writes `n_samples` into the header, which has not left yet; 0 is an unknown length.
    fn declare(&mut self, n_samples: u64) -> melisma::Result<()> {
        if n_samples > 0 {
            self.encoder = Encoder::new(self.format, self.layout, Some(n_samples))?;
        }
        Ok(())
    }

    fn encode(&mut self, block: Block) -> melisma::Result<Encoded> {
        let encoded = match &mut self.stretch {
            Some(stretch) => {
                let samples = stretch.push(&block.content).to_vec();
                self.bytes(&samples)?
            }
            None => self.bytes(&block.content)?,
        };
        Ok(Encoded { is_last: block.is_last, ..encoded })
    }

    fn bytes(&mut self, samples: &[f32]) -> melisma::Result<Encoded> {
        let drawn = self.picture.as_mut().map(|picture| picture.push(samples)).transpose()?.unwrap_or_default();
        Ok(Encoded { bytes: self.encoder.push(samples)?, n_samples: samples.len() as u64, drawn, is_last: false })
    }

    /// Returns the samples that were sent.
    async fn send(&self, encoded: Encoded) -> Result<u64, Fault> {
        let start = Instant::now();
        if !encoded.bytes.is_empty() {
            self.pieces.send(self.packaging.audio(encoded.bytes)).await?;
        }
        self.show(&encoded.drawn).await?;
        self.app.metrics.stage(Stage::Send, start.elapsed());
        self.app.metrics.audio(seconds(encoded.n_samples, self.layout));
        Ok(encoded.n_samples)
    }

    async fn show(&self, drawn: &[Value]) -> Result<(), Fault> {
        match drawn.is_empty() {
            true => Ok(()),
            false => Ok(self.pieces.send(self.packaging.drawn(drawn)).await?),
        }
    }
}

/// Returns the time that samples play.
pub(super) fn seconds(n_samples: u64, layout: Layout) -> Duration {
    Duration::from_secs_f64(n_samples as f64 / f64::from(layout.sample_rate))
}
