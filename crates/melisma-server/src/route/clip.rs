//! Requests whose body is an audio file, which is worked on while it arrives.

use std::io::{self, Read};
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use melisma::Error;
use melisma::lock::Mutex;
use tokio::sync::mpsc;

use super::Call;
use crate::app::App;
use crate::http::body::{Body, BodySender, Reply, SendError};
use crate::http::failure::Failure;
use crate::http::upload::RequestBody;
use crate::record::Record;

/// Pieces of a body, or of an answer, that wait.
const WAITING: usize = 4;

/// The kind of work on the file.
pub(super) struct Kind {
    /// Its name in status and events.
    pub(super) name: &'static str,
    /// The type of the answer.
    pub(super) media_type: &'static str,
}

/// The parts of an answer, as text.
#[derive(Clone)]
pub(super) struct Texts {
    sender: mpsc::Sender<Result<String, Failure>>,
}

impl Texts {
    /// Sends a part; waits while the client is behind.
    ///
    /// # Errors
    /// The client has left.
    pub(super) async fn give(&self, text: String) -> melisma::Result<()> {
        let gone = || Error::new(melisma::ErrorKind::Io, "the client has left");
        if text.is_empty() { Ok(()) } else { self.sender.send(Ok(text)).await.map_err(|_| gone()) }
    }
}

/// Runs `work` on a thread for blocking work. Answers with the first text that it gives; until then a
/// fault has its own status, and after that it cuts the answer off.
pub(super) async fn answer(
    app: &Arc<App>,
    call: Call,
    kind: Kind,
    work: impl FnOnce(Source, &Texts) -> melisma::Result<()> + Send + 'static,
) -> Result<Reply, Failure> {
    let upload = RequestBody::new(call.request.into_body(), app.limits.audio_bytes, app.limits.stall_timeout);
    let (sender, bytes) = mpsc::channel(WAITING);
    let failure = Arc::<Mutex<Option<Failure>>>::default();
    tokio::spawn(feed(upload, sender, Arc::clone(&failure)));
    let (sender, mut made) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let texts = Texts { sender };
        let end = work(Source { bytes, rest: Bytes::new() }, &texts).map_err(|error| {
            // The reason that the body ended is better than what the decoder of audio made of it.
            let failed = failure.lock().take();
            failed.unwrap_or_else(|| error.into())
        });
        // Of a clip without text, the empty one is all that comes.
        let _ = texts.sender.blocking_send(end.map(|()| String::new()));
    });
    let lost = || Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the clip was lost");
    let first = made.recv().await.ok_or_else(lost)??;
    let (pieces, body) = Body::stream(app.limits.stall_timeout);
    let answer = Answer { record: call.record, kind: kind.name, made, pieces };
    tokio::spawn(answer.send(first));
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind.media_type));
    Ok(reply)
}

/// Passes the body on. Why it fails is written before the channel closes.
async fn feed(mut upload: RequestBody, sender: mpsc::Sender<Bytes>, failure: Arc<Mutex<Option<Failure>>>) {
    loop {
        match upload.next().await {
            Ok(Some(bytes)) => {
                if sender.send(bytes).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(found) => {
                *failure.lock() = Some(found);
                // An empty piece says that the body broke off.
                let _ = sender.send(Bytes::new()).await;
                return;
            }
        }
    }
}

/// The body as a file that is read forwards.
pub(super) struct Source {
    bytes: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            match self.bytes.blocking_recv() {
                None => return Ok(0),
                Some(bytes) if bytes.is_empty() => return Err(io::ErrorKind::ConnectionAborted.into()),
                Some(bytes) => self.rest = bytes,
            }
        }
        let n = to.len().min(self.rest.len());
        to[..n].copy_from_slice(&self.rest.split_to(n));
        Ok(n)
    }
}

/// An answer that is being sent.
struct Answer {
    record: Arc<Record>,
    kind: &'static str,
    made: mpsc::Receiver<Result<String, Failure>>,
    pieces: BodySender,
}

impl Answer {
    async fn send(self, first: String) {
        let (record, kind) = (Arc::clone(&self.record), self.kind);
        let _open_stream = record.app.streams.list(&record.id, kind);
        let reason = self.send_all(first).await;
        record.ended(kind, reason);
    }

    /// Returns how it ended. A fault cuts the answer off; a client that is gone or too slow ends the work.
    async fn send_all(mut self, first: String) -> &'static str {
        let lost = |lost: SendError| match lost {
            SendError::Gone => "client_left",
            SendError::Slow => "slow_client",
        };
        let mut next = Some(Ok(first));
        while let Some(made) = next {
            let Ok(text) = made else { return "fault" };
            if !text.is_empty()
                && let Err(why) = self.pieces.send(text).await
            {
                return lost(why);
            }
            next = self.made.recv().await;
        }
        self.pieces.finish(HeaderMap::new()).await.map_or_else(lost, |()| "done")
    }
}

/// Reads all samples of `stream`, of at most the time that a stream may have.
///
/// # Errors
/// Those of the stream and of `take`; the audio is too long.
pub(super) fn each_block(
    app: &App,
    stream: &mut melisma::audio::Stream,
    sample_rate: u32,
    mut take: impl FnMut(&[f32]) -> melisma::Result<()>,
) -> melisma::Result<()> {
    let longest = app.limits.audio.as_secs();
    loop {
        let samples = stream.read()?;
        if samples.is_empty() {
            return Ok(());
        }
        take(samples)?;
        if stream.n_read() > longest * u64::from(sample_rate) {
            return Err(Error::invalid(format!("more than {longest} seconds of audio")));
        }
    }
}
