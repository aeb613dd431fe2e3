//! How long a request waits, from the times that slots were held lately.
//!
//! A slot that has been held for a time `a` is expected to be held as long as those of the recent ones that were held
//! longer than `a`, on average. If none was, or none is known, it is expected to be held as long again: so a server
//! whose slots all belong to hour-long streams refuses at once, and one that has just started lets requests wait.
//! Each request ahead then holds a slot for the mean of the recent times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// Times that count.
const N_RECENT: usize = 64;

/// The times that slots were held lately.
#[derive(Debug, Default)]
pub(super) struct Services {
    recent: VecDeque<Duration>,
}

impl Services {
    /// Adds the time of a slot that is free again.
    pub(super) fn push(&mut self, time: Duration) {
        if self.recent.len() == N_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(time);
    }

    /// Returns the wait of a request behind `n_ahead` others for one of `n_slots` slots, of which some are held since
    /// `ages`.
    pub(super) fn forecast(&self, ages: Vec<Duration>, n_slots: usize, n_ahead: usize) -> Duration {
        let mean = |times: &[Duration]| times.iter().sum::<Duration>() / times.len().max(1) as u32;
        let mut recent: Vec<Duration> = self.recent.iter().copied().collect();
        recent.sort_unstable();
        let service = mean(if recent.is_empty() { &ages } else { &recent });
        let remaining = |age: Duration| match &recent[recent.partition_point(|time| *time <= age)..] {
            [] => age,
            longer => mean(longer).saturating_sub(age),
        };
        let n_free = n_slots.saturating_sub(ages.len());
        let n_surplus = ages.len().saturating_sub(n_slots);
        let mut free_at: Vec<Duration> = vec![Duration::ZERO; n_free];
        free_at.extend(ages.into_iter().map(remaining));
        free_at.sort_unstable();
        // Slots beyond the limit are not handed out again.
        let mut free_at: BinaryHeap<_> = free_at.into_iter().skip(n_surplus).map(Reverse).collect();
        for _ in 0..n_ahead {
            if let Some(Reverse(at)) = free_at.pop() {
                free_at.push(Reverse(at + service));
            }
        }
        free_at.peek().map_or(Duration::MAX, |Reverse(at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn services(times: &[u32]) -> Services {
        let mut services = Services::default();
        times.iter().for_each(|n| services.push(SECOND * *n));
        services
    }

    #[test]
    fn a_free_slot_means_no_wait() {
        assert_eq!(services(&[]).forecast(vec![SECOND], 2, 0), Duration::ZERO);
        assert_eq!(services(&[4]).forecast(vec![SECOND], 2, 1), 3 * SECOND);
    }

    #[test]
    fn slots_are_held_as_long_as_lately() {
        let services = services(&[4, 4, 4]);
        let ages = vec![SECOND, 3 * SECOND];
        assert_eq!(services.forecast(ages.clone(), 2, 0), SECOND);
        assert_eq!(services.forecast(ages.clone(), 2, 1), 3 * SECOND);
        assert_eq!(services.forecast(ages.clone(), 2, 2), 5 * SECOND);
        assert_eq!(services.forecast(ages, 2, 3), 7 * SECOND);
    }

    #[test]
    fn a_slot_that_is_held_longer_than_any_is_held_as_long_again() {
        assert_eq!(services(&[]).forecast(vec![600 * SECOND], 1, 0), 600 * SECOND);
        assert_eq!(services(&[1, 2]).forecast(vec![7 * SECOND], 1, 0), 7 * SECOND);
        assert_eq!(services(&[1, 9]).forecast(vec![7 * SECOND], 1, 0), 2 * SECOND);
    }

    #[test]
    fn slots_beyond_a_lowered_limit_are_not_handed_out() {
        assert_eq!(services(&[10]).forecast(vec![9 * SECOND, 4 * SECOND, 8 * SECOND], 1, 0), 6 * SECOND);
        assert_eq!(services(&[10]).forecast(vec![SECOND], 0, 0), Duration::MAX);
    }

    #[test]
    fn only_recent_times_count() {
        let mut services = services(&[100]);
        (0..N_RECENT).for_each(|_| services.push(SECOND));
        assert_eq!(services.forecast(vec![Duration::ZERO], 1, 0), SECOND);
    }
}
