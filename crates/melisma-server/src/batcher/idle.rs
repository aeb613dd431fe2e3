//! Measures the capacity again when no stream is open, because the device was busy at the start or is busy now.

use std::fmt;
use std::time::{Duration, Instant};

use melisma::Result;
use melisma::snac::Engine;

use super::capacity::Rounds;
use super::{CapacityCache, CapacityReport, StepEngine};
use crate::log::{Level, Log};

/// The time without a stream before a measurement.
const QUIET: Duration = Duration::from_secs(10);
/// The time from the start to the first measurement, doubled after each.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);
/// A capacity that differs by less stays.
const CHANGE: f64 = 0.1;

/// Measures until it is done or the function says that the engine is needed. Returns a new capacity, if it changed.
type Measure<E> = Box<dyn FnMut(&mut E, CapacityReport, &dyn Fn() -> bool) -> Result<Option<CapacityReport>> + Send>;

/// When to measure again, and how.
pub(super) struct Idle<E> {
    measure: Measure<E>,
    quiet: Duration,
    pause: Duration,
    next: Instant,
}

impl<E> fmt::Debug for Idle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<E: StepEngine> Idle<E> {
    /// Measures after `quiet` without a stream, and at first `pause` from now.
    pub(super) fn new(measure: Measure<E>, quiet: Duration, pause: Duration) -> Self {
        Self { measure, quiet, pause, next: Instant::now() + pause }
    }

    /// Returns when to measure if no stream was open since `quiet_since`.
    pub(super) fn due(&self, quiet_since: Instant) -> Instant {
        self.next.max(quiet_since + self.quiet)
    }

    /// Measures the capacity and returns it if it changed.
    pub(super) fn measure(
        &mut self,
        engine: &mut E,
        current: CapacityReport,
        is_idle: &dyn Fn() -> bool,
    ) -> Result<Option<CapacityReport>> {
        let found = (self.measure)(engine, current, is_idle);
        self.pause = (2 * self.pause).min(LONGEST);
        self.next = Instant::now() + self.pause;
        found
    }
}

impl Idle<Engine> {
    /// Repeats `rounds`, tells a change to `log` and stores it in `cache`.
    pub(super) fn of(mut rounds: Rounds, cache: Option<CapacityCache>, log: Log) -> Self {
        let measure = move |engine: &mut Engine, current: CapacityReport, is_idle: &dyn Fn() -> bool| {
            let Some(found) = rounds.measure_while(engine, is_idle)?.filter(|found| found.is_steady()) else {
                return Ok(None);
            };
            if let Some(cache) = &cache {
                cache.store(found);
            }
            let [now, before] = [found.capacity.streams, current.capacity.streams];
            if now.abs_diff(before) as f64 <= CHANGE * before as f64 {
                return Ok(None);
            }
            log.line(Level::Info, &format!("the capacity was measured again: {now} streams, and {before} before"));
            Ok(Some(found.into()))
        };
        Self::new(Box::new(measure), QUIET, FIRST)
    }
}
