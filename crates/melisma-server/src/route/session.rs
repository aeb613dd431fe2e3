//! Sessions of streams over WebSockets: pings, errors and the close.

use std::sync::Arc;

use hyper::body::Incoming as Upload;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use melisma::Error;
use serde_json::Value;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::Call;
use crate::app::App;
use crate::http::body::Watcher;
use crate::http::failure::Failure;
use crate::record::Record;
use crate::websocket::{End, Incoming, Message, Outgoing, Writer};

/// Pings that a client may miss.
const MISSED_PINGS: u32 = 3;

/// Why a stream ends before its time.
pub(super) enum Fault {
    /// The client left or broke the protocol of WebSockets.
    Client(End),
    /// The client does not receive.
    Slow,
    /// The server drains.
    Draining,
    /// An error that is reported to the client.
    Reported(Failure),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Reported(failure)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Reported(error.into())
    }
}

/// The sending side of a session.
pub(super) struct Session {
    pub(super) app: Arc<App>,
    pub(super) record: Arc<Record>,
    outgoing: Outgoing<WriteHalf<TokioIo<Upgraded>>>,
}

/// The receiving side of a session.
pub(super) struct MessageReceiver {
    incoming: Incoming<ReadHalf<TokioIo<Upgraded>>>,
    n_silent: u32,
}

impl Session {
    /// Waits for the upgrade of the connection; returns `None` if the client has left by then.
    pub(super) async fn begin(app: Arc<App>, mut call: Call) -> Option<(Self, MessageReceiver)> {
        let upgraded = hyper::upgrade::on::<&mut hyper::Request<Upload>>(&mut call.request).await.ok()?;
        let (read, write) = tokio::io::split(TokioIo::new(upgraded));
        let incoming = Incoming::new(read, Writer::Client, app.limits.message_bytes);
        let outgoing = Outgoing::new(write, app.limits.stall_timeout);
        let session = Self { app, record: call.record, outgoing };
        Some((session, MessageReceiver { incoming, n_silent: 0 }))
    }

    /// Sends an object.
    pub(super) async fn send_json(&self, message: &Value) -> Result<(), Fault> {
        self.send(Message::Text(message.to_string())).await
    }

    /// Sends a message.
    pub(super) async fn send(&self, message: Message) -> Result<(), Fault> {
        self.record.sent(match &message {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) => bytes.len(),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => 0,
        });
        self.outgoing.send(message).await.map_err(|_| Fault::Slow)
    }

    /// Returns the next text. Answers pings, and pings a silent client.
    pub(super) async fn next_text(&self, receiver: &mut MessageReceiver) -> Result<String, Fault> {
        loop {
            let message = match timeout(self.app.limits.ping, receiver.incoming.next()).await {
                Ok(message) => message.map_err(Fault::Client)?,
                Err(_) if receiver.n_silent == MISSED_PINGS => return Err(Fault::Client(End::Closed)),
                Err(_) => {
                    receiver.n_silent += 1;
                    self.send(Message::Ping(Vec::new())).await?;
                    continue;
                }
            };
            receiver.n_silent = 0;
            match message {
                Message::Text(text) => return Ok(text),
                Message::Ping(bytes) => self.send(Message::Pong(bytes)).await?,
                Message::Binary(_) => {
                    return Err(Failure::invalid("binary_message", "messages are text").into());
                }
                Message::Pong(_) | Message::Close(_) => {}
            }
        }
    }

    /// Says why the stream ended, and closes the connection.
    pub(super) async fn end(self, kind: &'static str, ended: Result<(), Fault>) {
        let (reason, close) = match ended {
            Ok(()) => ("done", Some((1000, String::new()))),
            Err(Fault::Draining) => ("draining", Some((1001, "the server is stopping".to_owned()))),
            Err(Fault::Client(End::Violation(violation))) => {
                ("violation", Some((violation.code, violation.reason.to_owned())))
            }
            Err(Fault::Client(End::Closed)) => ("client_left", Some((1000, String::new()))),
            Err(Fault::Client(End::Lost(_))) => ("client_left", None),
            Err(Fault::Slow) => ("slow_client", Some((1008, "the client receives too slowly".to_owned()))),
            Err(Fault::Reported(failure)) => {
                self.record.failed(&failure);
                let mut message = failure.json();
                message["type"] = "error".into();
                // The close frame follows in any case.
                let _ = self.send_json(&message).await;
                let code = if failure.status.is_server_error() { 1011 } else { 1008 };
                ("fault", Some((code, "see the error message".to_owned())))
            }
        };
        self.record.ended(kind, reason);
        self.outgoing.end(close.map(|close| Message::Close(Some(close))));
    }
}
