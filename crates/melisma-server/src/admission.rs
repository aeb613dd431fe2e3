//! A fixed number of places, taken without waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Hands out places until all are taken. Clones share the places.
#[derive(Debug, Clone)]
pub struct Admission {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: usize,
    taken: AtomicUsize,
    refused: AtomicUsize,
}

/// A place, free again when dropped.
#[derive(Debug)]
pub struct Place {
    inner: Arc<Inner>,
}

impl Admission {
    /// `limit` places, all free.
    pub fn new(limit: usize) -> Self {
        Self { inner: Arc::new(Inner { limit, taken: AtomicUsize::new(0), refused: AtomicUsize::new(0) }) }
    }

    /// A place, or `None` if all are taken.
    pub fn enter(&self) -> Option<Place> {
        let more = |taken: usize| (taken < self.inner.limit).then_some(taken + 1);
        match self.inner.taken.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Some(Place { inner: Arc::clone(&self.inner) }),
            Err(_) => {
                self.inner.refused.fetch_add(1, Relaxed);
                None
            }
        }
    }

    /// All places.
    pub fn limit(&self) -> usize {
        self.inner.limit
    }

    /// Places in use.
    pub fn taken(&self) -> usize {
        self.inner.taken.load(Relaxed)
    }

    /// Whether no place is free.
    pub fn is_full(&self) -> bool {
        self.taken() >= self.limit()
    }

    /// How often no place was free.
    pub fn refused(&self) -> usize {
        self.inner.refused.load(Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.taken.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let admission = Admission::new(2);
        let first = admission.enter();
        assert!(!admission.is_full());
        let second = admission.enter();
        assert!(first.is_some() && second.is_some());
        assert!(admission.is_full() && admission.enter().is_none());
        assert_eq!((admission.taken(), admission.refused()), (2, 1));
        drop(first);
        assert!(admission.enter().is_some());
    }
}
