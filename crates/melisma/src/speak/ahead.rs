//! The pieces of one text, delivered in order: spoken one after the other, or several at once.
//!
//! A piece depends on no other, so it has the same tokens either way. Frames of pieces whose turn has
//! not come are held; there are those of [`MAX_OPEN`] pieces at most.

use super::format::Draw;
use super::note::Note;
use super::run::{ScriptRun, Stage};
use crate::snac::tokens::Ledger;
use crate::{Error, Result};

/// The most pieces of a text that are spoken at once: more rows of a step would gain little.
pub(super) const MAX_AT_ONCE: usize = 8;
/// The most pieces that have begun and are not delivered. Some of them end early.
const MAX_OPEN: usize = 2 * MAX_AT_ONCE;

/// How soon the samples of a text are needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// Someone listens: the text is spoken piece by piece, and a frame leaves as soon as it is whole.
    #[default]
    Live,
    /// The whole is needed: once the first samples have left, pieces are spoken together, and frames leave together. The
    /// tokens and samples are the same.
    Whole,
}

impl Pace {
    /// Returns how many of a text's pieces are spoken at once.
    pub(super) fn at_once(self, draw: Draw, n_pieces: usize) -> usize {
        match (self, draw) {
            (Self::Whole, Draw::Frames) => n_pieces.clamp(1, MAX_AT_ONCE),
            // A frame that lacks a token is completed from the one before, which may be of the piece before.
            (_, Draw::Free) | (Self::Live, _) => 1,
        }
    }
}

/// The pieces of one text.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Those that were begun and not delivered, in order.
    open: Vec<ScriptRun>,
    /// Those that were not begun, unless all are one run.
    left: Option<ScriptRun>,
    /// The piece behind the open ones, which failed.
    failed: Option<(ScriptRun, Error)>,
    at_once: usize,
    /// Of what was delivered.
    ledger: Ledger,
    notes: Vec<Note>,
}

impl Pieces {
    /// Prepares the pieces of `run`, of which `at_once` are spoken at the same time.
    pub(super) fn new(mut run: ScriptRun, at_once: usize) -> Self {
        let notes = std::mem::take(&mut run.notes);
        let (open, left) = if at_once > 1 { (Vec::new(), Some(run)) } else { (vec![run], None) };
        Self { open, left, failed: None, at_once, ledger: Ledger::default(), notes }
    }

    /// Returns all pieces, if none has begun.
    pub(super) fn unbegun(&self) -> Option<&ScriptRun> {
        let first = self.left.as_ref().filter(|_| self.open.is_empty());
        first.or(self.open.first()).filter(|run| !run.has_begun())
    }

    /// Returns how many may be spoken at once.
    pub(super) fn at_once(&self) -> usize {
        self.at_once
    }

    pub(super) fn is_done(&self) -> bool {
        self.open.is_empty() && self.left.as_ref().is_none_or(ScriptRun::is_done)
    }

    /// Returns the account of all tokens so far.
    pub(super) fn ledger(&self) -> Ledger {
        let failed = self.failed.iter().map(|(run, _)| run);
        self.open.iter().chain(failed).fold(self.ledger, |all, run| all.with(run.ledger()))
    }

    /// Returns what a listener should know of what was delivered.
    pub(super) fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Draws a token for each piece on its way; up to `most` are, as far as there is room.
    ///
    /// # Errors
    /// The device failed. A piece that fails is told by [`Pieces::error`], when those before it are done.
    pub(super) fn step(&mut self, stage: &mut Stage, most: usize) -> Result<()> {
        let n_spoken = |open: &[ScriptRun]| open.iter().filter(|run| !run.is_done()).count();
        while self.open.len() < MAX_OPEN && n_spoken(&self.open) < most.min(self.at_once) {
            let Some(piece) = self.left.as_mut().and_then(ScriptRun::split) else { break };
            self.open.push(piece);
        }
        if let Some((place, error)) = stage.step(&mut self.open)?.failed.into_iter().next() {
            for mut later in self.open.drain(place + 1..) {
                stage.forget(&mut later);
            }
            self.failed = self.open.pop().map(|run| (run, error));
            self.left = None;
        }
        Ok(())
    }

    /// Adds the codes of the frames whose turn has come to `codes`.
    pub(super) fn take(&mut self, codes: &mut Vec<i32>) {
        while let Some(run) = self.open.first_mut() {
            codes.append(&mut run.take());
            self.notes.append(&mut run.notes);
            if !run.is_done() {
                return;
            }
            self.ledger = self.ledger.with(self.open.remove(0).ledger());
        }
        if let Some((run, _)) = &mut self.failed {
            codes.append(&mut run.take());
        }
    }

    /// Returns the error of the piece that failed, once those before it are delivered.
    pub(super) fn error(&mut self) -> Option<Error> {
        let (run, error) = self.failed.take_if(|_| self.open.is_empty())?;
        self.ledger = self.ledger.with(run.ledger());
        Some(error)
    }
}
