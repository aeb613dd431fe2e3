//! The slots of a batcher, and the queue of requests that wait for one.
//!
//! A [`SlotQueue`] hands out a limited number of [`Slot`]s in order of arrival. A request that finds none waits as long
//! as it likes to, leaves the queue when its future is dropped, and is refused at once if the expected wait is longer.
//! The expectation comes from the times that slots were held lately.

mod forecast;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::lock::Mutex;
use tokio::sync::oneshot;

use forecast::Services;

/// Hands out a limited number of slots. Clones share them.
#[derive(Debug, Clone)]
pub struct SlotQueue {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Slots and waiting requests so far; each has a number.
    n_numbers: u64,
    /// When each slot was taken.
    held: BTreeMap<u64, Instant>,
    /// The first has waited longest.
    waiting: BTreeMap<u64, oneshot::Sender<Slot>>,
    services: Services,
    n_refused: usize,
}

/// One stream's slot, free again when it is dropped.
#[derive(Debug)]
pub struct Slot {
    state: Arc<Mutex<State>>,
    number: u64,
}

/// What a request gets.
#[derive(Debug)]
pub enum Entry {
    /// A slot.
    Slot(Slot),
    /// A position in the queue.
    Waiting(Waiting),
    /// Nothing: the expected wait is longer than the request would wait.
    Refused {
        /// The expected wait.
        wait: Duration,
    },
}

/// A request in the queue; it leaves when this is dropped.
#[derive(Debug)]
pub struct Waiting {
    state: Arc<Mutex<State>>,
    number: u64,
    slot: oneshot::Receiver<Slot>,
}

impl SlotQueue {
    /// Creates `limit` slots.
    pub fn new(limit: usize) -> Self {
        let state = State {
            limit,
            n_numbers: 0,
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            services: Services::default(),
            n_refused: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns a slot, or `None` if all are in use or others wait for one.
    pub fn try_acquire(&self) -> Option<Slot> {
        match self.enter(Duration::ZERO) {
            Entry::Slot(slot) => Some(slot),
            _ => None,
        }
    }

    /// Returns a slot, or a position in the queue if the expected wait is at most `longest`.
    pub fn enter(&self, longest: Duration) -> Entry {
        let mut state = self.state.lock();
        if state.is_open() {
            let number = state.take();
            return Entry::Slot(Slot { state: Arc::clone(&self.state), number });
        }
        if let Some(wait) = state.refusal(longest) {
            state.n_refused += 1;
            return Entry::Refused { wait };
        }
        let number = state.number();
        let (sender, slot) = oneshot::channel();
        state.waiting.insert(number, sender);
        Entry::Waiting(Waiting { state: Arc::clone(&self.state), number, slot })
    }

    /// Returns the expected wait of a request that would be refused now, because it would not wait that long.
    pub fn refusal(&self, longest: Duration) -> Option<Duration> {
        self.state.lock().refusal(longest)
    }

    /// Returns how long a request that comes now is expected to wait.
    pub fn forecast(&self) -> Duration {
        self.state.lock().forecast()
    }

    /// Returns the number of slots.
    pub fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// Changes the number of slots. Those in use stay; if they are more, the next ones are not handed out again.
    pub fn set_limit(&self, limit: usize) {
        self.state.lock().limit = limit;
        hand_out(&self.state);
    }

    /// Returns the number of slots in use.
    pub fn in_use(&self) -> usize {
        self.state.lock().held.len()
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Returns the share of the slots in use, and 1 while a request waits.
    pub fn load(&self) -> f64 {
        let state = self.state.lock();
        match state.is_open() {
            true => state.held.len() as f64 / state.limit as f64,
            false => 1.0,
        }
    }

    /// Returns how many requests were refused, at once or after they had waited.
    pub fn refused(&self) -> usize {
        self.state.lock().n_refused
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.n_numbers += 1;
        self.n_numbers
    }

    fn has_room(&self) -> bool {
        self.held.len() < self.limit
    }

    /// Returns whether a request gets a slot at once.
    fn is_open(&self) -> bool {
        self.has_room() && self.waiting.is_empty()
    }

    fn refusal(&self, longest: Duration) -> Option<Duration> {
        let wait = self.forecast();
        (!self.is_open() && (longest.is_zero() || wait > longest)).then_some(wait)
    }

    /// Takes a slot and returns its number.
    fn take(&mut self) -> u64 {
        let number = self.number();
        self.held.insert(number, Instant::now());
        number
    }

    fn forecast(&self) -> Duration {
        let now = Instant::now();
        let ages = self.held.values().map(|taken| now.saturating_duration_since(*taken)).collect();
        self.services.forecast(ages, self.limit, self.waiting.len())
    }
}

/// Gives free slots to the requests that have waited longest.
fn hand_out(state: &Arc<Mutex<State>>) {
    loop {
        let (sender, slot) = {
            let mut open = state.lock();
            if !open.has_room() {
                return;
            }
            let Some((_, sender)) = open.waiting.pop_first() else { return };
            (sender, Slot { state: Arc::clone(state), number: open.take() })
        };
        // The request may leave at this moment: then its slot goes to the next one.
        if let Err(slot) = sender.send(slot) {
            slot.take_back();
        }
    }
}

impl Slot {
    /// Frees a slot that nobody used, which says nothing about the time that slots are held. The caller hands it out.
    fn take_back(self) {
        self.state.lock().held.remove(&self.number);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut state = self.state.lock();
            // It is gone if it was taken back.
            let Some(taken) = state.held.remove(&self.number) else { return };
            state.services.push(taken.elapsed());
        }
        hand_out(&self.state);
    }
}

impl Waiting {
    /// Waits for the slot.
    pub async fn slot(&mut self) -> Option<Slot> {
        // The sender stays in the queue until it has sent, so this is `None` only if it is called again.
        (&mut self.slot).await.ok()
    }

    /// Leaves the queue because the wait became too long.
    pub fn give_up(self) {
        self.state.lock().n_refused += 1;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.state.lock().waiting.remove(&self.number);
        self.slot.close();
        if let Ok(slot) = self.slot.try_recv() {
            slot.take_back();
            hand_out(&self.state);
        }
    }
}

#[cfg(test)]
mod tests;
