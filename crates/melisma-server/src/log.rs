//! One JSON object for each event, written by a thread of its own. `time` and `level` come first, and fields
//! without a value are left out.
//!
//! If the reader of the events stops reading, writing blocks. The server never waits for it: events go
//! into a queue, and when it is full they are counted and dropped.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use melisma::Result;
use melisma::lock::{Condvar, Mutex};
use melisma::runtime::thread;
use serde_json::{Map, Value};

use crate::event::Field;
use crate::metrics::Metrics;
use crate::time;

/// Lines that wait to be written.
const MAX_LINES: usize = 1024;
/// How long the end of the server waits for the lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Probes and scrapes that were answered.
    Debug,
    /// The daily work.
    Info,
    /// A client or an operator should know: refusals, slow clients.
    Warn,
    /// The server or its upstream failed.
    Error,
}

impl Level {
    /// All levels, from the least one.
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// Returns its name in events: `debug`, `info`, `warn` or `error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Log of events. Clones share the queue.
#[derive(Clone, Default)]
pub struct Log {
    shared: Option<Arc<Shared>>,
}

/// Closes the queue when the last [`Log`] is dropped.
struct Shared {
    queue: Arc<Queue>,
}

/// Takes a line and its level.
type WriteFn = Box<dyn Fn(Level, &str) + Send + Sync>;

struct Queue {
    write: WriteFn,
    /// The least level that is written.
    level: Level,
    state: Mutex<State>,
    changed: Condvar,
    metrics: OnceLock<Arc<Metrics>>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<(Level, String)>,
    /// Dropped events that were not reported yet.
    n_dropped: u64,
    is_writing: bool,
    is_closed: bool,
}

impl Log {
    /// Calls `write` with each line of at least `level` and its own level, in the order of the lines.
    pub fn new(level: Level, write: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        let (write, state, changed) = (Box::new(write), Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { write, level, state, changed, metrics: OnceLock::new() });
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

    /// Writes an event with its time.
    pub fn event(&self, level: Level, fields: impl IntoIterator<Item = (Field, Value)>) {
        if let Some(queue) = self.queue(level) {
            queue.push(level, line(level, fields));
        }
    }

    /// Writes a line for people.
    pub fn line(&self, level: Level, text: &str) {
        if let Some(queue) = self.queue(level) {
            queue.push(level, text.to_owned());
        }
    }

    /// Returns the queue of a line, if it is written.
    fn queue(&self, level: Level) -> Option<&Queue> {
        self.shared.as_deref().map(|shared| &*shared.queue).filter(|queue| queue.level <= level)
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
    fn push(&self, level: Level, line: String) {
        let mut state = self.state.lock();
        if state.lines.len() < MAX_LINES {
            state.lines.push_back((level, line));
        } else {
            state.n_dropped += 1;
            self.metrics.get().inspect(|metrics| metrics.dropped_event());
        }
        drop(state);
        self.changed.notify_all();
    }

    fn run(&self) {
        while let Some((level, line)) = self.next() {
            (self.write)(level, &line);
        }
    }

    /// Returns the next line with its level, or `None` when no more can come.
    fn next(&self) -> Option<(Level, String)> {
        let mut state = self.state.lock();
        state.is_writing = false;
        self.changed.notify_all();
        loop {
            if let Some(next) = state.lines.pop_front() {
                state.is_writing = true;
                return Some(next);
            }
            if state.n_dropped > 0 {
                let n = std::mem::take(&mut state.n_dropped);
                state.is_writing = true;
                let fields = [(Field::Event, "dropped".into()), (Field::Events, n.into())];
                return Some((Level::Warn, line(Level::Warn, fields)));
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state);
        }
    }
}

/// Returns the line of an event.
fn line(level: Level, fields: impl IntoIterator<Item = (Field, Value)>) -> String {
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    let event: Map<String, Value> = fields.map(|(field, value)| (field.name().to_owned(), value)).collect();
    let head = format!(r#"{{"time":"{}","level":"{}","#, time::show(SystemTime::now()), level.name());
    head + &Value::Object(event).to_string()[1..]
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

    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_time_and_level_first_and_no_empty_fields() {
        let line = line(Level::Warn, [(Field::Event, "request".into()), (Field::Path, Value::Null)]);
        let (time, rest) = line.split_at(r#"{"time":"2026-11-18T12:26:39.123Z""#.len());
        assert!(time.starts_with(r#"{"time":"20"#) && time.ends_with("Z\""), "{line}");
        assert_eq!(rest, r#","level":"warn","event":"request"}"#);
    }

    #[test]
    fn a_writer_that_is_stuck_delays_nobody_and_the_lost_events_are_counted() {
        let (go, gone) = mpsc::channel::<()>();
        let (seen, lines) = mpsc::channel();
        let (gone, seen) = (Mutex::new(gone), Mutex::new(seen));
        let log = Log::new(Level::Info, move |_, line| {
            seen.lock().send(line.to_owned()).unwrap();
            // It ends when the test lets go of the other side.
            let _ = gone.lock().recv();
        });
        let metrics = Arc::<Metrics>::default();
        log.start(&metrics).unwrap();
        log.event(Level::Info, [(Field::Streams, 0.into())]);
        let held = lines.recv().unwrap();
        for n in 1..=MAX_LINES + 100 {
            log.event(Level::Info, [(Field::Streams, n.into())]);
        }
        log.line(Level::Info, "for people");
        let (text, dropped) = (metrics.text(&[]), 101);
        assert!(text.lines().any(|line| line == format!("melisma_dropped_events_total {dropped}")), "{text}");
        drop((go, log));
        let lines: Vec<String> = [held].into_iter().chain(lines).collect();
        assert_eq!(lines.len(), 1 + MAX_LINES + 1);
        for (n, line) in lines[..lines.len() - 1].iter().enumerate() {
            let event: Value = serde_json::from_str(line).unwrap();
            assert!(event["streams"] == n && line.starts_with(r#"{"time":"20"#), "{line}");
        }
        let last: Value = serde_json::from_str(&lines[lines.len() - 1]).unwrap();
        assert_eq!((&last["event"], &last["events"]), (&json!("dropped"), &json!(dropped)));
    }

    #[test]
    fn the_end_waits_for_the_last_line() {
        let (seen, lines) = mpsc::channel();
        let log = Log::new(Level::Warn, move |level, line| {
            sleep(Duration::from_millis(20));
            seen.send((level, line.to_owned())).unwrap();
        });
        log.line(Level::Error, "before the start");
        log.start(&Arc::default()).unwrap();
        log.line(Level::Info, "of no interest");
        log.line(Level::Warn, "last");
        log.flush();
        let expected = [(Level::Error, "before the start"), (Level::Warn, "last")];
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), expected.map(|(level, line)| (level, line.to_owned())));
        Log::default().flush();
    }
}
