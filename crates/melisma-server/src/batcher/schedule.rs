//! Which streams share the next step: earliest deadline first.
//!
//! A frame is due one frame period after it arrives, or after the frame before it was due, whichever
//! is later. A stream at real-time pace is thus due one period after each arrival, while a stream
//! that arrives all at once is due at the pace at which it will be played, and only uses time that
//! live streams leave over. Time is an argument: tests simulate it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Names a stream of a schedule.
pub type Key = u64;

/// The streams of one device and their waiting frames.
#[derive(Debug)]
pub struct Schedule<T> {
    period: Duration,
    queues: BTreeMap<Key, StreamQueue<T>>,
    /// The streams that can take a step, by the time at which their next frame is due.
    ready: BTreeSet<(Duration, Key)>,
    account: Account,
}

/// All frames that a schedule has seen. `pushed` = `taken` + `discarded` + the frames that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Frames that arrived.
    pub pushed: u64,
    /// Frames that became part of a step.
    pub taken: u64,
    /// Frames of streams that were closed before their turn.
    pub discarded: u64,
}

/// Work for a device.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The same number of frames of each of some streams.
    Frames(Vec<Row<T>>),
    /// The ends of some streams, which are closed in the schedule.
    Ends(Vec<Key>),
}

/// One stream's part of a step.
#[derive(Debug, PartialEq, Eq)]
pub struct Row<T> {
    /// The stream.
    pub key: Key,
    /// Its frames, in the order of their arrival.
    pub frames: Vec<Due<T>>,
}

/// A frame and the time at which its samples are due.
#[derive(Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// The time since the schedule's start.
    pub at: Duration,
    /// The frame.
    pub frame: T,
}

#[derive(Debug)]
struct StreamQueue<T> {
    waiting: VecDeque<Due<T>>,
    /// When the newest frame is due.
    last: Duration,
    /// When the end is due, once it is known.
    end: Option<Duration>,
    is_blocked: bool,
}

impl<T> StreamQueue<T> {
    /// Returns when the stream's next step is due, if it can take one.
    fn due(&self) -> Option<Duration> {
        let next = self.waiting.front().map(|due| due.at).or(self.end);
        next.filter(|_| !self.is_blocked)
    }
}

impl<T> Schedule<T> {
    /// Creates a schedule for frames of `period`.
    pub fn new(period: Duration) -> Self {
        Self { period, queues: BTreeMap::new(), ready: BTreeSet::new(), account: Account::default() }
    }

    /// Adds a stream. `key` must be new.
    pub fn open(&mut self, key: Key) {
        let queue = StreamQueue { waiting: VecDeque::new(), last: Duration::ZERO, end: None, is_blocked: false };
        self.queues.insert(key, queue);
    }

    /// Adds a frame that arrives at `now`. Frames of unknown streams, and frames after the end, are
    /// discarded.
    pub fn push(&mut self, key: Key, now: Duration, frame: T) {
        self.account.pushed += 1;
        let period = self.period;
        let is_taken = self.change(key, |queue| {
            if queue.end.is_none() {
                queue.last = queue.last.max(now) + period;
                queue.waiting.push_back(Due { at: queue.last, frame });
            }
            queue.end.is_none()
        });
        if is_taken != Some(true) {
            self.account.discarded += 1;
        }
    }

    /// Marks the end of a stream.
    pub fn end(&mut self, key: Key, now: Duration) {
        let period = self.period;
        self.change(key, |queue| {
            queue.end.get_or_insert(queue.last.max(now) + period);
        });
    }

    /// Removes a stream and its waiting frames.
    pub fn close(&mut self, key: Key) {
        self.change(key, |queue| queue.is_blocked = true);
        if let Some(queue) = self.queues.remove(&key) {
            self.account.discarded += queue.waiting.len() as u64;
        }
    }

    /// Skips a stream until [`Schedule::unblock`], because its samples have nowhere to go.
    pub fn block(&mut self, key: Key) {
        self.change(key, |queue| queue.is_blocked = true);
    }

    /// Lets a stream take steps again.
    pub fn unblock(&mut self, key: Key) {
        self.change(key, |queue| queue.is_blocked = false);
    }

    /// Returns the next step, of at most `max_frames` frames in all: the most urgent stream, and those that are
    /// due at most one period later. A stream that is further ahead would only make the step longer.
    pub fn next(&mut self, max_frames: usize) -> Option<Step<T>> {
        let (due, first) = *self.ready.first()?;
        let is_end = |key: &Key| self.queues[key].waiting.is_empty();
        let near = self.ready.iter().take_while(|(other, _)| *other <= due + self.period).map(|&(_, key)| key);
        let alike = near.filter(|key| is_end(key) == is_end(&first));
        let keys: Vec<Key> = alike.take(max_frames.max(1)).collect();
        if is_end(&first) {
            keys.iter().for_each(|key| self.close(*key));
            return Some(Step::Ends(keys));
        }
        let shortest = keys.iter().map(|key| self.queues[key].waiting.len()).min().unwrap_or(0);
        let n_each = shortest.min((max_frames / keys.len()).max(1));
        self.account.taken += (n_each * keys.len()) as u64;
        let row = |key| Row {
            key,
            frames: self.change(key, |queue| queue.waiting.drain(..n_each).collect()).unwrap_or_default(),
        };
        Some(Step::Frames(keys.into_iter().map(row).collect()))
    }

    /// Returns the counts of all frames so far.
    pub fn account(&self) -> Account {
        self.account
    }

    /// Returns the frames that wait.
    pub fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.waiting.len()).sum()
    }

    /// Changes a stream and keeps `ready` true to it.
    fn change<R>(&mut self, key: Key, change: impl FnOnce(&mut StreamQueue<T>) -> R) -> Option<R> {
        let queue = self.queues.get_mut(&key)?;
        let before = queue.due();
        let result = change(queue);
        let after = queue.due();
        if before != after {
            before.map(|due| self.ready.remove(&(due, key)));
            after.map(|due| self.ready.insert((due, key)));
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests;
