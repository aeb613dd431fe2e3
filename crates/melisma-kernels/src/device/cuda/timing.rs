//! Run times of kernels on the device, on the host's clock.
//!
//! [`Queue::start_timing`](crate::Queue::start_timing) times a single queue. [`Timeline::start`]
//! times every queue of the process, including those created later and those dropped before the
//! timeline is read.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::event::Event;
use super::stream::Stream;
use crate::Result;
use crate::lock::Mutex;

/// Events that one queue holds before it reads the older half; reading waits for them.
const MAX_PENDING: usize = 8192;
/// Spans that a timeline holds until it is read; later ones are only counted.
const MAX_SPANS: usize = 1_000_000;

/// One kernel run on a device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSpan {
    /// The kernel.
    pub name: &'static str,
    /// Its start, on the host's clock.
    pub start: Instant,
    /// Its duration.
    pub duration: Duration,
    /// Bytes it read and wrote.
    pub bytes: u64,
}

/// How finely device work is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A recorded graph is one span.
    Graphs,
    /// The kernels of a graph are launched and timed one by one, which takes longer than the graph.
    Kernels,
}

/// The work of all GPUs that this process uses.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The device as `cuda:N`, and each kernel run on it.
    pub spans: Vec<(String, DeviceSpan)>,
    /// Runs that could not be timed, or that exceeded the number of spans held.
    pub lost: u64,
}

static DETAIL: AtomicU8 = AtomicU8::new(0);
static READ: Mutex<Timeline> = Mutex::new(Timeline { spans: Vec::new(), lost: 0 });
static TIMERS: Mutex<Vec<Weak<Timer>>> = Mutex::new(Vec::new());

impl Timeline {
    /// Times all work submitted to any queue from now on.
    pub fn start(detail: Detail) {
        DETAIL.store(1 + detail as u8, Relaxed);
    }

    /// Returns the runs since the last call. Waits for work in flight.
    pub fn take() -> Self {
        // No lock is held while timers are dropped: the last owner of a timer adds its spans to
        // `READ`.
        let timers: Vec<_> = TIMERS.lock().iter().filter_map(Weak::upgrade).collect();
        timers.iter().for_each(|timer| timer.settle(usize::MAX));
        std::mem::take(&mut *READ.lock())
    }

    fn is_on() -> bool {
        DETAIL.load(Relaxed) > 0
    }

    pub(crate) fn wants_kernels() -> bool {
        DETAIL.load(Relaxed) == 1 + Detail::Kernels as u8
    }

    fn add(ordinal: usize, spans: Vec<Result<DeviceSpan>>) {
        let mut read = READ.lock();
        for span in spans {
            match span {
                Ok(span) if read.spans.len() < MAX_SPANS => read.spans.push((format!("cuda:{ordinal}"), span)),
                _ => read.lost += 1,
            }
        }
    }
}

/// Relates the device's clock to the host's, and holds timings that are not read yet.
#[derive(Debug)]
struct Clock {
    origin: Event,
    origin_host: Instant,
    timed: Vec<(&'static str, u64, Event, Event)>,
}

impl Clock {
    fn start(stream: &Stream) -> Result<Self> {
        stream.synchronize()?;
        let origin = stream.mark()?;
        origin.synchronize()?;
        Ok(Self { origin, origin_host: Instant::now(), timed: Vec::new() })
    }

    /// Reads the first `n` runs once they are done.
    fn drain(&mut self, n: usize) -> Vec<Result<DeviceSpan>> {
        let origin = &self.origin;
        let place = |(name, bytes, start, end): (&'static str, u64, Event, Event)| {
            end.synchronize()?;
            let offset = start.since(origin)?;
            Ok(DeviceSpan { name, start: self.origin_host + offset, duration: end.since(&start)?, bytes })
        };
        let n = n.min(self.timed.len());
        self.timed.drain(..n).map(place).collect()
    }
}

/// The clock of one queue.
#[derive(Debug)]
pub(crate) struct Timer {
    ordinal: usize,
    is_on: AtomicBool,
    clock: Mutex<Option<Clock>>,
}

impl Timer {
    pub(crate) fn new(ordinal: usize) -> Self {
        Self { ordinal, is_on: AtomicBool::new(false), clock: Mutex::default() }
    }

    pub(crate) fn start(self: &Arc<Self>, stream: &Stream) -> Result<()> {
        let mut clock = self.clock.lock();
        if clock.is_none() {
            *clock = Some(Clock::start(stream)?);
            drop(clock);
            let mut timers = TIMERS.lock();
            timers.retain(|timer| timer.strong_count() > 0);
            timers.push(Arc::downgrade(self));
        }
        self.is_on.store(true, Relaxed);
        Ok(())
    }

    /// Returns whether any timing is requested.
    pub(crate) fn may_time(&self) -> bool {
        self.is_on.load(Relaxed) || Timeline::is_on()
    }

    /// Returns whether work is timed; starts the clock if all queues are timed.
    pub(crate) fn is_on(self: &Arc<Self>, stream: &Stream) -> bool {
        self.is_on.load(Relaxed) || (Timeline::is_on() && self.start(stream).is_ok())
    }

    /// Returns the runs timed since the last call; the timeline gets them too.
    pub(crate) fn spans(&self) -> Result<Vec<DeviceSpan>> {
        let spans: Vec<_> = self.clock.lock().as_mut().map_or_else(Vec::new, |clock| clock.drain(usize::MAX));
        if Timeline::is_on() {
            Timeline::add(self.ordinal, spans.iter().flatten().map(|span| Ok(*span)).collect());
        }
        spans.into_iter().collect()
    }

    /// Moves the first `n` runs to the timeline.
    fn settle(&self, n: usize) {
        if Timeline::is_on() {
            let spans = self.clock.lock().as_mut().map_or_else(Vec::new, |clock| clock.drain(n));
            Timeline::add(self.ordinal, spans);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.settle(usize::MAX);
    }
}

/// Times the work submitted to a queue until dropped.
#[derive(Debug)]
pub(crate) struct Timing<'a> {
    stream: &'a Stream,
    timer: &'a Timer,
    name: &'static str,
    bytes: u64,
    start: Option<Event>,
}

impl<'a> Timing<'a> {
    pub(crate) fn start(stream: &'a Stream, timer: &'a Timer, name: &'static str, bytes: u64) -> Result<Self> {
        Ok(Self { stream, timer, name, bytes, start: Some(stream.mark()?) })
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        let mut clock = self.timer.clock.lock();
        if let (Some(clock), Some(start), Ok(end)) = (clock.as_mut(), self.start.take(), self.stream.mark()) {
            clock.timed.push((self.name, self.bytes, start, end));
        }
        let is_full = clock.as_ref().is_some_and(|clock| clock.timed.len() >= MAX_PENDING);
        drop(clock);
        if is_full {
            self.timer.settle(MAX_PENDING / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::with_cuda;
    use crate::{Budget, Graph, Queue, convert};

    const LEN: usize = 1000;

    struct State {
        plan: convert::Plan<i16, f32>,
        from: crate::Buffer,
        to: crate::Buffer,
    }

    fn run(queue: &Queue, state: &mut State) -> Result<()> {
        state.plan.run(queue, state.from.view()?, state.to.view_mut()?)
    }

    /// A single test, because the timeline belongs to the whole process. Other tests add to it, so
    /// only lower bounds hold.
    #[test]
    fn on_cuda_every_queue_is_timed_graphs_by_kernel_where_asked() {
        with_cuda(|bench| {
            let crate::Device::Cuda(cuda) = &bench.device else { return };
            let state = || State {
                plan: convert::plan(&bench.device, LEN).unwrap(),
                from: crate::Buffer::device(cuda, &bench.budget, 2 * LEN).unwrap(),
                to: crate::Buffer::device(cuda, &bench.budget, 4 * LEN).unwrap(),
            };
            let count = |timeline: &Timeline, name: &str| {
                timeline.spans.iter().filter(|(device, span)| device == "cuda:0" && span.name == name).count()
            };
            let mut graph = Graph::capture(&bench.queue, state(), run).unwrap();
            Timeline::start(Detail::Graphs);
            Timeline::take();
            {
                let queue = bench.device.queue(&Budget::unlimited()).unwrap();
                let mut state = state();
                (0..3).for_each(|_| run(&queue, &mut state).unwrap());
            }
            graph.launch(&bench.queue).unwrap();
            let timeline = Timeline::take();
            assert!(count(&timeline, "convert") >= 3, "the queue is gone, its spans are not: {timeline:?}");
            assert!(count(&timeline, "graph") >= 1, "{timeline:?}");
            assert_eq!(timeline.lost, 0);
            assert_eq!(
                timeline.spans.iter().find(|(_, span)| span.name == "convert").map(|(_, span)| span.bytes > 0),
                Some(true)
            );
            Timeline::start(Detail::Kernels);
            graph.launch(&bench.queue).unwrap();
            let timeline = Timeline::take();
            DETAIL.store(0, Relaxed);
            assert!(count(&timeline, "convert") >= 1, "{timeline:?}");
        });
    }
}
