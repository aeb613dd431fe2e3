//! The data of a span: its fields while it exists, its frame while it is entered.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

/// Longer texts are truncated to bound a span's memory.
const MAX_TEXT: usize = 256;

/// The fields of a span; `bytes` is also summed in the table.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Of a span that a caller named.
    pub name: Option<String>,
    pub bytes: u64,
    pub args: Map<String, Value>,
}

impl Fields {
    /// Makes the field `name` the name of the span.
    pub(super) fn take_name(&mut self) {
        if let Some(Value::String(name)) = self.args.remove("name") {
            self.name = Some(name);
        }
    }

    fn put(&mut self, field: &Field, value: Value) {
        self.args.insert(field.name().to_owned(), value);
    }

    fn put_text(&mut self, field: &Field, text: &str) {
        let end = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(end, _)| end);
        self.put(field, text[..end].into());
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "bytes" {
            self.bytes = value;
        }
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.record_u64(field, value),
            Err(_) => self.put(field, value.into()),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, &format!("{value:?}"));
    }
}

/// A span that is entered on this thread.
pub(super) struct Frame {
    pub collector: u64,
    pub span: u64,
    pub start: u64,
    pub children: u64,
    pub allocated: u64,
}

/// A span that was left.
pub(super) struct ClosedSpan {
    pub start: u64,
    /// Time excluding inner spans.
    pub own: u64,
    /// Bytes allocated, excluding inner spans.
    pub allocated: u64,
}

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn enter(frame: Frame) {
    FRAMES.with_borrow_mut(|frames| frames.push(frame));
}

/// Adds to the innermost frame of this thread; false if there is none.
pub(super) fn allocate(collector: u64, bytes: u64) -> bool {
    FRAMES.with_borrow_mut(|frames| match frames.iter_mut().rev().find(|frame| frame.collector == collector) {
        Some(frame) => {
            frame.allocated = frame.allocated.saturating_add(bytes);
            true
        }
        None => false,
    })
}

/// Removes the newest frame of `span` and adds its time to the enclosing frame.
pub(super) fn leave(collector: u64, span: u64, now: u64) -> Option<ClosedSpan> {
    FRAMES.with_borrow_mut(|frames| {
        let at = frames.iter().rposition(|frame| frame.collector == collector && frame.span == span)?;
        let frame = frames.remove(at);
        let elapsed = now.saturating_sub(frame.start);
        if let Some(outer) = frames[..at].iter_mut().rev().find(|outer| outer.collector == collector) {
            outer.children += elapsed;
        }
        Some(ClosedSpan { start: frame.start, own: elapsed.saturating_sub(frame.children), allocated: frame.allocated })
    })
}

/// Returns this thread's number, starting at 1, in order of first use.
pub(super) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    THREAD.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Relaxed));
        }
        number.get()
    })
}
