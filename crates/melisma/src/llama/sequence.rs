//! Sequences and the pages of the cache that they hold.

use crate::{Error, Result};

/// A sequence of a [`Batch`](super::Batch), until it is [closed](super::Batch::close).
#[derive(Debug, PartialEq, Eq)]
pub struct Sequence(usize);

/// The pages of a cache, and which sequence has which.
#[derive(Debug)]
pub(super) struct Sequences {
    page_len: usize,
    free: Vec<u32>,
    open: Vec<Option<Past>>,
}

/// What a sequence has in the cache.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Its tokens.
    pub(super) len: usize,
    pub(super) pages: Vec<u32>,
}

impl Sequences {
    pub(super) fn new(n_pages: u32, page_len: usize) -> Self {
        Self { page_len, free: (0..n_pages).rev().collect(), open: Vec::new() }
    }

    /// Opens an empty sequence.
    pub(super) fn open(&mut self) -> Sequence {
        let place = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
        if place == self.open.len() {
            self.open.push(None);
        }
        self.open[place] = Some(Past::default());
        Sequence(place)
    }

    /// Takes the pages of a sequence back.
    pub(super) fn close(&mut self, sequence: Sequence) {
        if let Some(past) = self.open.get_mut(sequence.0).and_then(Option::take) {
            self.free.extend(past.pages);
        }
    }

    pub(super) fn get(&self, sequence: &Sequence) -> Result<&Past> {
        let past = self.open.get(sequence.0).and_then(Option::as_ref);
        past.ok_or_else(|| Error::invalid("the sequence belongs to another batch"))
    }

    /// Returns the number of tokens that the free pages hold.
    pub(super) fn room(&self) -> usize {
        self.free.len() * self.page_len
    }

    /// Gives each sequence the pages for so many more tokens; all of them, or none if there are too few.
    pub(super) fn reserve(&mut self, wanted: &[(&Sequence, usize)]) -> Result<()> {
        let mut n_missing = Vec::with_capacity(wanted.len());
        for (sequence, n_tokens) in wanted {
            let past = self.get(sequence)?;
            let n_pages = past.len.saturating_add(*n_tokens).div_ceil(self.page_len);
            n_missing.push(n_pages.saturating_sub(past.pages.len()));
        }
        let n_all = n_missing.iter().fold(0, |sum: usize, n| sum.saturating_add(*n));
        if n_all > self.free.len() {
            let (free, len) = (self.free.len(), self.page_len);
            return Err(Error::new(
                crate::ErrorKind::Memory,
                format!("the cache has {free} free pages of {len} tokens; this step needs {n_all}"),
            )
            .with_hint("open the batch with a larger cache, or close sequences"));
        }
        for ((sequence, _), n) in wanted.iter().zip(n_missing) {
            if let Some(past) = self.open[sequence.0].as_mut() {
                past.pages.extend(self.free.drain(self.free.len() - n..).rev());
            }
        }
        Ok(())
    }

    /// Counts tokens that are now in the cache.
    pub(super) fn advance(&mut self, sequence: &Sequence, n_tokens: usize) {
        if let Some(past) = self.open.get_mut(sequence.0).and_then(Option::as_mut) {
            past.len += n_tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back() {
        let mut sequences = Sequences::new(4, 8);
        let (a, b) = (sequences.open(), sequences.open());
        sequences.reserve(&[(&a, 9), (&b, 1)]).unwrap();
        sequences.advance(&a, 9);
        assert_eq!((sequences.get(&a).unwrap().pages.clone(), sequences.room()), (vec![0, 1], 8));
        sequences.reserve(&[(&a, 7)]).unwrap();
        assert_eq!(sequences.room(), 8);
        let refused = sequences.reserve(&[(&a, 8), (&b, 9)]).unwrap_err();
        assert!(refused.to_string().contains("1 free pages of 8 tokens; this step needs 2"), "{refused}");
        assert_eq!(sequences.room(), 8);
        sequences.close(a);
        assert_eq!(sequences.room(), 24);
        assert_eq!(sequences.open(), Sequence(0));
        assert!(sequences.get(&Sequence(7)).is_err());
    }
}
