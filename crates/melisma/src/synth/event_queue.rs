//! Events that wait for their sample.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::{Action, Event};
use crate::{Error, Result};

/// The earliest event first; events of one sample in the order in which they came. Never grows beyond its size.
#[derive(Debug)]
pub(super) struct EventQueue {
    waiting: BinaryHeap<Reverse<Waiting>>,
    most: usize,
    n_pushed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    at: u64,
    number: u64,
    action: Action,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl EventQueue {
    pub(super) fn new(most: usize) -> Self {
        Self { waiting: BinaryHeap::with_capacity(most), most, n_pushed: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, event: Event) -> Result<()> {
        if self.waiting.len() == self.most {
            return Err(Error::invalid(format!("more than max_events = {} events wait", self.most))
                .with_hint("push events as they come near, or raise max_events"));
        }
        self.waiting.push(Reverse(Waiting { at: event.at, number: self.n_pushed, action: event.action }));
        self.n_pushed += 1;
        Ok(())
    }

    /// Returns the sample of the next event.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse(next)| next.at)
    }

    /// Takes the next event, if it is due at sample `now` or before.
    pub(super) fn next_until(&mut self, now: u64) -> Option<Action> {
        self.waiting.peek().filter(|Reverse(next)| next.at <= now)?;
        self.waiting.pop().map(|Reverse(next)| next.action)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.n_pushed = 0;
    }
}
