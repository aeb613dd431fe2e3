//! The record of a request, from its head to the end of its answer: one event, written when its last part ends.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use hyper::StatusCode;
use melisma::lock::Mutex;
use serde_json::Value;

use crate::admission::Permit;
use crate::app::App;
use crate::event::Field;
use crate::http::body::Watcher;
use crate::http::failure::Failure;
use crate::keyring::{Key, StreamPermit};
use crate::log::Level;

/// The status, as nginx has it, of a request whose client left before the answer.
const CLIENT_LEFT: u16 = 499;

/// A request, for the log and the metrics.
#[derive(Debug)]
pub struct Record {
    /// The state of the server.
    pub app: Arc<App>,
    /// The id of the request.
    pub id: String,
    /// When it came.
    pub start: Instant,
    head: Head,
    state: Mutex<State>,
    /// Bytes of the answer's body, or of a WebSocket's messages.
    n_bytes: AtomicU64,
}

/// What is known of a request before it is read.
#[derive(Debug)]
pub struct Head {
    /// `None` if there was no request.
    pub method: Option<String>,
    /// The path of its route, or `none`.
    pub route: &'static str,
    /// What was asked for, if no route takes it.
    pub path: Option<String>,
    /// The id that the client gave the request.
    pub client_request_id: Option<String>,
    /// Whether programs ask all the time, so that only a detailed log has it.
    pub is_probe: bool,
    /// The address of the client.
    pub client: Option<IpAddr>,
    /// The connection, which ends after the event is written.
    pub _permit: Option<Arc<Permit>>,
}

#[derive(Debug, Default)]
struct State {
    status: Option<u16>,
    /// How a stream ended.
    reason: Option<&'static str>,
    notes: BTreeMap<Field, Value>,
    permit: Option<StreamPermit>,
}

impl Record {
    /// Begins the record of a request.
    pub fn new(app: &Arc<App>, head: Head) -> Arc<Self> {
        let (app, id) = (Arc::clone(app), app.request_id());
        let (state, n_bytes) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Self { app, id, start: Instant::now(), head, state, n_bytes })
    }

    /// Adds a field to the event.
    pub fn note(&self, field: Field, value: impl Into<Value>) {
        self.state.lock().notes.insert(field, value.into());
    }

    /// Adds the time since the request came to the event.
    pub fn note_time(&self, field: Field) {
        self.note(field, self.start.elapsed().as_secs_f64());
    }

    /// Notes that the first audio leaves.
    pub fn first_audio(&self) {
        self.app.metrics.first_audio(self.start.elapsed());
        self.note_time(Field::FirstAudioSeconds);
    }

    /// Notes whose request it is.
    ///
    /// # Errors
    /// 401 if the key has ended, 403 if the route is outside its scope.
    pub fn enter(&self, key: &Key) -> Result<(), Failure> {
        self.note(Field::Key, key.name());
        key.enter(self.head.route)
    }

    /// Takes one of the key's streams until the answer ends.
    ///
    /// # Errors
    /// 429 if all are in use.
    pub fn open_stream(&self, key: &Key) -> Result<(), Failure> {
        self.state.lock().permit = Some(key.open_stream()?);
        Ok(())
    }

    /// Counts the answer.
    pub fn answered(&self, status: u16) {
        self.state.lock().status = Some(status);
        self.app.metrics.request(self.head.route, status);
    }

    /// Adds an error to the event. A refused key needs no message, which is about headers.
    pub fn failed(&self, failure: &Failure) {
        self.note(Field::Error, failure.code());
        // A probe that asks whether the server is ready wants to know just that.
        if self.head.route != "/ready" {
            self.app.metrics.refused(failure);
        }
        if failure.status != StatusCode::UNAUTHORIZED {
            self.note(Field::Message, failure.log_message());
        }
    }

    /// Notes how a stream of a kind ended, and gives its place back.
    pub fn ended(&self, kind: &str, reason: &'static str) {
        if reason != "done" {
            self.app.metrics.dropped(reason);
        }
        self.note(Field::Kind, kind);
        self.state.lock().reason = Some(reason);
        Watcher::ended(self);
    }

    fn level(&self, status: u16, reason: Option<&'static str>) -> Level {
        match (status, reason) {
            (200 | 503, _) if self.head.is_probe => Level::Debug,
            (CLIENT_LEFT, _) => Level::Info,
            (_, Some("fault")) => Level::Error,
            (500.., _) if status != 503 => Level::Error,
            (400.., _) | (_, Some("slow_client" | "violation")) => Level::Warn,
            _ => Level::Info,
        }
    }
}

impl Watcher for Record {
    fn sent(&self, n_bytes: usize) {
        self.n_bytes.fetch_add(n_bytes as u64, Relaxed);
    }

    /// Gives the place of the key's stream back, before the client learns that its stream has ended.
    fn ended(&self) {
        let permit = self.state.lock().permit.take();
        drop(permit);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let State { status, reason, notes, .. } = std::mem::take(&mut *self.state.lock());
        if status.is_none() {
            self.app.metrics.request(self.head.route, CLIENT_LEFT);
        }
        let seconds = self.start.elapsed().as_secs_f64();
        self.app.metrics.request_seconds(self.head.route, seconds);
        let (status, reason) = status.map_or((CLIENT_LEFT, Some("client_left")), |status| (status, reason));
        let fields: [(Field, Option<Value>); 11] = [
            (Field::Event, Some("request".into())),
            (Field::RequestId, Some(self.id.as_str().into())),
            (Field::ClientRequestId, self.head.client_request_id.as_deref().map(Value::from)),
            (Field::Client, self.head.client.map(|client| client.to_canonical().to_string().into())),
            (Field::Method, self.head.method.as_deref().map(Value::from)),
            (Field::Route, Some(self.head.route.into())),
            (Field::Path, self.head.path.as_deref().map(Value::from)),
            (Field::Status, Some(status.into())),
            (Field::Reason, reason.map(Value::from)),
            (Field::Bytes, Some(self.n_bytes.load(Relaxed).into())),
            (Field::Seconds, Some(seconds.into())),
        ];
        let fields = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
        self.app.log.event(self.level(status, reason), fields.chain(notes));
    }
}
