//! `POST /v1/decode`: tokens in, audio out while they arrive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, TRAILER};
use hyper::{HeaderMap, Response, StatusCode};
use melisma::snac::tokens::{self, Ledger};
use serde_json::json;
use tokio::task::JoinHandle;

use super::Call;
use super::intake::{Choice, Intake, record};
use crate::app::App;
use crate::audio::{Encoder, Format, Layout};
use crate::batcher::{Block, Output};
use crate::http::body::{Body, Lost, Pieces, Reply, Upload};
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::metrics::Stage;

const LEDGER: HeaderName = HeaderName::from_static("x-melisma-ledger");
pub(super) const SAMPLE_RATE: HeaderName = HeaderName::from_static("x-melisma-sample-rate-hz");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Answers with the first final audio; until then a fault has its own status.
pub(super) async fn post(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let format = query.value("format", Format::NAMES, Format::from_name)?.unwrap_or(Format::Wav);
    let mut choice = Choice::new(&mut query)?;
    query.finish()?;
    choice.tokens = token_format(call.request.headers())?;
    let (intake, mut output, layout) = choice.open(app)?;
    let upload = Upload::new(call.request.into_body(), app.limits.token_bytes, app.limits.patience);
    let reading = tokio::spawn(read(upload, intake));
    let first = match output.next().await {
        Ok(Some(block)) => block,
        ended => {
            drop(output);
            let failed = reading.await.unwrap_or_else(|_| Err(lost())).err();
            return Err(failed.or_else(|| ended.err().map(Failure::from)).unwrap_or_else(lost));
        }
    };
    app.metrics.first_audio(call.start.elapsed());
    let encoder = Encoder::new(format, layout)?;
    let (pieces, body) = Body::stream(app.limits.patience);
    let player = Player { app: Arc::clone(app), id: call.id, layout, encoder, pieces, n_samples: 0 };
    tokio::spawn(player.play(first, output, reading));
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    headers.insert(TRAILER, HeaderValue::from_name(LEDGER));
    headers.insert(SAMPLE_RATE, HeaderValue::from(layout.sample_rate));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(reply)
}

fn lost() -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the stream was lost")
}

/// How the body is written, by its media type.
fn token_format(headers: &HeaderMap) -> Result<tokens::Format, Failure> {
    let media_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let media_type = media_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_lowercase());
    match media_type.as_deref() {
        // The last is what `curl --data-binary` sends unless it is told otherwise.
        None | Some("text/plain" | "application/octet-stream" | "application/x-www-form-urlencoded") => {
            Ok(tokens::Format::Auto)
        }
        Some("application/json") => Ok(tokens::Format::Codes),
        Some(_) => {
            let message = "tokens are text/plain, lists of codes application/json";
            Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message).and_close())
        }
    }
}

async fn read(mut upload: Upload, mut intake: Intake) -> Result<Ledger, Failure> {
    while let Some(bytes) = upload.next().await? {
        intake.push(&bytes).await?;
    }
    intake.finish().await
}

/// Why an answer ended early.
enum Fault {
    Client(Lost),
    Server(Failure),
}

impl From<Lost> for Fault {
    fn from(lost: Lost) -> Self {
        Self::Client(lost)
    }
}

impl From<melisma::Error> for Fault {
    fn from(error: melisma::Error) -> Self {
        Self::Server(error.into())
    }
}

/// Sends the audio of one stream.
struct Player {
    app: Arc<App>,
    id: String,
    layout: Layout,
    encoder: Encoder,
    pieces: Pieces,
    n_samples: u64,
}

impl Player {
    async fn play(self, first: Block, output: Output, reading: JoinHandle<Result<Ledger, Failure>>) {
        let (app, id, start) = (Arc::clone(&self.app), self.id.clone(), Instant::now());
        let stop = reading.abort_handle();
        let reason = match self.send_all(first, output, reading).await {
            Ok(()) => "done",
            Err(Fault::Client(Lost::Gone)) => "client_left",
            Err(Fault::Client(Lost::Slow)) => {
                app.metrics.dropped("slow_client");
                "slow_client"
            }
            Err(Fault::Server(failure)) => {
                app.metrics.dropped("fault");
                app.log.event(json!({"event": "fault", "request_id": id, "error": failure.json()["error"]}));
                "fault"
            }
        };
        stop.abort();
        app.ended("decode", &id, reason, start);
    }

    async fn send_all(
        mut self,
        first: Block,
        mut output: Output,
        reading: JoinHandle<Result<Ledger, Failure>>,
    ) -> Result<(), Fault> {
        let (app, start) = (Arc::clone(&self.app), Instant::now());
        let listed = app.streams.list(&self.id, "decode");
        let mut next = Some(first);
        let mut is_whole = false;
        while let Some(block) = next {
            is_whole = block.is_last;
            self.send(&block).await?;
            listed.sent(self.audio(), start);
            next = output.next().await?;
        }
        if !is_whole {
            let failure = reading.await.unwrap_or_else(|_| Err(lost())).err();
            return Err(Fault::Server(failure.unwrap_or_else(lost)));
        }
        let ledger = reading.await.unwrap_or_else(|_| Err(lost())).map_err(Fault::Server)?;
        self.pieces.send(self.encoder.finish()?).await?;
        let shown = record(&app, &self.id, ledger, self.n_samples);
        let mut trailers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&shown.to_string()) {
            trailers.insert(LEDGER, value);
        }
        Ok(self.pieces.finish(trailers).await?)
    }

    async fn send(&mut self, block: &Block) -> Result<(), Fault> {
        let start = Instant::now();
        self.n_samples += block.content.len() as u64;
        let bytes = self.encoder.push(&block.content)?;
        if !bytes.is_empty() {
            self.pieces.send(bytes).await?;
        }
        self.app.metrics.stage(Stage::Send, start.elapsed());
        self.app.metrics.audio(seconds(block.content.len() as u64, self.layout));
        Ok(())
    }

    fn audio(&self) -> Duration {
        seconds(self.n_samples, self.layout)
    }
}

/// The time that samples play.
pub(super) fn seconds(n_samples: u64, layout: Layout) -> Duration {
    Duration::from_secs_f64(n_samples as f64 / f64::from(layout.sample_rate))
}
