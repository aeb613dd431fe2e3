//! The `tracing` layer.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use melisma_kernels::device::ceiling;
use melisma_kernels::device::cuda::Timeline;
use melisma_kernels::lock::Mutex;
use melisma_kernels::{ALLOCATION, available_threads};
use serde_json::{Map, Value};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use super::caller::CALLER;
use super::histogram::Histogram;
use super::span::{ClosedSpan, Fields, Frame, allocate, enter, leave, thread_number};
use super::{Detail, DeviceSpan, RangeSink};
use crate::{Error, Result};

/// Further calls are in the table but not in the file.
const MAX_EVENTS: u64 = 1_000_000;
const SHARDS: usize = 16;
/// The row for memory that was allocated outside of any span.
const NO_SPAN: &str = "(no span)";
/// Names of callers that get a row of their own on each thread's shard; further ones share a row.
const MAX_NAMES: usize = 1_000;
const OTHER_SPANS: &str = "(other spans)";

/// That of a span in the library, or of one that a caller named.
pub(super) type Name = Cow<'static, str>;

/// One call of a span, for the file.
pub(super) struct Event {
    pub name: Name,
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
    pub allocated: u64,
    pub times: Histogram,
}

/// The data of the threads of one shard.
#[derive(Default)]
pub(super) struct Shard {
    pub events: Vec<Event>,
    pub aggregates: HashMap<Name, Aggregate>,
    /// Thread names by number.
    pub threads: BTreeMap<u64, String>,
}

pub(super) struct Inner {
    number: u64,
    origin: Instant,
    /// CPU time of this process in seconds when the clock started.
    cpu_origin: f64,
    threads: AtomicUsize,
    times_devices: AtomicBool,
    shards: [Mutex<Shard>; SHARDS],
    kept: AtomicU64,
    max_events: u64,
    lost_device: AtomicU64,
    pub lanes: Mutex<BTreeMap<String, Vec<Placed>>>,
    ranges: Option<Box<dyn RangeSink>>,
    /// Callers' spans that were entered and not left, by number.
    open: Mutex<BTreeMap<u64, String>>,
}

/// Collects spans from all threads; clones share their data.
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
    /// Creates a collector whose clock starts now.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a collector that also passes every span to `ranges` as it happens.
    pub fn with_ranges(ranges: Box<dyn RangeSink>) -> Self {
        Self::build(MAX_EVENTS, Some(ranges))
    }

    pub(super) fn build(max_events: u64, ranges: Option<Box<dyn RangeSink>>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(Inner {
            number: NUMBER.fetch_add(1, Relaxed),
            origin: Instant::now(),
            cpu_origin: ceiling::process_seconds(),
            threads: AtomicUsize::new(available_threads()),
            times_devices: AtomicBool::new(false),
            shards: Default::default(),
            kept: AtomicU64::new(0),
            max_events,
            lost_device: AtomicU64::new(0),
            lanes: Mutex::default(),
            ranges,
            open: Mutex::default(),
        }))
    }

    /// Starts collecting from every thread of the process.
    ///
    /// # Errors
    /// Another subscriber is installed.
    pub fn install(&self) -> Result<()> {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|error| Error::invalid("spans are collected already").with_source(error))
    }

    /// Returns the origin of all times.
    pub fn origin(&self) -> Instant {
        self.0.origin
    }

    /// Sets the number of threads for the busy share; the default is the number of cores.
    pub fn set_threads(&self, threads: usize) {
        self.0.threads.store(threads.max(1), Relaxed);
    }

    pub(super) fn threads(&self) -> usize {
        self.0.threads.load(Relaxed)
    }

    /// Returns the CPU seconds since the clock started, of all threads and finished child processes.
    pub(super) fn cpu_seconds(&self) -> f64 {
        (ceiling::process_seconds() - self.0.cpu_origin).max(0.0)
    }

    /// Collects the work of every GPU queue of this process too, including queues created later.
    /// Only one collector at a time receives it.
    pub fn time_devices(&self, detail: Detail) {
        self.0.times_devices.store(true, Relaxed);
        Timeline::start(detail);
    }

    /// Fetches the finished work of the devices.
    pub(super) fn look_at_devices(&self) {
        if !self.0.times_devices.load(Relaxed) {
            return;
        }
        let Timeline { spans, lost } = Timeline::take();
        self.0.lost_device.fetch_add(lost, Relaxed);
        let mut devices: BTreeMap<String, Vec<DeviceSpan>> = BTreeMap::new();
        for (device, span) in spans {
            devices.entry(device).or_default().push(span);
        }
        devices.into_iter().for_each(|(device, spans)| self.add_device(&device, spans));
    }

    /// Adds work timed by `device`. Beyond a million spans, further ones are only counted, and the
    /// report says so.
    #[doc(hidden)]
    pub fn add_device(&self, device: &str, spans: impl IntoIterator<Item = DeviceSpan>) {
        let mut lanes = self.0.lanes.lock();
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

    /// Returns the number of calls missing from the file because there were too many.
    pub fn dropped(&self) -> u64 {
        self.0.kept.load(Relaxed).saturating_sub(self.0.max_events)
    }

    /// Returns the names of callers' spans that are open.
    pub(super) fn open_spans(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.open.lock().values().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Calls `look` for every shard.
    pub(super) fn each_shard(&self, mut look: impl FnMut(&Shard)) {
        self.0.shards.iter().for_each(|shard| look(&shard.lock()));
    }

    pub(super) fn now(&self) -> u64 {
        self.0.origin.elapsed().as_nanos() as u64
    }

    fn record(&self, metadata: &'static Metadata<'static>, now: u64, left: ClosedSpan, fields: &Fields) {
        let thread = thread_number();
        let elapsed = now.saturating_sub(left.start);
        let mut shard = self.0.shards[thread as usize % SHARDS].lock();
        shard.threads.entry(thread).or_insert_with(|| thread_name(thread));
        let name = match &fields.name {
            None => Name::Borrowed(metadata.name()),
            Some(name) if shard.aggregates.len() < MAX_NAMES || shard.aggregates.contains_key(&**name) => {
                Name::Owned(name.clone())
            }
            Some(_) => Name::Borrowed(OTHER_SPANS),
        };
        let aggregate = shard.aggregates.entry(name.clone()).or_default();
        aggregate.calls += 1;
        aggregate.own += left.own;
        aggregate.total += elapsed;
        aggregate.bytes = aggregate.bytes.saturating_add(fields.bytes);
        aggregate.allocated = aggregate.allocated.saturating_add(left.allocated);
        aggregate.times.add(elapsed);
        if self.0.kept.fetch_add(1, Relaxed) < self.0.max_events {
            let mut args = fields.args.clone();
            if left.allocated > 0 {
                args.insert("allocated".to_owned(), left.allocated.into());
            }
            shard.events.push(Event { name, thread, start: left.start, elapsed, args });
        }
    }
}

fn thread_name(number: u64) -> String {
    std::thread::current().name().map_or_else(|| format!("thread {number}"), str::to_owned)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            if attributes.metadata().target() == CALLER {
                fields.take_name();
            }
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

    /// Attributes memory granted by a budget to the open span of this thread.
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != ALLOCATION {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        if !allocate(self.0.number, fields.bytes) {
            let mut shard = self.0.shards[thread_number() as usize % SHARDS].lock();
            let aggregate = shard.aggregates.entry(Name::Borrowed(NO_SPAN)).or_default();
            aggregate.allocated = aggregate.allocated.saturating_add(fields.bytes);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let extensions = span.extensions();
            let named = extensions.get::<Fields>().and_then(|fields| fields.name.as_deref());
            if let Some(ranges) = &self.0.ranges {
                ranges.push(named.unwrap_or(span.name()));
            }
            if let Some(name) = named {
                self.0.open.lock().insert(id.into_u64(), name.to_owned());
            }
        }
        enter(Frame { collector: self.0.number, span: id.into_u64(), start: self.now(), children: 0, allocated: 0 });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let now = self.now();
        if let Some(ranges) = &self.0.ranges {
            ranges.pop();
        }
        let Some(left) = leave(self.0.number, id.into_u64(), now) else { return };
        let Some(span) = context.span(id) else { return };
        let extensions = span.extensions();
        let none = Fields::default();
        let fields = extensions.get::<Fields>().unwrap_or(&none);
        if fields.name.is_some() {
            self.0.open.lock().remove(&id.into_u64());
        }
        self.record(span.metadata(), now, left, fields);
    }
}
