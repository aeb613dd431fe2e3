//! `POST /v1/audio/speech`: text in, audio out while a voice model of this server or the upstream speaks it.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use hyper::header::{CONTENT_TYPE, HeaderName};
use hyper::{HeaderMap, StatusCode};
use melisma::ErrorKind;
use melisma::snac::tokens::Ledger;
use melisma::speak::CycleDetector;
use serde_json::Value;

use super::Call;
use super::intake::{Choice, Intake, Length, Places};
use super::plain::json_reply;
use super::player::{Feed, Packaging, Play, play};
use crate::app::App;
use crate::audio::Layout;
use crate::batcher::{self, Output};
use crate::event::Field;
use crate::http::body::Reply;
use crate::http::failure::{Failure, with_hint};
use crate::http::query::Query;
use crate::http::upload::RequestBody;
use crate::log::Level;
use crate::picture::Picture;
use crate::record::Record;
use crate::speakers::{Speakers, Speech, Utterance};
use crate::speech::{Narrator, Narrators, Request, StreamFormat, without_words};
use crate::upstream::{CompletionEvent, CompletionStream, Limits, PromptVars, fault};

/// OpenAI's clients try again unless this says no.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

pub(super) async fn post(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    if app.upstream.is_none() && app.decoder()?.speakers.is_empty() {
        return Err(no_voice());
    }
    check_type(call.request.headers())?;
    let upload = RequestBody::new(call.request.into_body(), app.limits.speech_bytes, app.limits.stall_timeout);
    let request = Request::read(&upload.read_all().await?, &Narrators::of(app))?;
    let record = call.record;
    record.note(Field::Voice, request.voice.as_str());
    record.note(Field::Characters, request.n_chars());
    record.note(Field::Format, request.format.name());
    if !request.notes.is_empty() {
        record.note(Field::Notes, request.notes.clone());
    }
    match request.narrator {
        Narrator::Own(index) => {
            let speakers = app.decoder()?.speakers.get(index).ok_or_else(no_voice)?;
            record.note(Field::Model, speakers.name());
            speak_here(app, record, speakers, request).await
        }
        Narrator::Upstream => speak_upstream(app, record, request).await,
    }
}

async fn speak_upstream(app: &Arc<App>, record: Arc<Record>, request: Request) -> Result<Reply, Failure> {
    let upstream = app.upstream.as_ref().ok_or_else(no_voice)?;
    let (intake, output, layout) = Choice::speech().open(app).await?;
    record.note_time(Field::QueueSeconds);
    let vars = PromptVars { text: "", voice: &request.voice, instructions: &request.instructions };
    let speaker = Speaker {
        record: Arc::clone(&record),
        completions: upstream.complete(&request.pieces, vars),
        intake,
        limits: upstream.limits(),
        prompt_tokens: Arc::default(),
    };
    let prompt_tokens = Arc::clone(&speaker.prompt_tokens);
    let feed = Feed::start(speaker.speak());
    answer(record, request, prompt_tokens, (feed, output, layout)).await
}

async fn speak_here(
    app: &Arc<App>,
    record: Arc<Record>,
    speakers: &Speakers,
    request: Request,
) -> Result<Reply, Failure> {
    app.check_open()?;
    let script = speakers.script(&request.pieces.concat(), &request.voice, request.seed);
    let script = script.map_err(|error| Failure::parameter("input", with_hint(&error)).quoting_text())?;
    let prompt_tokens = Arc::new(AtomicU64::new(script.n_tokens() as u64));
    let places = Places { slots: speakers.slots(), name: "speakers" };
    let (longest, start) = (app.limits.queue, Instant::now());
    let slot = places.slot(app, longest).await?;
    let left = longest.saturating_sub(start.elapsed());
    let (intake, output, layout) = Choice::frames().open_for(app, speakers.codec(), left).await?;
    record.note_time(Field::QueueSeconds);
    let speech = speakers.open_in(slot, script).ok_or_else(|| places.full(""))?;
    let feed = Feed::start(feed_frames(Arc::clone(&record), speech, intake));
    answer(record, request, prompt_tokens, (feed, output, layout)).await
}

/// Answers with the audio of a stream that something feeds.
async fn answer(
    record: Arc<Record>,
    request: Request,
    prompt_tokens: Arc<AtomicU64>,
    (feed, output, layout): (Feed, Output, Layout),
) -> Result<Reply, Failure> {
    let packaging = match request.stream_format {
        StreamFormat::Audio => Packaging::Plain,
        StreamFormat::Events => Packaging::Events(prompt_tokens),
    };
    let picture = request.has_picture.then(|| Picture::at_rate(layout.sample_rate)).transpose()?;
    let Request { format, speed, .. } = request;
    // A model that speaks does not say for how long.
    let (kind, length) = ("speech", Length::default());
    play(Play { record, kind, layout, length, format, packaging, speed, picture }, feed, output).await
}

/// Answers `GET /v1/audio/voices`.
pub(super) fn voices(app: &App, call: &Call) -> Result<Reply, Failure> {
    let model = Query::new(call.request.uri().query())?.text("model");
    Ok(json_reply(&Narrators::of(app).voices_json(model.as_deref())?))
}

/// Feeds a stream with the frames of a voice model of this server.
async fn feed_frames(record: Arc<Record>, mut speech: Speech, mut intake: Intake) -> Result<Ledger, Failure> {
    let (mut has_begun, mut all_notes) = (false, Vec::new());
    loop {
        let Utterance { codes, notes, end } = speech.next().await.ok_or_else(|| failed("its thread is gone"))?;
        if !notes.is_empty() {
            all_notes.extend(notes.iter().map(without_words));
            record.note(Field::Notes, all_notes.clone());
        }
        if let Some(codes) = codes {
            if !std::mem::replace(&mut has_begun, true) {
                record.note_time(Field::FirstFrameSeconds);
            }
            intake.frames(&codes).await?;
        }
        match end {
            None => {}
            Some(Ok(ledger)) => {
                intake.end();
                return Ok(ledger);
            }
            Some(Err(error)) => {
                return Err(match error.kind() {
                    ErrorKind::Memory | ErrorKind::Device => error.into(),
                    _ => failed(with_hint(&error)),
                });
            }
        }
    }
}

fn failed(why: impl Display) -> Failure {
    let message = format!("the voice model failed: {why}");
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "voice_failed", message)
}

fn no_voice() -> Failure {
    let message = "this server has no voice: it was started without a voice model and without an upstream";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "no_voice", message).with_header(SHOULD_RETRY, "false")
}

fn check_type(headers: &HeaderMap) -> Result<(), Failure> {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let message = "the body must be JSON: send the header `content-type: application/json`";
            Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message).and_close())
        }
    }
}

/// Feeds a stream with the upstream's tokens.
struct Speaker {
    record: Arc<Record>,
    completions: CompletionStream,
    intake: Intake,
    limits: Limits,
    prompt_tokens: Arc<AtomicU64>,
}

impl Speaker {
    async fn speak(self) -> Result<Ledger, Failure> {
        // A client that leaves ends this task where it waits.
        let mut outcome = Outcome { record: Arc::clone(&self.record), name: "client_left", detail: None };
        let spoken = self.feed().await;
        outcome.name = spoken.as_ref().map_or_else(Failure::code, |_| "done");
        outcome.detail = spoken.as_ref().err().and_then(Failure::detail).map(str::to_owned);
        spoken
    }

    async fn feed(mut self) -> Result<Ledger, Failure> {
        let mut detector = RunawayDetector::new(&self.record.app, self.limits)?;
        let mut has_begun = false;
        while let Some(said) = self.completions.next().await? {
            match said {
                CompletionEvent::Text(text) => {
                    if !std::mem::replace(&mut has_begun, true) {
                        self.record.app.metrics.first_token(self.record.start.elapsed());
                        self.record.note_time(Field::FirstTokenSeconds);
                    }
                    let codes = self.intake.push(text.as_bytes()).await.map_err(blame)?;
                    detector.text(text.len(), codes.n_frames(), self.intake.ledger().seen())?;
                    detector.frames(codes.frames().chunks(1).map(|frame| frame.as_slice()))?;
                }
                CompletionEvent::End { prompt_tokens } => {
                    let so_far = self.prompt_tokens.load(Relaxed);
                    self.prompt_tokens.store(so_far.saturating_add(prompt_tokens), Relaxed);
                    detector.end(self.intake.ledger().seen())?;
                }
            }
        }
        self.intake.finish().await.map_err(blame)
    }
}

/// The outcome of an input, counted and logged when it is dropped.
struct Outcome {
    record: Arc<Record>,
    name: &'static str,
    /// The message of the upstream.
    detail: Option<String>,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let Record { app, id, start, .. } = &*self.record;
        app.metrics.upstream(self.name);
        let said = app.upstream.as_ref().zip(self.detail.as_deref());
        let level = if matches!(self.name, "done" | "client_left") { Level::Info } else { Level::Error };
        let fields = [
            (Field::Event, Value::from("upstream")),
            (Field::RequestId, id.as_str().into()),
            (Field::Outcome, self.name.into()),
            (Field::Detail, said.map(|(upstream, said)| upstream.redacted(said)).into()),
            (Field::Seconds, start.elapsed().as_secs_f64().into()),
        ];
        app.log.event(level, fields);
    }
}

/// Blames the upstream, not the client, for tokens that do not fit the decoder.
fn blame(failure: Failure) -> Failure {
    match failure.status.is_client_error() {
        true => fault::garbage("its tokens do not fit the codec")
            .with_detail(failure.json()["error"]["message"].to_string()),
        false => failure,
    }
}

/// Detects a model that never ends, sends no audio, or repeats itself.
struct RunawayDetector {
    limits: Limits,
    repeats: CycleDetector,
    /// Tokens before the current piece.
    n_before: u64,
    /// Bytes since the last frame.
    n_frameless: usize,
    has_frames: bool,
}

impl RunawayDetector {
    fn new(app: &App, limits: Limits) -> Result<Self, Failure> {
        let period = batcher::period(app.decoder()?.model.config());
        let repeats = CycleDetector::new((limits.repeat_s / period.as_secs_f64()).ceil() as usize);
        Ok(Self { limits, repeats, n_before: 0, n_frameless: 0, has_frames: false })
    }

    /// Takes the size of a text, the frames that it completed, and all tokens so far.
    fn text(&mut self, n_bytes: usize, n_frames: usize, n_tokens: u64) -> Result<(), Failure> {
        self.has_frames |= n_frames > 0;
        self.n_frameless = if n_frames > 0 { 0 } else { self.n_frameless + n_bytes };
        if self.n_frameless > self.limits.frameless_bytes {
            return Err(fault::no_audio());
        }
        match n_tokens - self.n_before > self.limits.tokens {
            true => Err(fault::endless(self.limits.tokens)),
            false => Ok(()),
        }
    }

    fn frames<'a>(&mut self, mut frames: impl Iterator<Item = &'a [i32]>) -> Result<(), Failure> {
        match frames.any(|frame| self.repeats.push(frame)) {
            true => Err(fault::repeats(self.limits.repeat_s)),
            false => Ok(()),
        }
    }

    /// Notes the end of a piece.
    fn end(&mut self, n_tokens: u64) -> Result<(), Failure> {
        self.n_before = n_tokens;
        match std::mem::take(&mut self.has_frames) {
            true => Ok(()),
            false => Err(fault::no_audio()),
        }
    }
}
