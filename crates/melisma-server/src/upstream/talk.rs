//! All pieces of an input, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::connection::Answer;
use super::{Upstream, fault};
use crate::http::failure::Failure;

/// Texts of a piece that wait for those before them.
const WAITING: usize = 256;

/// What the upstream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Text with audio tokens in it.
    Text(String),
    /// The end of a piece, and the tokens of its prompt where the upstream tells.
    End {
        /// 0 if it does not.
        prompt_tokens: u64,
    },
}

/// The upstream's words for all pieces of an input. Dropping it ends the requests.
#[derive(Debug)]
pub struct Talk {
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
    said: mpsc::Receiver<Result<Said, Failure>>,
    _task: JoinSet<()>,
    has_begun: bool,
}

impl Talk {
    pub(super) fn new(upstream: Arc<Upstream>, bodies: VecDeque<String>) -> Self {
        let deadline = Instant::now() + upstream.limits().total;
        Self { upstream, bodies, current: None, ahead: None, deadline }
    }

    /// What is said next, or `None` after the end of the last piece.
    ///
    /// # Errors
    /// The upstream fails or is too slow. A piece that was sent ahead is slow only once it is its turn.
    pub async fn next(&mut self) -> Result<Option<Said>, Failure> {
        if self.current.is_none() {
            self.current = self.ahead.take().or_else(|| self.start());
        }
        let Some(piece) = &mut self.current else { return Ok(None) };
        let limits = self.upstream.limits();
        let limit = if piece.has_begun { limits.idle } else { limits.first };
        let wait_end = Instant::now() + limit;
        let (end, limit) = if self.deadline < wait_end { (self.deadline, limits.total) } else { (wait_end, limit) };
        let said = timeout_at(end, piece.said.recv()).await.map_err(|_| fault::slow(limit))?;
        let said = said.unwrap_or_else(|| Err(fault::broken()))?;
        match &said {
            Said::End { .. } => self.current = None,
            Said::Text(_) if !piece.has_begun => {
                piece.has_begun = true;
                self.ahead = self.start();
            }
            Said::Text(_) => {}
        }
        Ok(Some(said))
    }

    /// Sends the next request.
    fn start(&mut self) -> Option<Piece> {
        let body = self.bodies.pop_front()?;
        let (sender, said) = mpsc::channel(WAITING);
        let (upstream, mut task) = (Arc::clone(&self.upstream), JoinSet::new());
        task.spawn(async move {
            if let Err(failure) = pass(&upstream, body, &sender).await {
                // A piece that nobody waits for has ended already.
                let _ = sender.send(Err(failure)).await;
            }
        });
        Some(Piece { said, _task: task, has_begun: false })
    }
}

/// Passes on what one answer says, until it ends or nobody listens.
async fn pass(upstream: &Upstream, body: String, sender: &mpsc::Sender<Result<Said, Failure>>) -> Result<(), Failure> {
    let mut answer = Answer::ask(upstream, body).await?;
    while let Some(text) = answer.next().await? {
        if sender.send(Ok(Said::Text(text))).await.is_err() {
            return Ok(());
        }
    }
    let _ = sender.send(Ok(Said::End { prompt_tokens: answer.prompt_tokens() })).await;
    Ok(())
}
