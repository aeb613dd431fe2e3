//! Concurrent writes of several tasks into one slice.

use std::marker::PhantomData;
use std::ops::Range;

/// A slice that the tasks of a queue write concurrently, each to its own part.
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: threads reach elements only through `part`, `get` and `pointer`, whose callers promise
// that no two threads access the same element.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData }
    }

    /// Returns the elements of `range`.
    ///
    /// # Safety
    /// Nothing else refers to one of these elements while the part is alive.
    ///
    /// # Panics
    /// The range is not within the slice.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint; see Safety")]
    #[inline]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: the range is within the slice, which is borrowed for 'a; the caller promises that nothing else refers
        // to it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// Returns element `index`.
    ///
    /// # Safety
    /// Nothing else refers to it while the reference is alive.
    ///
    /// # Panics
    /// The slice has no such element.
    #[expect(clippy::mut_from_ref, reason = "the elements are disjoint; see Safety")]
    #[inline]
    pub(crate) unsafe fn get(&self, index: usize) -> &mut T {
        assert!(index < self.len, "{index} of {}", self.len);
        // SAFETY: the element is within the slice, which is borrowed for 'a; the caller promises that nothing else refers
        // to it.
        unsafe { &mut *self.start.add(index) }
    }

    /// Returns a pointer to element `index`. Accesses through it must stay within the slice and
    /// must not overlap with those of other tasks.
    ///
    /// # Panics
    /// The slice has fewer than `index` elements.
    #[inline]
    pub(crate) fn pointer(&self, index: usize) -> *mut T {
        assert!(index <= self.len, "{index} of {}", self.len);
        // SAFETY: at most one past the end of the slice.
        unsafe { self.start.add(index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_slice() {
        let mut values = [0; 10];
        let shared = Disjoint::new(&mut values);
        std::thread::scope(|scope| {
            for part in 0..5 {
                let shared = &shared;
                // SAFETY: every thread has its own two elements.
                scope.spawn(move || unsafe { shared.part(2 * part..2 * part + 2) }.fill(part));
            }
        });
        assert_eq!(values, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    #[should_panic(expected = "3..5 of 4")]
    fn a_part_beyond_the_end_panics() {
        let mut values = [0; 4];
        let shared = Disjoint::new(&mut values);
        // SAFETY: there is only one part.
        let _ = unsafe { shared.part(3..5) };
    }
}
