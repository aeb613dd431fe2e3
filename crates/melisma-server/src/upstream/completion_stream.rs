//! All pieces of an input, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::connection::Answer;
use super::{Upstream, fault};
use crate::http::failure::Failure;

/// Texts of a piece that wait for those before them, and their bytes.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 64 << 10;

/// An event of the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionEvent {
    /// Text with audio tokens in it.
    Text(String),
    /// The end of a piece, and the tokens of its prompt where the upstream tells.
    End {
        /// 0 if it does not.
        prompt_tokens: u64,
    },
}

/// The completions of all pieces of an input. Dropping it ends the requests.
#[derive(Debug)]
pub struct CompletionStream {
    upstream: Arc<Upstream>,
    /// The requests that were not sent yet.
    bodies: VecDeque<String>,
    current: Option<Piece>,
    /// Sent while the current one is spoken, so that its first token does not have to be waited for.
    ahead: Option<Piece>,
    deadline: Instant,
}

#[derive(Debug)]
struct Piece {
    event: mpsc::Receiver<QueuedEvent>,
    _task: JoinSet<()>,
    has_begun: bool,
}

impl CompletionStream {
    pub(super) fn new(upstream: Arc<Upstream>, bodies: VecDeque<String>) -> Self {
        let deadline = Instant::now() + upstream.limits().total;
        Self { upstream, bodies, current: None, ahead: None, deadline }
    }

    /// Returns the next event, or `None` after the end of the last piece.
    ///
    /// # Errors
    /// The upstream fails or is too slow. A piece that was sent ahead is slow only once it is its turn.
    pub async fn next(&mut self) -> Result<Option<CompletionEvent>, Failure> {
        if self.current.is_none() {
            self.current = self.ahead.take().or_else(|| self.start());
        }
        let Some(piece) = &mut self.current else { return Ok(None) };
        let limits = self.upstream.limits();
        let limit = if piece.has_begun { limits.idle } else { limits.first };
        let wait_end = Instant::now() + limit;
        let (end, limit) = if self.deadline < wait_end { (self.deadline, limits.total) } else { (wait_end, limit) };
        let event = timeout_at(end, piece.event.recv()).await.map_err(|_| fault::slow(limit))?;
        let QueuedEvent { event, .. } = event.ok_or_else(fault::broken)?;
        let event = event?;
        match &event {
            CompletionEvent::End { .. } => self.current = None,
            CompletionEvent::Text(_) if !piece.has_begun => {
                piece.has_begun = true;
                self.ahead = self.start();
            }
            CompletionEvent::Text(_) => {}
        }
        Ok(Some(event))
    }

    /// Sends the next request.
    fn start(&mut self) -> Option<Piece> {
        let body = self.bodies.pop_front()?;
        let (sender, event) = Sender::new();
        let (upstream, mut task) = (Arc::clone(&self.upstream), JoinSet::new());
        task.spawn(async move {
            if let Err(failure) = forward(&upstream, body, &sender).await {
                // The receiver of the piece may be gone.
                let _ = sender.send(Err(failure)).await;
            }
        });
        Some(Piece { event, _task: task, has_begun: false })
    }
}

/// An event that was not received yet.
#[derive(Debug)]
struct QueuedEvent {
    event: Result<CompletionEvent, Failure>,
    _room: Option<OwnedSemaphorePermit>,
}

/// Sends the events of a piece, bounded by their bytes.
#[derive(Debug)]
struct Sender {
    events: mpsc::Sender<QueuedEvent>,
    room: Arc<Semaphore>,
}

impl Sender {
    fn new() -> (Self, mpsc::Receiver<QueuedEvent>) {
        let (events, event) = mpsc::channel(WAITING);
        (Self { events, room: Arc::new(Semaphore::new(WAITING_BYTES)) }, event)
    }

    /// Waits until there is room.
    ///
    /// # Errors
    /// The receiver was dropped.
    async fn send(&self, event: Result<CompletionEvent, Failure>) -> Result<(), mpsc::error::SendError<QueuedEvent>> {
        let n_bytes = match &event {
            Ok(CompletionEvent::Text(text)) => text.len().min(WAITING_BYTES),
            _ => 0,
        };
        // It is never closed.
        let _room = Arc::clone(&self.room).acquire_many_owned(n_bytes as u32).await.ok();
        self.events.send(QueuedEvent { event, _room }).await
    }
}

/// Forwards the text of one answer until it ends or the receiver is dropped.
async fn forward(upstream: &Upstream, body: String, sender: &Sender) -> Result<(), Failure> {
    let mut answer = Answer::ask(upstream, body).await?;
    while let Some(text) = answer.next().await? {
        if sender.send(Ok(CompletionEvent::Text(text))).await.is_err() {
            return Ok(());
        }
    }
    let _ = sender.send(Ok(CompletionEvent::End { prompt_tokens: answer.prompt_tokens() })).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn what_waits_is_bounded_by_its_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let text = |n_bytes| Ok(CompletionEvent::Text("x".repeat(n_bytes)));
        let soon = Duration::from_millis(50);
        runtime.block_on(async {
            let (sender, mut event) = Sender::new();
            for _ in 0..2 {
                sender.send(text(WAITING_BYTES / 2)).await.unwrap();
            }
            assert!(timeout(soon, sender.send(text(1))).await.is_err(), "a third text found room");
            assert!(event.recv().await.unwrap().event.is_ok());
            assert!(timeout(soon, sender.send(text(1))).await.is_ok(), "taking a text left no room");
            let (sender, _said) = Sender::new();
            sender.send(text(4 * WAITING_BYTES)).await.unwrap();
        });
    }
}
