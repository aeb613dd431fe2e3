//! Checks the bytes of a client, request by request, before hyper sees them.
//!
//! A head waits here until it is whole and was found to be good, so that each refusal is one of this
//! server, with a name, a reason and an event: hyper answers a broken head with an empty 400 or 431, and
//! its limit is not exact. Bodies pass as they come and are only counted, so that the next head is found.
//! It waits here too until hyper has answered the request before it.

use hyper::{Method, StatusCode, Uri};
use tokio::io::ReadBuf;

use super::failure::Failure;
use super::framing::{Chunk, Framing};

/// The most headers of a request.
pub const MAX_HEADERS: usize = 64;
/// The most bytes of a request's head: its line, its headers and the empty line.
pub const MAX_HEAD_BYTES: usize = 32 << 10;

/// Received bytes that were not passed on.
#[derive(Debug)]
pub struct Gate {
    held: Vec<u8>,
    /// Bytes of `held` that are known to contain no whole head.
    n_searched: usize,
    part: Part,
    refusal: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Before or in a head.
    Head,
    /// Bytes of a good head that are not passed on yet, and the body behind it.
    Good(usize, Framing),
    /// In a body.
    Body(Framing),
    /// Behind an upgrade.
    Raw,
    /// Nothing more is passed on.
    Shut,
}

/// Result of passing bytes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// Some bytes.
    Some,
    /// None: more have to come first.
    Nothing,
    /// None, and no more will.
    End,
}

impl Default for Gate {
    fn default() -> Self {
        Self { held: Vec::new(), n_searched: 0, part: Part::Head, refusal: None }
    }
}

impl Gate {
    /// Adds received bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Notes the end of the client's bytes. Half a head gets no answer: it is not a request yet.
    pub fn end(&mut self) {
        if self.held.is_empty() || self.part == Part::Head {
            self.part = Part::Shut;
        }
    }

    /// Passes on the bytes that were checked.
    pub fn pass(&mut self, to: &mut ReadBuf<'_>) -> Passed {
        if self.part == Part::Head {
            match find(&self.held, self.n_searched) {
                Ok(Some((len, framing))) => self.part = Part::Good(len, framing),
                Ok(None) => self.n_searched = self.held.len(),
                Err(failure) => self.refuse(failure),
            }
        }
        let wanted = self.held.len().min(to.remaining());
        let n = match &mut self.part {
            Part::Head => 0,
            Part::Shut => return Passed::End,
            Part::Raw => wanted,
            Part::Good(left, framing) => {
                let n = wanted.min(*left);
                let (left, framing) = (*left - n, *framing);
                self.part = if left == 0 { Part::body(framing) } else { Part::Good(left, framing) };
                n
            }
            Part::Body(framing) => match framing.pass(&self.held[..wanted]) {
                Ok(n) => {
                    self.part = Part::body(*framing);
                    n
                }
                // hyper sees the end of the connection in the midst of a body, and the route says so.
                Err(_) => {
                    self.part = Part::Shut;
                    return Passed::End;
                }
            },
        };
        if n == 0 {
            return Passed::Nothing;
        }
        to.put_slice(&self.held[..n]);
        self.held.drain(..n);
        self.n_searched = 0;
        // A long head leaves no long buffer behind.
        if self.held.is_empty() {
            self.held = Vec::new();
        }
        Passed::Some
    }

    /// Passes nothing on from here on, for this reason.
    pub fn refuse(&mut self, failure: Failure) {
        self.refusal = Some(failure.and_close());
        self.part = Part::Shut;
    }

    /// Opens the gate: everything from here on is for the protocol that the connection was upgraded to.
    pub fn open(&mut self) {
        self.part = Part::Raw;
    }

    /// Takes the reason why the last head was not passed on.
    pub fn take_refusal(&mut self) -> Option<Failure> {
        self.refusal.take()
    }

    /// Skips bytes that will not be read.
    pub fn discard(&mut self, bytes: &[u8]) {
        let held = std::mem::take(&mut self.held);
        for bytes in [&held[..], bytes] {
            if bytes.is_empty() {
                continue;
            }
            self.part = match &mut self.part {
                Part::Body(framing) => match framing.pass(bytes) {
                    Ok(n) if n == bytes.len() => Part::body(*framing),
                    _ => Part::Shut,
                },
                _ => Part::Shut,
            };
        }
    }

    /// Returns whether the client stands between two requests, so that it may have nothing to send.
    pub fn is_between(&self) -> bool {
        self.part == Part::Head && self.held.is_empty()
    }
}

impl Part {
    fn body(framing: Framing) -> Self {
        if framing.is_over() { Self::Head } else { Self::Body(framing) }
    }
}

/// Returns the length of the first head and what follows it, if the head is whole. A part of it is looked at only
/// once, so that a client that sends single bytes costs little.
fn find(bytes: &[u8], n_searched: usize) -> Result<Option<(usize, Framing)>, Failure> {
    let new = &bytes[n_searched.saturating_sub(3)..];
    let has_end = new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n");
    let is_long = bytes.len() > MAX_HEAD_BYTES;
    if bytes.is_empty() || !(n_searched == 0 || has_end || is_long) {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD_BYTES => Ok(Some((len, framing(&request)?))),
        Ok(httparse::Status::Partial) if !is_long => Ok(None),
        Ok(_) => Err(large(format!("the head of the request is longer than {MAX_HEAD_BYTES} bytes"))),
        Err(httparse::Error::TooManyHeaders) => Err(large(format!("the request has more than {MAX_HEADERS} headers"))),
        Err(error) => Err(broken(format!("the request is not HTTP/1.1: {error}"))),
    }
}

/// Checks what httparse leaves to others, and says how the body is framed.
fn framing(request: &httparse::Request<'_, '_>) -> Result<Framing, Failure> {
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    Method::from_bytes(method.as_bytes()).map_err(|error| broken(format!("the method: {error}")))?;
    Uri::try_from(target).map_err(|error| broken(format!("the target of the request: {error}")))?;
    let values = |wanted: &'static str| {
        let named = request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(wanted));
        named.map(|header| header.value)
    };
    let mut lengths = values("content-length");
    let length = lengths.next().map(length).transpose()?;
    for other in lengths {
        if Some(self::length(other)?) != length {
            return Err(broken("the request has two lengths"));
        }
    }
    let mut codings = values("transfer-encoding");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(Framing::Length(length.unwrap_or_default())),
        (Some(_), _) if request.version != Some(1) => Err(broken("HTTP/1.0 has no Transfer-Encoding")),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunks(Chunk::Start)),
        _ => {
            let message = "Transfer-Encoding is `chunked` and nothing else";
            Err(Failure::new(StatusCode::NOT_IMPLEMENTED, "transfer_encoding", message))
        }
    }
}

fn length(value: &[u8]) -> Result<u64, Failure> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(broken("Content-Length is not a number"));
    }
    // No body of this length ends, and hyper has no numbers for the last of them.
    let digits = std::str::from_utf8(value).unwrap_or_default();
    let length = digits.parse().ok().filter(|length| *length <= i64::MAX as u64);
    length.ok_or_else(|| Failure::too_large("the body", i64::MAX as usize))
}

fn broken(message: impl Into<String>) -> Failure {
    Failure::invalid("broken_request", message)
}

fn large(message: String) -> Failure {
    Failure::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "large_head", message)
}

#[cfg(test)]
mod tests;
