//! The length of a union of time intervals, in bounded memory.

const MAX_INTERVALS: usize = 1_000_000;

/// Intervals in nanoseconds; overlapping ones are merged occasionally.
#[derive(Debug, Clone, Default)]
pub struct Busy {
    intervals: Vec<(u64, u64)>,
    joined: usize,
    lost: u64,
}

impl Busy {
    /// Adds the interval from `start` to `end`.
    pub fn add(&mut self, start: u64, end: u64) {
        if self.intervals.len() >= (2 * self.joined).max(1 << 12) {
            self.join();
        }
        if self.intervals.len() < MAX_INTERVALS {
            self.intervals.push((start, end.max(start)));
        } else {
            self.lost += 1;
        }
    }

    /// Returns the nanoseconds covered.
    pub fn covered(&mut self) -> u64 {
        self.join();
        self.intervals.iter().map(|(start, end)| end - start).sum()
    }

    /// Returns whether intervals were lost, so that the result is a lower bound.
    pub fn is_partial(&self) -> bool {
        self.lost > 0
    }

    fn join(&mut self) {
        self.intervals.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (start, end) in self.intervals.drain(..) {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        self.joined = joined.len();
        self.intervals = joined;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_once() {
        let mut busy = Busy::default();
        for (start, end) in [(10, 20), (0, 5), (15, 30), (16, 17), (30, 31)] {
            busy.add(start, end);
        }
        assert_eq!(busy.covered(), 26);
    }

    #[test]
    fn many_nested_intervals_stay_small() {
        let mut busy = Busy::default();
        (0..100_000).for_each(|i| busy.add(i, i + 10));
        assert_eq!(busy.covered(), 100_009);
        assert_eq!(busy.intervals.len(), 1);
        assert!(!busy.is_partial());
    }
}
