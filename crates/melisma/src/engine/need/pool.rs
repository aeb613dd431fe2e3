//! Simulates the buffers of the embedded engine without allocating them: a free buffer is reused
//! for values that fit, and all buffers live until the run ends.

use std::collections::{BTreeMap, HashMap};

/// Buffers by the value that they hold.
#[derive(Debug, Default)]
pub(super) struct Pool<'m> {
    held: HashMap<&'m str, u64>,
    /// Number of free buffers of each size.
    spare: BTreeMap<u64, usize>,
    total: u64,
}

impl<'m> Pool<'m> {
    /// Takes a buffer for `name`.
    pub fn take(&mut self, name: &'m str, bytes: u64) {
        let buffer = self.buffer(bytes);
        self.held.insert(name, buffer);
    }

    /// Takes a buffer for the duration of one operator.
    pub fn borrow(&mut self, bytes: u64) {
        if bytes > 0 {
            let buffer = self.buffer(bytes);
            *self.spare.entry(buffer).or_default() += 1;
        }
    }

    /// Moves the buffer of `from` to the value `to`, if it is large enough.
    pub fn hand_over(&mut self, from: &str, to: &'m str, bytes: u64) -> bool {
        match self.held.get(from) {
            Some(&buffer) if buffer >= bytes => {
                self.held.remove(from);
                self.held.insert(to, buffer);
                true
            }
            _ => false,
        }
    }

    /// Frees the buffer of a value that is not read again.
    pub fn give_back(&mut self, name: &str) {
        if let Some(buffer) = self.held.remove(name) {
            *self.spare.entry(buffer).or_default() += 1;
        }
    }

    /// Returns the total bytes of all buffers.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn buffer(&mut self, bytes: u64) -> u64 {
        let Some((&buffer, count)) = self.spare.range_mut(bytes..).next() else {
            self.total = self.total.saturating_add(bytes);
            return bytes;
        };
        *count -= 1;
        if *count == 0 {
            self.spare.remove(&buffer);
        }
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_buffer_is_used_again() {
        let mut pool = Pool::default();
        pool.take("a", 100);
        pool.take("b", 50);
        pool.give_back("a");
        pool.take("c", 80);
        assert_eq!(pool.total(), 150, "in the buffer of a");
        assert!(pool.hand_over("c", "d", 90) && !pool.hand_over("b", "e", 60));
        pool.borrow(60);
        pool.take("f", 60);
        assert_eq!(pool.total(), 210, "what an operator borrowed is free after it");
    }
}
