//! Bodies of requests, read within limits.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::{Body, Bytes, Incoming};
use tokio::time::timeout;

use super::failure::Failure;

/// The body of a request.
#[derive(Debug)]
pub struct Upload {
    body: Incoming,
    limit: usize,
    n_read: usize,
    patience: Duration,
}

impl Upload {
    /// At most `limit` bytes, of which the next must come within `patience`.
    pub fn new(body: Incoming, limit: usize, patience: Duration) -> Self {
        Self { body, limit, n_read: 0, patience }
    }

    /// All bytes.
    ///
    /// # Errors
    /// As [`Upload::next`].
    pub async fn whole(mut self) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    /// The next bytes, or `None` at the end.
    ///
    /// # Errors
    /// The body is too large or too slow, or the client has left.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        // A length that is announced need not be waited for.
        if self.body.size_hint().lower() > self.limit.saturating_sub(self.n_read) as u64 {
            return Err(Failure::too_large("the body", self.limit));
        }
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx));
            let slow =
                || Failure::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body stopped arriving").and_close();
            let Some(frame) = timeout(self.patience, frame).await.map_err(|_| slow())? else { return Ok(None) };
            let frame = frame.map_err(|error| Failure::invalid("broken_body", error.to_string()).and_close())?;
            let Ok(bytes) = frame.into_data() else { continue };
            self.n_read += bytes.len();
            if self.n_read > self.limit {
                return Err(Failure::too_large("the body", self.limit));
            }
            return Ok(Some(bytes));
        }
    }
}
