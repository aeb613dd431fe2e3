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
pub struct RequestBody {
    body: Incoming,
    limit: usize,
    n_read: usize,
    stall_timeout: Duration,
}

impl RequestBody {
    /// Reads up to `limit` bytes; fails if none arrive for `stall_timeout`.
    pub fn new(body: Incoming, limit: usize, stall_timeout: Duration) -> Self {
        Self { body, limit, n_read: 0, stall_timeout }
    }

    /// Returns the number of bytes, if the client announced it.
    pub fn n_announced(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Reads all bytes.
    ///
    /// # Errors
    /// As [`RequestBody::next`].
    pub async fn read_all(mut self) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    /// Reads the next bytes; returns `None` at the end.
    ///
    /// # Errors
    /// The body is too large or too slow, or the client has left.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        // A length that is announced is checked before the bytes arrive.
        if self.body.size_hint().lower() > self.limit.saturating_sub(self.n_read) as u64 {
            return Err(Failure::too_large("the body", self.limit));
        }
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx));
            let slow =
                || Failure::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body stopped arriving").and_close();
            let Some(frame) = timeout(self.stall_timeout, frame).await.map_err(|_| slow())? else { return Ok(None) };
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
