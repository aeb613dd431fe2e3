//! The rows of a step: which token of which sequence each one is, and where its past lies.
//!
//! The cache of a layer has N pages of P tokens: `[N, 2, H, P, D]`, keys first, then values, for H
//! key heads of D channels. The token at position p of a sequence is number p mod P of the page
//! that stands at p div P in the sequence's list.

use std::ops::Range;

use super::numbers::Numbers;
use crate::device::cuda::Address;
use crate::{Budget, Device, Error, Queue, Result};

/// The sizes of a layer's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// N.
    pub n_pages: usize,
    /// P.
    pub page_len: usize,
    /// H.
    pub n_heads: usize,
    /// D.
    pub head_dim: usize,
}

impl CacheShape {
    /// Returns the floats of the cache.
    ///
    /// # Errors
    /// A size is 0, or the product overflows.
    pub fn n_floats(&self) -> Result<usize> {
        let sizes = [self.page_len, self.n_heads, self.head_dim];
        let len = sizes.into_iter().try_fold(self.n_pages, usize::checked_mul).and_then(|len| len.checked_mul(2));
        len.filter(|_| !sizes.contains(&0)).ok_or_else(|| Error::invalid(format!("{self:?} is not possible")))
    }

    /// Returns where the keys of a head of a page begin.
    pub(super) fn keys(&self, page: u32, head: usize) -> usize {
        (page as usize * 2 * self.n_heads + head) * self.page_len * self.head_dim
    }

    /// Returns where the values of a head of a page begin.
    pub(super) fn values(&self, page: u32, head: usize) -> usize {
        self.keys(page, self.n_heads + head)
    }
}

/// The rows of a step.
#[derive(Debug)]
pub struct Tokens {
    shape: CacheShape,
    rows: Vec<Row>,
    pages: Vec<u32>,
    /// For each row its position and the place of its first page in this list; then all pages. Empty until sent.
    sent: Numbers,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    position: usize,
    /// Where the pages of its sequence begin in the list of all.
    first_page: usize,
}

impl Tokens {
    /// Starts without rows, for caches of `shape` on `device`. What was sent moves when there are more than `most`
    /// rows, or a page occurs twice.
    ///
    /// # Errors
    /// No cache has this shape, or the budget or the device refuses.
    pub fn new(shape: CacheShape, most: usize, device: &Device, budget: &Budget) -> Result<Self> {
        shape.n_floats()?;
        let room = most.saturating_mul(2).saturating_add(shape.n_pages);
        Ok(Self { shape, rows: Vec::new(), pages: Vec::new(), sent: Numbers::new(device, room, budget)? })
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.pages.clear();
        self.sent.clear();
    }

    /// Adds the tokens at `positions` of a sequence with the given pages. Before kernels read them they are
    /// [sent](Tokens::send).
    ///
    /// # Errors
    /// A page does not exist, or there are too few for the positions.
    pub fn push(&mut self, pages: &[u32], positions: Range<usize>) -> Result<()> {
        let n_pages = positions.end.div_ceil(self.shape.page_len);
        let Some(pages) = pages.get(..n_pages) else {
            let message = format!("{} tokens need {n_pages} pages of the cache, got {}", positions.end, pages.len());
            return Err(Error::invalid(message));
        };
        if let Some(page) = pages.iter().find(|&&page| page as usize >= self.shape.n_pages) {
            return Err(Error::invalid(format!("page {page} of a cache of {}", self.shape.n_pages)));
        }
        self.sent.clear();
        let first_page = self.pages.len();
        self.pages.extend_from_slice(pages);
        self.rows.extend(positions.map(|position| Row { position, first_page }));
        Ok(())
    }

    /// Adds the last row again, `n` times.
    pub fn repeat_last(&mut self, n: usize) {
        self.sent.clear();
        if let Some(&last) = self.rows.last() {
            self.rows.resize(self.rows.len() + n, last);
        }
    }

    /// Copies the rows to the device. On the CPU they are where kernels read them.
    ///
    /// # Errors
    /// They are too many for a GPU, or the budget or the device refuses.
    pub fn send(&mut self, queue: &Queue) -> Result<()> {
        if matches!(queue, Queue::Cpu(_)) {
            return Ok(());
        }
        let first = 2 * self.rows.len();
        let too_many = || Error::invalid(format!("{} rows with {} pages", self.rows.len(), self.pages.len()));
        let word = |number: usize| u32::try_from(number).map_err(|_| too_many());
        let rows = self.rows.iter().map(|row| Ok([word(row.position)?, word(first + row.first_page)?]));
        let rows: Vec<_> = rows.collect::<Result<_>>()?;
        self.sent.clear();
        self.sent.extend(rows.into_iter().flatten().chain(self.pages.iter().copied()));
        self.sent.send(queue)
    }

    /// Returns the address of what was sent to a GPU.
    pub(super) fn address(&self) -> Result<Address> {
        self.sent.address()
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the shape of the caches.
    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Returns one more than the largest position.
    pub(super) fn end(&self) -> usize {
        self.rows.iter().map(|row| row.position + 1).max().unwrap_or(0)
    }

    /// Returns the position of row `row`.
    pub(super) fn position(&self, row: usize) -> usize {
        self.rows[row].position
    }

    /// Returns the pages that hold what row `row` sees: everything up to itself.
    pub(super) fn pages(&self, row: usize) -> &[u32] {
        let Row { position, first_page } = self.rows[row];
        &self.pages[first_page..][..position / self.shape.page_len + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_find_their_pages() {
        let shape = CacheShape { n_pages: 5, page_len: 4, n_heads: 3, head_dim: 2 };
        assert_eq!(shape.n_floats().unwrap(), 5 * 2 * 3 * 4 * 2);
        assert_eq!((shape.keys(1, 2), shape.values(1, 2)), (64, 88));
        let of = |shape| Tokens::new(shape, 8, &Device::cpu().unwrap(), &Budget::unlimited());
        let mut tokens = of(shape).unwrap();
        tokens.push(&[3, 1], 2..6).unwrap();
        tokens.push(&[4], 0..1).unwrap();
        assert_eq!((tokens.len(), tokens.end()), (5, 6));
        assert_eq!((tokens.pages(1), tokens.pages(2), tokens.pages(4)), (&[3][..], &[3, 1][..], &[4][..]));
        assert!(tokens.push(&[0], 3..5).unwrap_err().to_string().contains("5 tokens need 2 pages"));
        assert!(tokens.push(&[5], 0..1).unwrap_err().to_string().contains("page 5 of a cache of 5"));
        assert_eq!(tokens.len(), 5);
        tokens.repeat_last(2);
        assert_eq!((tokens.len(), tokens.position(6), tokens.pages(6)), (7, 0, &[4][..]));
        tokens.clear();
        tokens.repeat_last(2);
        assert!(tokens.is_empty());
        assert!(of(CacheShape { page_len: 0, ..shape }).is_err());
        assert!(of(CacheShape { n_pages: usize::MAX, ..shape }).is_err());
    }
}
