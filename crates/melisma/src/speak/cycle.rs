//! A language model that says the same over and over.

use std::collections::VecDeque;

/// The longest cycle of frames that is looked for, about two seconds.
const MAX_PERIOD: usize = 24;

/// Watches frames for cycles.
#[derive(Debug)]
pub struct CycleDetector {
    /// The last frames, the newest first.
    past: VecDeque<Vec<i32>>,
    /// For each period, how many frames in a row equalled the one so long before.
    runs: [usize; MAX_PERIOD],
    limit: usize,
}

impl CycleDetector {
    /// Creates a watch that allows fewer than `limit` frames that repeat those before.
    pub fn new(limit: usize) -> Self {
        Self { past: VecDeque::new(), runs: [0; MAX_PERIOD], limit }
    }

    /// Takes the next frame. Returns whether `limit` frames have repeated a cycle.
    pub fn push(&mut self, frame: &[i32]) -> bool {
        for (index, run) in self.runs.iter_mut().enumerate() {
            let is_same = self.past.get(index).is_some_and(|past| past == frame);
            *run = if is_same { *run + 1 } else { 0 };
        }
        self.past.push_front(frame.to_vec());
        self.past.truncate(MAX_PERIOD);
        self.runs.iter().any(|run| *run >= self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many frames a sequence is found to repeat.
    fn found(frames: impl IntoIterator<Item = i32>, limit: usize) -> Option<usize> {
        let mut repeats = CycleDetector::new(limit);
        frames.into_iter().position(|frame| repeats.push(&[frame; 7])).map(|index| index + 1)
    }

    #[test]
    fn cycles_of_any_short_length_are_found() {
        assert_eq!(found(std::iter::repeat_n(5, 200), 58), Some(59));
        assert_eq!(found((0..200).map(|n| n % 3), 58), Some(61));
        assert_eq!(found((0..200).map(|n| n % 24), 58), Some(82));
        assert_eq!(found((0..200).map(|n| if n < 20 { -n - 1 } else { n % 5 }), 58), Some(20 + 5 + 58));
    }

    #[test]
    fn speech_is_no_cycle() {
        assert_eq!(found(0..1000, 58), None);
        assert_eq!(found((0..1000).map(|n| n % 25), 58), None);
        assert_eq!(found((0..1000).map(|n| if n % 50 == 0 { n } else { 3 }), 58), None);
    }
}
