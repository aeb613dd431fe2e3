//! The `tracing` layer.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Map, Value};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::busy::Busy;
use super::histogram::Histogram;
use super::span::{Fields, Frame, enter, leave, thread_number};
use super::{DeviceSpan, RangeSink};
use crate::{Error, Result};

/// Calls beyond these are in the table but not in the file.
const MAX_EVENTS: u64 = 1_000_000;
const SHARDS: usize = 16;
/// Spans of this crate are the CPU device at work.
const KERNELS: &str = "melisma_kernels";

/// One call of a span, for the file.
pub(super) struct Event {
    pub name: &'static str,
    pub thread: u64,
    pub start: u64,
    pub elapsed: u64,
    pub args: Map<String, Value>,
}

/// A device's span on the collector's clock.
pub(super) struct Placed {
    pub name: &'static str,
    pub start: u64,
    pub elapsed: u64,
    pub bytes: u64,
}

/// All calls of one name, for the table. Times in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Aggregate {
    pub calls: u64,
    pub own: u64,
    pub total: u64,
    pub bytes: u64,
    pub times: Histogram,
}

/// What the threads of one shard have done.
#[derive(Default)]
pub(super) struct Shard {
    pub events: Vec<Event>,
    pub aggregates: HashMap<&'static str, Aggregate>,
    /// Names of the threads by number.
    pub threads: BTreeMap<u64, String>,
    pub busy: Busy,
}

pub(super) struct Inner {
    number: u64,
    origin: Instant,
    shards: [Mutex<Shard>; SHARDS],
    kept: AtomicU64,
    max_events: u64,
    lost_device: AtomicU64,
    pub lanes: Mutex<BTreeMap<String, Vec<Placed>>>,
    ranges: Option<Box<dyn RangeSink>>,
}

/// Collects spans from all threads; clones collect together.
#[derive(Clone)]
pub struct Collector(pub(super) Arc<Inner>);

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("spans", &self.0.kept.load(Relaxed)).finish_non_exhaustive()
    }
}

impl Default for Collector {
    fn default() -> Self {
        Self::build(MAX_EVENTS, None)
    }
}

impl Collector {
    /// A collector whose clock starts now.
    pub fn new() -> Self {
        Self::default()
    }

    /// A collector that also hands every span to `ranges` as it happens.
    pub fn with_ranges(ranges: Box<dyn RangeSink>) -> Self {
        Self::build(MAX_EVENTS, Some(ranges))
    }

    pub(super) fn build(max_events: u64, ranges: Option<Box<dyn RangeSink>>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(Inner {
            number: NUMBER.fetch_add(1, Relaxed),
            origin: Instant::now(),
            shards: Default::default(),
            kept: AtomicU64::new(0),
            max_events,
            lost_device: AtomicU64::new(0),
            lanes: Mutex::default(),
            ranges,
        }))
    }

    /// Collects from every thread of the process from now on.
    ///
    /// # Errors
    /// When something collects already.
    pub fn install(&self) -> Result<()> {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|error| Error::invalid("spans are collected already").with_source(error))
    }

    /// The instant that all times count from.
    pub fn origin(&self) -> Instant {
        self.0.origin
    }

    /// Adds work that `device` has timed. Beyond a million spans they are only counted, and the report says so.
    pub fn add_device(&self, device: &str, spans: impl IntoIterator<Item = DeviceSpan>) {
        let mut lanes = lock(&self.0.lanes);
        let room = (self.0.max_events as usize).saturating_sub(lanes.values().map(Vec::len).sum());
        let lane = lanes.entry(device.to_owned()).or_default();
        let mut spans = spans.into_iter();
        lane.extend(spans.by_ref().take(room).map(|span| Placed {
            name: span.name,
            start: span.start.saturating_duration_since(self.0.origin).as_nanos() as u64,
            elapsed: span.duration.as_nanos() as u64,
            bytes: span.bytes,
        }));
        self.0.lost_device.fetch_add(spans.count() as u64, Relaxed);
    }

    pub(super) fn lost_device(&self) -> u64 {
        self.0.lost_device.load(Relaxed)
    }

    /// Calls that are not in the file because there were too many.
    pub fn dropped(&self) -> u64 {
        self.0.kept.load(Relaxed).saturating_sub(self.0.max_events)
    }

    /// Runs `look` on every shard in turn.
    pub(super) fn each_shard(&self, mut look: impl FnMut(&Shard)) {
        self.0.shards.iter().for_each(|shard| look(&lock(shard)));
    }

    pub(super) fn now(&self) -> u64 {
        self.0.origin.elapsed().as_nanos() as u64
    }

    fn record(&self, metadata: &'static Metadata<'static>, [start, own, now]: [u64; 3], fields: &Fields) {
        let thread = thread_number();
        let elapsed = now.saturating_sub(start);
        let mut shard = lock(&self.0.shards[thread as usize % SHARDS]);
        shard.threads.entry(thread).or_insert_with(|| thread_name(thread));
        let aggregate = shard.aggregates.entry(metadata.name()).or_default();
        aggregate.calls += 1;
        aggregate.own += own;
        aggregate.total += elapsed;
        aggregate.bytes = aggregate.bytes.saturating_add(fields.bytes);
        aggregate.times.add(elapsed);
        if metadata.target().split("::").next() == Some(KERNELS) {
            shard.busy.add(start, now);
        }
        if self.0.kept.fetch_add(1, Relaxed) < self.0.max_events {
            let args = fields.args.clone();
            shard.events.push(Event { name: metadata.name(), thread, start, elapsed, args });
        }
    }
}

fn thread_name(number: u64) -> String {
    std::thread::current().name().map_or_else(|| format!("thread {number}"), str::to_owned)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let (Some(ranges), Some(span)) = (&self.0.ranges, context.span(id)) {
            ranges.push(span.name());
        }
        enter(Frame { collector: self.0.number, span: id.into_u64(), start: self.now(), children: 0 });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let now = self.now();
        if let Some(ranges) = &self.0.ranges {
            ranges.pop();
        }
        let Some((start, own)) = leave(self.0.number, id.into_u64(), now) else { return };
        let Some(span) = context.span(id) else { return };
        let extensions = span.extensions();
        let none = Fields::default();
        self.record(span.metadata(), [start, own, now], extensions.get::<Fields>().unwrap_or(&none));
    }
}
