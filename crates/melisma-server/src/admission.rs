//! Admission control: a fixed number of permits, acquired without waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Hands out a limited number of permits. Clones share them.
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

/// Counts against the limit until it is dropped.
#[derive(Debug)]
pub struct Permit {
    inner: Arc<Inner>,
}

impl Admission {
    /// Creates `limit` permits.
    pub fn new(limit: usize) -> Self {
        Self { inner: Arc::new(Inner { limit, taken: AtomicUsize::new(0), refused: AtomicUsize::new(0) }) }
    }

    /// Returns a permit, or `None` if all are in use.
    pub fn try_acquire(&self) -> Option<Permit> {
        let more = |taken: usize| (taken < self.inner.limit).then_some(taken + 1);
        match self.inner.taken.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Some(Permit { inner: Arc::clone(&self.inner) }),
            Err(_) => {
                self.inner.refused.fetch_add(1, Relaxed);
                None
            }
        }
    }

    /// Returns the number of permits.
    pub fn limit(&self) -> usize {
        self.inner.limit
    }

    /// Returns the number of permits in use.
    pub fn in_use(&self) -> usize {
        self.inner.taken.load(Relaxed)
    }

    /// Returns whether all permits are in use.
    pub fn is_full(&self) -> bool {
        self.in_use() >= self.limit()
    }

    /// Returns how often a permit was refused.
    pub fn refused(&self) -> usize {
        self.inner.refused.load(Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.inner.taken.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_come_back() {
        let admission = Admission::new(2);
        let first = admission.try_acquire();
        assert!(!admission.is_full());
        let second = admission.try_acquire();
        assert!(first.is_some() && second.is_some());
        assert!(admission.is_full() && admission.try_acquire().is_none());
        assert_eq!((admission.in_use(), admission.refused()), (2, 1));
        drop(first);
        assert!(admission.try_acquire().is_some());
    }
}
