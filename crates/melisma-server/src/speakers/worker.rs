//! The thread that steps an ensemble.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use melisma::speak::{Ensemble, Member, Script};
use melisma::{Error, ErrorKind};
use tokio::sync::mpsc;

use super::{Shared, Utterance};
use crate::queue::Slot;

/// The thread's end of a client's text.
#[derive(Debug)]
pub(super) struct Listener {
    slot: Slot,
    said: mpsc::Sender<Utterance>,
}

pub(super) struct Worker {
    shared: Arc<Shared>,
    ensemble: Ensemble,
    listeners: BTreeMap<Member, Listener>,
    /// The changes that the last step knew of, if it did nothing.
    idle_since: Option<u64>,
}

impl Listener {
    pub(super) fn new(slot: Slot, said: mpsc::Sender<Utterance>) -> Self {
        Self { slot, said }
    }

    /// Returns whether a step would do something for it: it has room for what is said, or it is gone.
    fn is_due(&self) -> bool {
        self.said.capacity() > 0 || self.said.is_closed()
    }

    /// Sends the end. The slot is free before the client sees it.
    fn end(self, said: Utterance) {
        let Self { slot, said: sender } = self;
        drop(slot);
        // It fails only if the client has left.
        let _ = sender.try_send(said);
    }
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, ensemble: Ensemble) -> Self {
        Self { shared, ensemble, listeners: BTreeMap::new(), idle_since: None }
    }

    pub(super) fn run(mut self) {
        while let Some((joining, n_changes)) = self.wait() {
            for (script, listener) in joining {
                match self.ensemble.join(script) {
                    Ok(member) => drop(self.listeners.insert(member, listener)),
                    Err(error) => listener.end(Utterance::failed(error)),
                }
            }
            let gone = self.listeners.iter().filter(|(_, listener)| listener.said.is_closed());
            for member in gone.map(|(member, _)| *member).collect::<Vec<_>>() {
                self.ensemble.leave(member);
                self.listeners.remove(&member);
                self.shared.metrics.ended("client_left");
            }
            if !self.ensemble.is_empty() {
                self.step(n_changes);
            }
            self.shared.metrics.hold(self.ensemble.cache_bytes()[1]);
        }
    }

    /// Waits for something to do; `None` when the speakers are dropped.
    fn wait(&self) -> Option<(Vec<(Script, Listener)>, u64)> {
        let mut state = self.shared.state.lock();
        loop {
            if state.is_stopping {
                return None;
            }
            let is_new = self.idle_since != Some(state.n_changes);
            if !state.joining.is_empty() || (is_new && self.listeners.values().any(Listener::is_due)) {
                return Some((std::mem::take(&mut state.joining), state.n_changes));
            }
            state = self.shared.work.wait(state);
        }
    }

    fn step(&mut self, n_changes: u64) {
        let (listeners, start) = (&self.listeners, Instant::now());
        let is_ready = |member: Member| listeners.get(&member).is_some_and(|listener| listener.said.capacity() > 0);
        let step = match self.ensemble.step(is_ready) {
            Ok(step) => step,
            Err(error) => return self.fail(&error),
        };
        self.shared.is_lost.store(false, Relaxed);
        self.shared.metrics.step(&step, start.elapsed());
        // Texts may wait for room in the cache that others hold whose clients take nothing.
        let is_idle = step.n_tokens == 0 && !step.has_prompt && step.said.is_empty();
        self.idle_since = is_idle.then_some(n_changes);
        for said in step.said {
            let member = said.member;
            let said = Utterance::from(said);
            let Some(end) = &said.end else {
                // There is room, unless the client has left.
                if let Some(listener) = self.listeners.get(&member) {
                    let _ = listener.said.try_send(said);
                }
                continue;
            };
            self.shared.metrics.ended(if end.is_ok() { "done" } else { "failed" });
            if let Some(listener) = self.listeners.remove(&member) {
                listener.end(said);
            }
        }
    }

    /// Ends all texts after a failure of the device.
    fn fail(&mut self, error: &Error) {
        self.shared.is_lost.fetch_or(error.kind() == ErrorKind::Device, Relaxed);
        for listener in std::mem::take(&mut self.listeners).into_values() {
            self.shared.metrics.ended("failed");
            listener.end(Utterance::failed(Error::new(error.kind(), error.to_string())));
        }
    }
}

/// Fails all texts, also after a panic, so that no client waits for a thread that is gone.
impl Drop for Worker {
    fn drop(&mut self) {
        let joining = {
            let mut state = self.shared.state.lock();
            state.is_stopping = true;
            std::mem::take(&mut state.joining)
        };
        let stopping = || Utterance::failed(Error::unsupported("the server is stopping"));
        joining.into_iter().for_each(|(_, listener)| listener.end(stopping()));
        std::mem::take(&mut self.listeners).into_values().for_each(|listener| listener.end(stopping()));
    }
}
