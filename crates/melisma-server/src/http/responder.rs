//! Answers to clients whose request never reaches a route.

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use hyper::header::CONTENT_LENGTH;

use super::body::{Body, Reply};
use super::failure::Failure;

/// Counts and logs a refusal, and builds its answer.
#[derive(Clone)]
pub struct RefusalResponder(Arc<dyn Fn(&Failure) -> Reply + Send + Sync>);

impl RefusalResponder {
    /// Makes answers with `reply`.
    pub fn new(reply: impl Fn(&Failure) -> Reply + Send + Sync + 'static) -> Self {
        Self(Arc::new(reply))
    }

    /// Returns the bytes of the answer.
    pub fn bytes(&self, failure: &Failure) -> Vec<u8> {
        let (head, body) = (self.0)(failure).into_parts();
        let body = match body {
            Body::Whole(Some(bytes)) => bytes,
            _ => hyper::body::Bytes::new(),
        };
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
