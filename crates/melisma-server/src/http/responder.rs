//! Answers to clients whose request never reaches a route.

use std::fmt;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::CONTENT_LENGTH;

use super::body::Reply;
use super::failure::Failure;

type Respond = dyn Fn(&Failure, Option<IpAddr>) -> Reply + Send + Sync;

/// Counts and logs a refusal, and builds its answer.
#[derive(Clone)]
pub struct RefusalResponder {
    reply: Arc<Respond>,
    client: Option<IpAddr>,
}

impl RefusalResponder {
    /// Makes answers with `reply`, which also gets the address of the client.
    pub fn new(reply: impl Fn(&Failure, Option<IpAddr>) -> Reply + Send + Sync + 'static) -> Self {
        Self { reply: Arc::new(reply), client: None }
    }

    /// Returns the responder for a client.
    pub fn to(&self, client: IpAddr) -> Self {
        Self { client: Some(client), ..self.clone() }
    }

    /// Returns the bytes of the answer.
    pub fn bytes(&self, failure: &Failure) -> Vec<u8> {
        let (head, body) = (self.reply)(failure, self.client).into_parts();
        let body = body.into_bytes();
        let mut text = format!("HTTP/1.1 {}\r\n{CONTENT_LENGTH}: {}\r\n", head.status, body.len());
        for (name, value) in &head.headers {
            let _ = write!(text, "{name}: {}\r\n", value.to_str().unwrap_or_default());
        }
        [text.as_bytes(), b"\r\n", &body].concat()
    }
}

impl fmt::Debug for RefusalResponder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refuse")
    }
}
