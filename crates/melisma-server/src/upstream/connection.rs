//! One request to the upstream, on a connection of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::rustls::pki_types::ServerName;

use super::completion::{self, End};
use super::event::Events;
use super::stop::Stop;
use super::{Limits, Upstream, fault};
use crate::http::body::Body;
use crate::http::failure::Failure;

const AGENT: &str = concat!("melisma/", env!("CARGO_PKG_VERSION"));
/// Bytes of headers.
const MAX_HEADER_BYTES: usize = 32 << 10;

/// From the reason why a completion ended to the end of the answer, which some servers forget. Figures may come.
const STOP_TIME: Duration = Duration::from_secs(1);

/// Bytes of an error's body that the events show, and the time to wait for them.
pub(super) const MAX_EXCERPT_BYTES: usize = 500;
const EXCERPT_TIME: Duration = Duration::from_secs(1);

/// The answer to one request while it arrives. Dropping it closes the connection, which stops the model.
#[derive(Debug)]
pub(super) struct Answer {
    body: Incoming,
    events: Events,
    /// Moves the bytes of the connection.
    _driver: JoinSet<()>,
    waiting: std::vec::IntoIter<String>,
    stop: Stop,
    /// Once the model has stopped: when the answer ends, whatever comes.
    end: Option<Instant>,
    prompt_tokens: u64,
    limits: Limits,
}

impl Answer {
    /// Asks `upstream`.
    ///
    /// # Errors
    /// It cannot be reached, or answers with anything but a stream of events.
    pub(super) async fn ask(upstream: &Upstream, body: String) -> Result<Self, Failure> {
        let mut driver = JoinSet::new();
        let answer = exchange(upstream, completion_request(upstream, body), &mut driver).await?;
        let answer = check(answer).await?;
        let limits = upstream.limits();
        Ok(Self {
            body: answer.into_body(),
            events: Events::new(limits.line_bytes),
            _driver: driver,
            waiting: Vec::new().into_iter(),
            stop: Stop::new(&upstream.settings.stop),
            end: None,
            prompt_tokens: 0,
            limits,
        })
    }

    /// Returns the next text, or `None` after the last one.
    ///
    /// # Errors
    /// The stream breaks off, had too many tokens, or is not a stream of completions.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            for data in self.waiting.by_ref() {
                let chunk = completion::read(&data)?;
                self.prompt_tokens = self.prompt_tokens.max(chunk.prompt_tokens);
                if chunk.end == Some(End::Done) {
                    return Ok(None);
                }
                // Nothing behind a stop is spoken.
                if self.end.is_some() {
                    continue;
                }
                let (text, is_stop) = self.stop.push(&chunk.text);
                let now = Instant::now();
                self.end = match chunk.end {
                    _ if is_stop => Some(now),
                    Some(End::Length) => return Err(fault::cut_short(self.limits.tokens)),
                    Some(_) => Some(now + STOP_TIME.min(self.limits.idle / 2)),
                    None => None,
                };
                if !text.is_empty() {
                    return Ok(Some(text));
                }
            }
            if self.end.is_some_and(|end| end <= Instant::now()) {
                return Ok(None);
            }
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx));
            let frame = match self.end {
                Some(end) => timeout_at(end, frame).await.unwrap_or(None),
                None => frame.await,
            };
            match frame {
                None if self.end.is_some() => return Ok(None),
                // Some servers close the connection instead of ending the body.
                Some(Err(_)) if self.end.is_some() => return Ok(None),
                None | Some(Err(_)) => return Err(fault::broken()),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.waiting = self.events.push(&bytes)?.into_iter();
                    }
                }
            }
        }
    }

    /// Returns the number of prompt tokens, if the upstream reports it.
    pub(super) fn prompt_tokens(&self) -> u64 {
        self.prompt_tokens
    }
}

impl Upstream {
    /// Asks for its models. Any answer is one.
    ///
    /// # Errors
    /// It cannot be reached, or does not answer within the time to connect.
    pub(super) async fn probe(&self) -> Result<(), Failure> {
        let mut driver = JoinSet::new();
        let mut asked = request(self, Body::Whole(None));
        *asked.uri_mut() = self.address.path("/v1/models").parse().unwrap_or_default();
        let answered = timeout(self.limits().connect, exchange(self, asked, &mut driver)).await;
        answered.map_err(fault::unreachable)?.map(drop)
    }
}

/// Sends a request over a connection of its own.
async fn exchange(
    upstream: &Upstream,
    request: Request<Body>,
    driver: &mut JoinSet<()>,
) -> Result<Response<Incoming>, Failure> {
    let address = &upstream.address;
    let connecting = TcpStream::connect((&*address.host, address.port));
    let limit = upstream.limits().connect;
    let socket = timeout(limit, connecting).await.map_err(fault::unreachable)?.map_err(fault::unreachable)?;
    // It only costs latency.
    let _ = socket.set_nodelay(true);
    match &upstream.tls {
        None => send(socket, request, driver).await,
        Some(connector) => {
            let name = ServerName::try_from(address.host.clone()).map_err(fault::tls)?;
            let securing = connector.connect(name, socket);
            let socket = timeout(limit, securing).await.map_err(fault::tls)?.map_err(fault::tls)?;
            send(socket, request, driver).await
        }
    }
}

/// Sends a request. The connection is driven in `driver`.
async fn send<I>(socket: I, request: Request<Body>, driver: &mut JoinSet<()>) -> Result<Response<Incoming>, Failure>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEADER_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(socket)).await.map_err(|_| fault::broken())?;
    driver.spawn(async {
        // What went wrong shows in the answer.
        let _ = connection.await;
    });
    sender.send_request(request).await.map_err(|error| match error.is_parse() {
        true => fault::garbage("this is not HTTP"),
        false => fault::broken(),
    })
}

/// Returns the request for a completion.
fn completion_request(upstream: &Upstream, body: String) -> Request<Body> {
    let mut request = request(upstream, Body::from(body));
    *request.method_mut() = hyper::Method::POST;
    // It was checked when it was read.
    *request.uri_mut() = upstream.path().parse().unwrap_or_default();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    request
}

/// Returns a request with the server's own headers: those of the client are never part of it.
fn request(upstream: &Upstream, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    let headers = request.headers_mut();
    if let Ok(host) = HeaderValue::from_str(&upstream.address.authority) {
        headers.insert(HOST, host);
    }
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    if let Some(value) = &upstream.authorization {
        headers.insert(AUTHORIZATION, value.clone());
    }
    request
}

async fn check(answer: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
    let status = answer.status();
    if status.is_redirection() {
        return Err(fault::redirect(status));
    }
    if status != StatusCode::OK {
        return Err(fault::status(status).with_detail(excerpt(answer.into_body()).await));
    }
    let media_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match media_type.trim_start().to_lowercase().starts_with("text/event-stream") {
        true => Ok(answer),
        false => {
            let failure = fault::garbage("it is not of the type text/event-stream");
            Err(failure.with_detail(excerpt(answer.into_body()).await))
        }
    }
}

/// Returns the beginning of an answer that says what is wrong.
async fn excerpt(mut body: Incoming) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            bytes.extend(frame.into_data().unwrap_or_default());
            if bytes.len() > MAX_EXCERPT_BYTES {
                break;
            }
        }
    };
    // What arrives in time is shown.
    let _ = timeout(EXCERPT_TIME, reading).await;
    bytes.truncate(MAX_EXCERPT_BYTES);
    String::from_utf8_lossy(&bytes).into_owned()
}
