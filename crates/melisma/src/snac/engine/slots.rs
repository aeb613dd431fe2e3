//! The streams of an engine: one for each slot of its arena but the last, which belongs to the engine.

use melisma_kernels::layer::step::Row;

use crate::{Error, Result};

/// A stream of an [`Engine`](super::Engine) or an [`EncodeEngine`](super::EncodeEngine).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId {
    pub(super) slot: usize,
    /// Tells the streams of a slot apart.
    serial: u64,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    /// Latents taken.
    pub(super) start: i64,
    n_steps: i64,
}

impl Position {
    /// Returns the next step of a stream that ends after `end` latents.
    pub(super) fn row(self, slot: usize, end: i64) -> Row {
        Row { slot: slot as i64, n_steps: self.n_steps, start: self.start, end, ..Row::default() }
    }

    pub(super) fn advance(&mut self, n_latents: usize) {
        self.start += n_latents as i64;
        self.n_steps += 1;
    }
}

/// What an engine knows of each open stream, apart from its slot of the arena.
#[derive(Debug)]
pub(super) struct Slots<S> {
    streams: Vec<Option<(u64, S)>>,
    n_opened: u64,
    /// The check that saw each slot last.
    seen: Vec<u64>,
    n_checks: u64,
}

impl<S> Slots<S> {
    pub(super) fn new(n_streams: usize) -> Self {
        let streams = (0..n_streams).map(|_| None).collect();
        Self { streams, n_opened: 0, seen: vec![0; n_streams], n_checks: 0 }
    }

    /// Returns the slots without a stream.
    pub(super) fn free(&self) -> impl Iterator<Item = usize> {
        self.streams.iter().enumerate().filter(|(_, stream)| stream.is_none()).map(|(slot, _)| slot)
    }

    /// Returns a stream in the first free slot.
    pub(super) fn open(&mut self, stream: S) -> Result<StreamId> {
        let Some(slot) = self.free().next() else {
            let message = format!("engine: all {} streams are taken", self.streams.len());
            return Err(Error::invalid(message).with_hint("finish or close one, or make the engine larger"));
        };
        self.n_opened += 1;
        self.streams[slot] = Some((self.n_opened, stream));
        Ok(StreamId { slot, serial: self.n_opened })
    }

    pub(super) fn get(&self, id: StreamId) -> Result<&S> {
        match self.streams.get(id.slot) {
            Some(Some((serial, stream))) if *serial == id.serial => Ok(stream),
            _ => Err(ended(id)),
        }
    }

    pub(super) fn get_mut(&mut self, id: StreamId) -> Result<&mut S> {
        match self.streams.get_mut(id.slot) {
            Some(Some((serial, stream))) if *serial == id.serial => Ok(stream),
            _ => Err(ended(id)),
        }
    }

    /// Checks that every stream is open and given once.
    pub(super) fn check_each(&mut self, ids: impl IntoIterator<Item = StreamId>) -> Result<()> {
        self.n_checks += 1;
        for id in ids {
            self.get(id)?;
            if std::mem::replace(&mut self.seen[id.slot], self.n_checks) == self.n_checks {
                return Err(Error::invalid("engine: a stream is given twice in one step"));
            }
        }
        Ok(())
    }

    /// Frees the slot.
    pub(super) fn close(&mut self, id: StreamId) -> Result<()> {
        self.get(id)?;
        self.streams[id.slot] = None;
        Ok(())
    }
}

fn ended(id: StreamId) -> Error {
    Error::invalid(format!("engine: stream {} has ended", id.serial))
}
