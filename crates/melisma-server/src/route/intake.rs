//! Tokens from a client to the frames of a stream, within limits.

use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use melisma::snac::tokens::{Format, Ledger, Reader};
use melisma::snac::{Codes, Noise};
use melisma::text::count;
use serde_json::Value;

use crate::app::{App, Decoder};
use crate::audio::Layout;
use crate::batcher::{self, Input, Output};
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::metrics::Stage;
use crate::token_report::TokenReport;

/// The most frames of `chunk`.
const MAX_CHUNK: usize = 4096;

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

    /// Returns why a stream would be refused now.
    pub(super) fn refusal(app: &App) -> Option<Failure> {
        let is_full = |decoder: &&Decoder| decoder.batcher.admission().is_full();
        ready(app).map_or_else(Some, |decoder| Some(decoder).filter(is_full).map(full))
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// 503 while the model is loaded and when the device is fully used.
    pub(super) fn open(self, app: &Arc<App>) -> Result<(Intake, Output, Layout), Failure> {
        let decoder = ready(app)?;
        let config = decoder.model.config();
        let reader = Reader::new(self.tokens, config)?;
        let (input, output) = decoder.batcher.open(self.noise).ok_or_else(|| full(decoder))?;
        let period = batcher::period(config);
        let intake = Intake {
            app: Arc::clone(app),
            reader,
            input,
            pending: Codes::empty(config),
            chunk: self.chunk,
            max_frames: (app.limits.audio.as_secs_f64() / period.as_secs_f64()) as u64,
            n_listed: 0,
            n_frameless: 0,
        };
        Ok((intake, output, Layout::new(config.sampling_rate, 1)))
    }
}

fn ready(app: &App) -> Result<&Decoder, Failure> {
    app.check_open()?;
    app.decoder()
}

fn full(decoder: &Decoder) -> Failure {
    let limit = decoder.batcher.admission().limit();
    Failure::busy("full", format!("{limit} of {limit} streams are in use"))
}

/// Feeds one client's tokens to the batcher.
#[derive(Debug)]
pub(super) struct Intake {
    app: Arc<App>,
    reader: Reader,
    input: Input,
    /// Frames that wait for a whole chunk.
    pending: Codes,
    chunk: usize,
    max_frames: u64,
    /// Bytes of a list of codes.
    n_listed: usize,
    /// Bytes since the last frame.
    n_frameless: u64,
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
        self.send().await?;
        self.input.finish();
        Ok(ledger)
    }

    fn take(&mut self, codes: &Codes) -> Result<(), Failure> {
        let decoder = self.app.decoder()?;
        self.reader.origin(&decoder.model)?;
        if self.reader.ledger().frames > self.max_frames {
            let message = format!("more than {} seconds of audio", self.app.limits.audio.as_secs());
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", message).and_close());
        }
        Ok(self.pending.append(codes.frames())?)
    }

    async fn send(&mut self) -> Result<(), Failure> {
        let decoder = self.app.decoder()?;
        let ready = std::mem::replace(&mut self.pending, Codes::empty(decoder.model.config()));
        Ok(self.input.push(ready.frames().chunks(1).map(Codes::from).collect()).await?)
    }
}

/// Stores the report of a request and returns it as JSON.
pub(super) fn record(app: &App, id: &str, ledger: Ledger, n_samples: u64) -> Value {
    let report = TokenReport { ledger, n_samples };
    app.token_reports.insert(id, report);
    report.json()
}
