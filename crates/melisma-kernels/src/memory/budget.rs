//! Memory accounting that is enforced before an allocation, never after.
//!
//! A [`Budget`] counts the bytes of pools, tensors and explicit reservations, but not allocations
//! by foreign code. Pageable and pinned host memory share one limit because they share the same
//! RAM. With [`Budget::limited`], device memory counts against it too, as on boards where CPU and
//! GPU use the same chips.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};

use super::refusal;
use crate::lock::Mutex;
use crate::{Error, ErrorKind, Remedy, Result};

/// The target of the events that report reservations to a trace; their field `bytes` holds the
/// size.
pub const ALLOCATION: &str = "melisma_kernels::allocation";

/// Where bytes live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Pageable host memory.
    Host,
    /// Page-locked host memory that a GPU can copy from and to at full speed.
    Pinned,
    /// Device memory.
    Device,
}

impl Space {
    /// All spaces, in the order of every table.
    pub const ALL: [Self; 3] = [Self::Host, Self::Pinned, Self::Device];

    /// Returns the name used in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Pinned => "pinned",
            Self::Device => "device",
        }
    }
}

/// Bytes held now, and the peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes held now.
    pub now: u64,
    /// The most bytes held at any instant.
    pub peak: u64,
}

#[derive(Debug, Default)]
struct Gauge {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    /// Adds `bytes` unless the sum would exceed `limit`; in that case returns the bytes held
    /// before.
    fn add(&self, bytes: u64, limit: u64) -> std::result::Result<(), u64> {
        let grown = |now: u64| now.checked_add(bytes).filter(|&sum| sum <= limit);
        let before = self.now.fetch_update(Relaxed, Relaxed, grown)?;
        self.peak.fetch_max(before + bytes, Relaxed);
        Ok(())
    }

    fn subtract(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Relaxed);
    }

    fn usage(&self) -> Usage {
        Usage { now: self.now.load(Relaxed), peak: self.peak.load(Relaxed) }
    }
}

#[derive(Debug)]
struct Inner {
    spaces: [Gauge; 3],
    /// The limited quantities: [host + pinned, device], or everything in the first when memory is
    /// shared.
    domains: [Gauge; 2],
    limits: [u64; 2],
    is_shared: bool,
    watches: Mutex<Vec<Weak<Peaks>>>,
    /// Where nobody watches, no lock is taken.
    n_watches: AtomicUsize,
}

impl Inner {
    fn new(limits: [u64; 2]) -> Self {
        let (spaces, domains, watches, n_watches) = Default::default();
        Self { spaces, domains, limits, is_shared: false, watches, n_watches }
    }
}

/// The most bytes held per space since a watch began.
type Peaks = [AtomicU64; 3];

/// A memory limit with counters, shared by all clones.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Inner>);

/// Counts the bytes of all budgets.
static PROCESS: LazyLock<Budget> = LazyLock::new(Budget::unlimited);

impl Budget {
    /// Returns what all budgets of the process hold together; it has no limit of its own.
    pub fn process() -> &'static Self {
        &PROCESS
    }

    /// Creates a budget without limits, which only counts.
    pub fn unlimited() -> Self {
        Self(Arc::new(Inner::new([u64::MAX; 2])))
    }

    /// Allows `host` bytes of pageable and pinned memory together, and `device` bytes of device memory.
    pub fn new(host: u64, device: u64) -> Self {
        Self(Arc::new(Inner::new([host, device])))
    }

    /// Allows `total` bytes of host, pinned and device memory together, as on machines whose CPU
    /// and GPU share their memory.
    pub fn limited(total: u64) -> Self {
        Self(Arc::new(Inner { is_shared: true, ..Inner::new([total; 2]) }))
    }

    /// Returns whether one limit applies to host and device memory together.
    pub fn is_shared(&self) -> bool {
        self.0.is_shared
    }

    fn domain(&self, space: Space) -> usize {
        usize::from(space == Space::Device && !self.0.is_shared)
    }

    /// Returns the limit that applies to `space`, if there is one.
    pub fn limit(&self, space: Space) -> Option<u64> {
        Some(self.0.limits[self.domain(space)]).filter(|&limit| limit != u64::MAX)
    }

    /// Returns the bytes that can still be reserved in `space`.
    pub fn free(&self, space: Space) -> u64 {
        let domain = self.domain(space);
        self.0.limits[domain].saturating_sub(self.0.domains[domain].usage().now)
    }

    /// Returns the current and peak bytes in `space`.
    pub fn usage(&self, space: Space) -> Usage {
        self.0.spaces[space as usize].usage()
    }

    /// Counts `bytes` of `space` until the reservation is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] when the limit would be exceeded; nothing is counted then.
    pub fn reserve(&self, space: Space, bytes: u64) -> Result<Reservation> {
        let domain = self.domain(space);
        let limit = self.0.limits[domain];
        self.0.domains[domain].add(bytes, limit).map_err(|held| refused(space, bytes, held, limit))?;
        let counted = self.0.spaces[space as usize].add(bytes, u64::MAX);
        debug_assert!(counted.is_ok(), "the domain's counter bounds the space's");
        self.note(space);
        // It refuses only sums beyond 64 bits, of budgets without a limit that hold nothing real.
        let process = self.beside().filter(|process| process.0.spaces[space as usize].add(bytes, u64::MAX).is_ok());
        if let Some(process) = process {
            process.note(space);
        }
        // The trace adds the bytes to the span that is open on this thread.
        tracing::trace!(target: ALLOCATION, bytes);
        Ok(Reservation { budget: self.clone(), process, space, bytes })
    }

    /// Returns the sentence for `what`, which needs `bytes` more of `space` than there is room for.
    #[doc(hidden)]
    pub fn refusal(&self, space: Space, what: impl fmt::Display, bytes: u64) -> String {
        let domain = self.domain(space);
        let held = self.0.domains[domain].usage().now;
        refusal::sentence(what, held.saturating_add(bytes), self.0.limits[domain])
    }

    /// Returns the budget of the process, unless this is it.
    fn beside(&self) -> Option<&'static Self> {
        Some(Self::process()).filter(|process| !Arc::ptr_eq(&process.0, &self.0))
    }
}

impl Budget {
    /// Starts watching the peaks.
    pub fn watch(&self) -> Watch {
        self.0.n_watches.fetch_add(1, Relaxed);
        let peaks = Arc::new(Space::ALL.map(|space| AtomicU64::new(self.usage(space).now)));
        let mut watches = self.0.watches.lock();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&peaks));
        Watch { peaks, budget: self.clone() }
    }

    fn note(&self, space: Space) {
        if self.0.n_watches.load(Relaxed) == 0 {
            return;
        }
        let now = self.usage(space).now;
        let watches = self.0.watches.lock();
        for peaks in watches.iter().filter_map(Weak::upgrade) {
            peaks[space as usize].fetch_max(now, Relaxed);
        }
    }
}

/// The peaks of a [`Budget`] since [`Budget::watch`].
#[derive(Debug)]
pub struct Watch {
    peaks: Arc<Peaks>,
    budget: Budget,
}

impl Watch {
    /// Returns the most bytes held in `space` since the watch began.
    pub fn peak(&self, space: Space) -> u64 {
        self.peaks[space as usize].load(Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.budget.0.n_watches.fetch_sub(1, Relaxed);
    }
}

fn refused(space: Space, bytes: u64, held: u64, limit: u64) -> Error {
    let [more, used] = [bytes, held].map(refusal::show_size);
    let what = format!("{more} more of {} memory, beside {used} in use,", space.name());
    Error::new(ErrorKind::Memory, refusal::sentence(what, held.saturating_add(bytes), limit))
        .with_hint(Remedy::RaiseMemoryLimit { least: None })
        .or_hint("use smaller batches or chunks")
}

/// Bytes counted in a [`Budget`] until dropped.
#[derive(Debug)]
#[must_use = "the bytes are given back when the reservation is dropped"]
pub struct Reservation {
    budget: Budget,
    /// That of the process, where it counts these bytes beside `budget`.
    process: Option<&'static Budget>,
    space: Space,
    bytes: u64,
}

impl Reservation {
    /// Returns the number of bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.spaces[self.space as usize].subtract(self.bytes);
        self.budget.0.domains[self.budget.domain(self.space)].subtract(self.bytes);
        if let Some(process) = self.process {
            process.0.spaces[self.space as usize].subtract(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_before_it_counts() {
        let budget = Budget::new(100, 10);
        let held = budget.reserve(Space::Host, 60).unwrap();
        let refused = budget.reserve(Space::Pinned, 41).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
        assert_eq!(
            refused.to_string(),
            "41B more of pinned memory, beside 60B in use, needs 101B; the memory limit is 100B"
        );
        assert_eq!(budget.usage(Space::Pinned), Usage::default());
        assert_eq!(budget.reserve(Space::Pinned, 40).unwrap().bytes(), 40);
        drop(held);
        assert_eq!(budget.usage(Space::Host), Usage { now: 0, peak: 60 });
        assert!(budget.reserve(Space::Device, 11).is_err());
        assert!(budget.reserve(Space::Host, u64::MAX).is_err());
    }

    #[test]
    fn shared_memory_is_limited_in_sum() {
        let budget = Budget::limited(100);
        let _host = budget.reserve(Space::Host, 50).unwrap();
        assert_eq!(budget.free(Space::Device), 50);
        assert!(budget.reserve(Space::Device, 51).is_err());
        assert!(budget.reserve(Space::Device, 50).is_ok());
    }

    #[test]
    fn watches_see_the_peak_since_they_began() {
        let budget = Budget::unlimited();
        drop(budget.reserve(Space::Host, 100));
        let outer = budget.watch();
        let _held = budget.reserve(Space::Host, 10);
        let inner = budget.watch();
        assert_eq!(inner.peak(Space::Host), 10);
        drop(budget.reserve(Space::Host, 5));
        assert_eq!((outer.peak(Space::Host), inner.peak(Space::Host)), (15, 15));
        drop(inner);
        drop(budget.reserve(Space::Host, 30));
        assert_eq!(outer.peak(Space::Host), 40);
        assert_eq!(budget.usage(Space::Host).peak, 100);
    }

    #[test]
    fn the_process_counts_what_all_budgets_hold() {
        // Other tests of the process reserve at the same time, but never this much.
        const MUCH: u64 = 1 << 50;
        let watch = Budget::process().watch();
        let [first, second] = [Budget::unlimited(), Budget::unlimited()];
        let held = [first.reserve(Space::Device, MUCH).unwrap(), second.reserve(Space::Device, MUCH).unwrap()];
        assert!(Budget::process().usage(Space::Device).now >= 2 * MUCH);
        drop(held);
        assert!(Budget::process().usage(Space::Device).now < MUCH);
        assert!((2 * MUCH..3 * MUCH).contains(&watch.peak(Space::Device)));
        let own = Budget::process().reserve(Space::Device, MUCH).unwrap();
        assert!(Budget::process().usage(Space::Device).now < 2 * MUCH, "counted once");
        drop(first.reserve(Space::Device, u64::MAX).unwrap());
        drop(own);
        assert!(Budget::process().usage(Space::Device).now < MUCH);
    }

    #[test]
    fn never_passes_the_limit_from_many_threads() {
        let budget = Budget::new(1000, 0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for bytes in (1..200).cycle().take(20_000) {
                        let _ = budget.reserve(Space::Host, bytes);
                    }
                });
            }
        });
        let usage = budget.usage(Space::Host);
        assert_eq!(usage.now, 0);
        assert!(usage.peak <= 1000, "peak {}", usage.peak);
    }
}
