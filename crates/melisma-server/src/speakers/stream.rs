//! A client's end of its text.

use std::sync::Arc;

use melisma::Result;
use melisma::snac::Codes;
use melisma::snac::tokens::Ledger;
use melisma::speak::{self, Note};
use tokio::sync::mpsc;

use super::Shared;

/// What a text said in a step.
#[derive(Debug)]
pub struct Utterance {
    /// The frames that became whole; `None` if there are none.
    pub codes: Option<Codes>,
    /// What its listener should know.
    pub notes: Vec<Note>,
    /// The account of all its tokens if it ended, or why it failed.
    pub end: Option<Result<Ledger>>,
}

/// The speech of one text. Dropping it ends the text before the next step.
#[derive(Debug)]
pub struct Speech {
    shared: Arc<Shared>,
    said: mpsc::Receiver<Utterance>,
}

impl From<speak::Utterance> for Utterance {
    fn from(said: speak::Utterance) -> Self {
        let codes = Some(said.codes).filter(|codes| codes.n_frames() > 0);
        Self { codes, notes: said.notes, end: said.end }
    }
}

impl Utterance {
    pub(super) fn failed(error: melisma::Error) -> Self {
        Self { codes: None, notes: Vec::new(), end: Some(Err(error)) }
    }
}

impl Speech {
    pub(super) fn new(shared: Arc<Shared>, said: mpsc::Receiver<Utterance>) -> Self {
        Self { shared, said }
    }

    /// Returns what the text says next, or `None` if its thread is gone.
    pub async fn next(&mut self) -> Option<Utterance> {
        let said = self.said.recv().await;
        self.shared.tell();
        said
    }
}

impl Drop for Speech {
    fn drop(&mut self) {
        self.said.close();
        self.shared.tell();
    }
}
