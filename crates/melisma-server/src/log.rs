//! One JSON object for each event, written by a thread of its own.
//!
//! If the reader of the events stops reading, writing blocks. The server never waits for it: events go
//! into a queue, and when it is full they are counted and dropped.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use melisma::Result;
use melisma::lock::{Condvar, Mutex};
use melisma::runtime::thread;
use serde_json::{Value, json};

use crate::metrics::Metrics;

/// Lines that wait to be written.
const MAX_LINES: usize = 1024;
/// How long the end of the server waits for the lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Log of events. Clones share the queue.
#[derive(Clone, Default)]
pub struct Log {
    shared: Option<Arc<Shared>>,
}

/// Closes the queue when the last [`Log`] is dropped.
struct Shared {
    queue: Arc<Queue>,
}

struct Queue {
    write: Box<dyn Fn(&str) + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
    metrics: OnceLock<Arc<Metrics>>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// Dropped events that were not reported yet.
    n_dropped: u64,
    is_writing: bool,
    is_closed: bool,
}

impl Log {
    /// Calls `write` for each line, in the order of the lines.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let (write, state, changed) = (Box::new(write), Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { write, state, changed, metrics: OnceLock::new() });
        Self { shared: Some(Arc::new(Shared { queue })) }
    }

    /// Starts the thread that writes.
    ///
    /// # Errors
    /// There can be no further thread.
    pub(crate) fn start(&self, metrics: &Arc<Metrics>) -> Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        if shared.queue.metrics.set(Arc::clone(metrics)).is_err() {
            return Ok(());
        }
        let queue = Arc::clone(&shared.queue);
        thread::start("melisma-events", move || queue.run()).map(drop)
    }

    /// Writes an event, an object, with its time.
    pub fn event(&self, mut event: Value) {
        let Some(shared) = &self.shared else { return };
        event["unix_seconds"] = unix_seconds().into();
        shared.queue.push(event.to_string());
    }

    /// Writes a line for people.
    pub fn line(&self, text: &str) {
        if let Some(shared) = &self.shared {
            shared.queue.push(text.to_owned());
        }
    }

    /// Waits until all is written, but not for long.
    pub(crate) fn flush(&self) {
        let Some(Shared { queue }) = self.shared.as_deref() else { return };
        let is_busy = |state: &mut State| !state.lines.is_empty() || state.n_dropped > 0 || state.is_writing;
        // Lines that are not read by then are lost.
        let _ = queue.changed.wait_timeout_while(queue.state.lock(), FLUSH_TIMEOUT, is_busy);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.state.lock().is_closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn push(&self, line: String) {
        let mut state = self.state.lock();
        if state.lines.len() < MAX_LINES {
            state.lines.push_back(line);
        } else {
            state.n_dropped += 1;
            self.metrics.get().inspect(|metrics| metrics.dropped_event());
        }
        drop(state);
        self.changed.notify_all();
    }

    fn run(&self) {
        while let Some(line) = self.next() {
            (self.write)(&line);
        }
    }

    /// Returns the next line, or `None` when no more can come.
    fn next(&self) -> Option<String> {
        let mut state = self.state.lock();
        state.is_writing = false;
        self.changed.notify_all();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.is_writing = true;
                return Some(line);
            }
            if state.n_dropped > 0 {
                let n = std::mem::take(&mut state.n_dropped);
                state.is_writing = true;
                return Some(json!({"event": "dropped", "events": n, "unix_seconds": unix_seconds()}).to_string());
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state);
        }
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::sleep;

    use super::*;

    #[test]
    fn a_writer_that_is_stuck_delays_nobody_and_the_lost_events_are_counted() {
        let (go, gone) = mpsc::channel::<()>();
        let (seen, lines) = mpsc::channel();
        let (gone, seen) = (Mutex::new(gone), Mutex::new(seen));
        let log = Log::new(move |line: &str| {
            // It ends when the test lets go of the other side.
            let _ = gone.lock().recv();
            seen.lock().send(line.to_owned()).unwrap();
        });
        let metrics = Arc::<Metrics>::default();
        log.start(&metrics).unwrap();
        let n_events = MAX_LINES + 100;
        for n in 0..n_events {
            log.event(json!({ "n": n }));
        }
        log.line("for people");
        // The writer may hold one line.
        let text = metrics.text(&[]);
        let dropped = text.lines().find_map(|line| line.strip_prefix("melisma_dropped_events_total ")).unwrap();
        let dropped: usize = dropped.parse().unwrap();
        assert!((100..=101).contains(&dropped), "{dropped}");
        drop((go, log));
        let lines: Vec<String> = lines.iter().collect();
        assert_eq!(lines.len(), n_events + 1 - dropped + 1);
        for (n, line) in lines[..lines.len() - 1].iter().enumerate() {
            let event: Value = serde_json::from_str(line).unwrap();
            assert!(event["n"] == n && event["unix_seconds"].as_f64().unwrap() > 1e9, "{line}");
        }
        let last: Value = serde_json::from_str(&lines[lines.len() - 1]).unwrap();
        assert_eq!((&last["event"], &last["events"]), (&json!("dropped"), &json!(dropped)));
    }

    #[test]
    fn the_end_waits_for_the_last_line() {
        let (seen, lines) = mpsc::channel();
        let log = Log::new(move |line: &str| {
            sleep(Duration::from_millis(20));
            seen.send(line.to_owned()).unwrap();
        });
        log.line("before the start");
        log.start(&Arc::default()).unwrap();
        log.line("last");
        log.flush();
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), ["before the start", "last"]);
        Log::default().flush();
    }
}
