//! `POST /v1/encode`: an audio file in, tokens out while it arrives.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use melisma::audio::Stream;
use melisma::snac::Codes;
use melisma::snac::tokens::{Text, to_json};
use melisma::{Error, Kind};
use tokio::sync::mpsc;

use super::Call;
use crate::app::{App, Decoder};
use crate::http::body::{Body, Pieces, Reply, Upload};
use crate::http::failure::Failure;
use crate::http::query::Query;

/// Pieces of a body, or of an answer, that wait.
const WAITING: usize = 4;

/// The form of the answer.
#[derive(Debug, Clone, Copy)]
enum Form {
    Text(Text),
    Codes,
}

/// Answers with the first tokens; until then a fault has its own status.
pub(super) async fn post(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let form = query.value("format", "orpheus, ids or codes", |text| match text {
        "orpheus" => Some(Form::Text(Text::Orpheus)),
        "ids" => Some(Form::Text(Text::Ids)),
        "codes" => Some(Form::Codes),
        _ => None,
    })?;
    let form = form.unwrap_or(Form::Text(Text::Orpheus));
    query.finish()?;
    if app.is_draining() {
        return Err(Failure::busy("draining", "the server is stopping").and_close());
    }
    let full = || Failure::busy("full", "other clips are being encoded").and_close();
    let place = app.decoder()?.encoder.enter().ok_or_else(full)?;
    let upload = Upload::new(call.request.into_body(), app.limits.audio_bytes, app.limits.patience);
    let (sender, bytes) = mpsc::channel(WAITING);
    let failure = Arc::<Mutex<Option<Failure>>>::default();
    tokio::spawn(feed(upload, sender, Arc::clone(&failure)));
    let (texts, mut made) = mpsc::channel(WAITING);
    let worker = Arc::clone(app);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let source = Source { bytes, rest: Bytes::new() };
        if let Err(error) = encode(&worker, source, form, &texts) {
            // The reason that the body ended is better than what the decoder of audio made of it.
            let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            let _ = texts.blocking_send(Err(failed.unwrap_or_else(|| error.into())));
        }
    });
    let lost = || Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the clip was lost");
    let first = made.recv().await.ok_or_else(lost)??;
    let (pieces, body) = Body::stream(app.limits.patience);
    tokio::spawn(send(first, made, pieces));
    let mut reply = Response::new(body);
    let media_type = match form {
        Form::Text(_) => "text/plain; charset=utf-8",
        Form::Codes => "application/json",
    };
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    Ok(reply)
}

/// Passes the body on. Why it fails is written before the channel closes.
async fn feed(mut upload: Upload, sender: mpsc::Sender<Bytes>, failure: Arc<Mutex<Option<Failure>>>) {
    loop {
        match upload.next().await {
            Ok(Some(bytes)) => {
                if sender.send(bytes).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(found) => {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                // An empty piece says that the body broke off.
                let _ = sender.send(Bytes::new()).await;
                return;
            }
        }
    }
}

/// The body as a file that is read forwards.
struct Source {
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

type Texts = mpsc::Sender<Result<String, Failure>>;

/// Encodes a clip on a thread of its own.
fn encode(app: &App, source: Source, form: Form, texts: &Texts) -> Result<(), Error> {
    let Some(Decoder { model, encoder, .. }) = app.decoder.get() else { return Ok(()) };
    let config = model.config();
    let gone = || Error::new(Kind::Io, "the client has left");
    let give = |text: String| match text.is_empty() {
        true => Ok(()),
        false => texts.blocking_send(Ok(text)).map_err(|_| gone()),
    };
    let mut all = Codes::empty(config);
    let mut start = match form {
        Form::Text(text) => text.start(model)?,
        Form::Codes => String::new(),
    };
    let mut take = |codes: Codes| match form {
        Form::Text(_) if codes.n_frames() == 0 => Ok(()),
        Form::Text(text) => give(std::mem::take(&mut start) + &text.lines(&codes)),
        Form::Codes => all.append(codes.frames()),
    };
    let mut stream = Stream::live(source, config.sampling_rate)?;
    let max_samples = app.limits.audio.as_secs() * u64::from(config.sampling_rate);
    let clip = encoder.open()?;
    loop {
        let samples = stream.read()?;
        if samples.is_empty() {
            break;
        }
        clip.push(samples, &mut take)?;
        if stream.n_read() > max_samples {
            return Err(Error::invalid(format!("more than {} seconds of audio", app.limits.audio.as_secs())));
        }
    }
    if let Some(rest) = clip.finish()? {
        take(rest)?;
    }
    match form {
        // A clip without a frame has the start alone.
        Form::Text(_) => give(start),
        Form::Codes => give(to_json(model, &all)),
    }
}

async fn send(first: String, mut made: mpsc::Receiver<Result<String, Failure>>, pieces: Pieces) {
    let mut next = Some(Ok(first));
    // A fault cuts the answer off; a client that is gone or too slow ends the encoding.
    while let Some(Ok(text)) = next {
        if pieces.send(text).await.is_err() {
            return;
        }
        next = made.recv().await;
    }
    if next.is_none() {
        let _ = pieces.finish(HeaderMap::new()).await;
    }
}
