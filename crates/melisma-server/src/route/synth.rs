//! `WS /v1/synth`: generated music without end, with a listener's notes and parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use melisma::audio::wav::SampleFormat;
use melisma::synth::{Action, Endless, EngineConfig, Instrument, Parameter, Remote};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::Call;
use super::piece::Piece;
use super::player::seconds;
use super::session::{Fault, MessageReceiver, Session};
use crate::app::App;
use crate::audio::{Encoder, Layout};
use crate::block;
use crate::event::Field;
use crate::http::body::Reply;
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::http::race::{First, race};
use crate::live::{BLOCK, Lead, PlaybackOptions, RenderedBlock};
use crate::websocket::{Message, handshake};

/// Names of a listener's notes; lower ones belong to the composer.
const FIRST_NAME: u64 = 1 << 63;
/// Names of notes with a duration, beyond those of keys that are held.
const FIRST_TIMED: u64 = FIRST_NAME + (1 << 20);
/// Notes with a duration that a listener may have at once.
const MAX_TIMED: usize = 256;
/// The longest note.
const MAX_NOTE_SECONDS: f64 = 600.0;

/// How early blocks may leave.
const AHEAD_MS: std::ops::RangeInclusive<u32> = 10..=500;
const DEFAULT_AHEAD_MS: u32 = 100;

/// A message of a listener.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ListenerMessage {
    Set { parameter: Parameter, value: f32 },
    Note { instrument: Instrument, key: u8, velocity: f32, duration: f64 },
    NoteOn { instrument: Instrument, key: u8, velocity: f32 },
    NoteOff { instrument: Instrument, key: u8 },
    Ahead { milliseconds: u32 },
    Stop {},
}

/// Joins the pool, and then opens the WebSocket: a listener that is refused sees a plain status. So does
/// a plain request, because browsers do not tell pages why a WebSocket was refused.
pub(super) fn open(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let Piece { style, seed, sample_rate } = Piece::new(&mut query)?;
    let format = block::sample_format(&mut query)?;
    let ahead_ms = query.value("ahead", "10 to 500 ms", |text| text.parse().ok().filter(|ms| AHEAD_MS.contains(ms)))?;
    query.finish()?;
    call.record.note(Field::Format, format.name());
    app.check_open()?;
    let (music, remote) = Endless::new(style, seed, EngineConfig::default().with_sample_rate(sample_rate))?;
    let synth_pool = app.synth_pool()?;
    let is_full = synth_pool.admission().is_full();
    let limit = synth_pool.admission().limit();
    let full = || Failure::busy("full", format!("{limit} of {limit} listener slots are in use"));
    let accepted = handshake::accept(&call.request).map_err(|plain| if is_full { full() } else { plain })?;
    let lead = Lead::new(Duration::from_millis(ahead_ms.unwrap_or(DEFAULT_AHEAD_MS).into()));
    let blocks = synth_pool.join(music, PlaybackOptions { sample_rate, lead: lead.clone() }).ok_or_else(full)?;
    let app = Arc::clone(app);
    tokio::spawn(async move {
        let Some((session, receiver)) = Session::begin(app, call).await else { return };
        let layout = Layout::new(sample_rate, 2);
        let listener = Listener { session, remote, lead, layout, format, n_timed: Arc::default() };
        let (stop, stopped) = oneshot::channel();
        let ended = match race(listener.listen(receiver, stop), listener.play(blocks, stopped)).await {
            First::A(fault) => Err(fault),
            First::B(played) => played,
        };
        listener.session.end("synth", ended).await;
    });
    Ok(accepted)
}

struct Listener {
    session: Session,
    remote: Remote,
    lead: Lead,
    layout: Layout,
    format: SampleFormat,
    /// Notes with a duration that are not released yet.
    n_timed: Arc<AtomicUsize>,
}

impl Listener {
    /// Handles the messages of the listener; sends `stop` when it asks for the end.
    async fn listen(&self, mut receiver: MessageReceiver, stop: oneshot::Sender<()>) -> Fault {
        let (mut stop, mut n_notes) = (Some(stop), 0);
        loop {
            let received = match self.session.next_text(&mut receiver).await {
                Ok(text) => self.handle(&text, &mut n_notes),
                Err(fault) => Err(fault),
            };
            match received {
                Ok(AfterMessage::Play) => {}
                // The player may have ended already.
                Ok(AfterMessage::Stop) => drop(stop.take().map(|stop| stop.send(()))),
                Err(fault) => return fault,
            }
        }
    }

    fn handle(&self, text: &str, n_notes: &mut u64) -> Result<AfterMessage, Fault> {
        let message: ListenerMessage = serde_json::from_str(text)
            .map_err(|error| Failure::invalid("invalid_message", format!("the message is not understood: {error}")))?;
        let held = |instrument: Instrument, key: u8| FIRST_NAME + 128 * instrument as u64 + u64::from(key);
        let start =
            |note, instrument, key, velocity| Action::Start { note, instrument, channel: 0, key, velocity, pan: 0.0 };
        match message {
            ListenerMessage::Stop {} => return Ok(AfterMessage::Stop),
            ListenerMessage::Ahead { milliseconds } if AHEAD_MS.contains(&milliseconds) => {
                self.lead.set(Duration::from_millis(milliseconds.into()));
            }
            ListenerMessage::Ahead { milliseconds } => {
                let (least, most) = AHEAD_MS.into_inner();
                let message = format!("{milliseconds} ms ahead; at least {least} and at most {most}");
                return Err(Failure::invalid("invalid_value", message).into());
            }
            ListenerMessage::Set { parameter, value } => self.remote.send(Action::Set { parameter, value })?,
            ListenerMessage::NoteOn { instrument, key, velocity } => {
                self.remote.send(start(held(instrument, key), instrument, key, velocity))?;
            }
            ListenerMessage::NoteOff { instrument, key } => {
                self.remote.send(Action::Release { note: held(instrument, key) })?;
            }
            ListenerMessage::Note { instrument, key, velocity, duration } => {
                if !(duration > 0.0 && duration <= MAX_NOTE_SECONDS) {
                    let message = format!("a note of {duration} s; more than 0 and at most {MAX_NOTE_SECONDS}");
                    return Err(Failure::invalid("invalid_value", message).into());
                }
                let note = FIRST_TIMED + *n_notes;
                *n_notes += 1;
                self.remote.send(start(note, instrument, key, velocity))?;
                self.release(note, Duration::from_secs_f64(duration))?;
            }
        }
        Ok(AfterMessage::Play)
    }

    /// Releases a note after its duration.
    fn release(&self, note: u64, after: Duration) -> Result<(), Fault> {
        let (remote, n_timed) = (self.remote.clone(), Arc::clone(&self.n_timed));
        if n_timed.fetch_add(1, Relaxed) >= MAX_TIMED {
            let message = format!("more than {MAX_TIMED} notes at once");
            return Err(Failure::invalid("too_many_notes", message).into());
        }
        tokio::spawn(async move {
            sleep(after).await;
            n_timed.fetch_sub(1, Relaxed);
            // The music may have ended.
            let _ = remote.send(Action::Release { note });
        });
        Ok(())
    }

    async fn play(
        &self,
        mut blocks: mpsc::Receiver<RenderedBlock>,
        stopped: oneshot::Receiver<()>,
    ) -> Result<(), Fault> {
        let Session { app, record, .. } = &self.session;
        let open_stream = app.streams.list(&record.id, "synth");
        self.session.send_json(&block::start(self.format, self.layout)).await?;
        let mut encoder = Encoder::samples(self.format, self.layout)?;
        let mut stopped = stopped;
        while let Some(played) = blocks.recv().await {
            if app.is_draining() {
                return Err(Fault::Draining);
            }
            if !played.notes.is_empty() {
                self.session.send_json(&notes(&played)).await?;
            }
            let is_last = stopped.try_recv().is_ok();
            let n_samples = played.samples.len() / 2;
            let head = block::Head { position: played.position, n_samples, is_last };
            let bytes = encoder.push(&played.samples)?;
            self.session.send(Message::Binary(head.with(self.format, &bytes))).await?;
            app.metrics.late(played.due);
            app.metrics.audio(BLOCK);
            open_stream.sent(seconds(played.position + n_samples as u64, self.layout), record.start);
            if let Some(level) = played.level {
                let end = played.position + n_samples as u64;
                let (peak, loudness) = (level.peak_dbtp, level.momentary_lufs);
                let message = json!({"type": "level", "sample": end, "peak_dbtp": peak, "momentary_lufs": loudness});
                self.session.send_json(&message).await?;
            }
            if is_last {
                return Ok(());
            }
        }
        Err(Failure::invalid("too_many_events", "the listener's notes leave no room for the composer's").into())
    }
}

/// How to continue after a message.
enum AfterMessage {
    Play,
    Stop,
}

fn notes(played: &RenderedBlock) -> Value {
    let one = |(name, note): &(u64, melisma::synth::PlacedNote)| {
        json!({
            "id": name,
            "start_sample": note.start,
            "duration_samples": note.release - note.start,
            "key": note.key,
            "velocity": note.velocity,
            "instrument": note.instrument,
        })
    };
    json!({"type": "notes", "notes": played.notes.iter().map(one).collect::<Vec<_>>()})
}
