//! Tracks memory by named scope: bytes at entry and exit, and the peak in between.
//!
//! ```
//! use melisma::runtime::memory::{Budget, MemoryTracker, Space};
//!
//! let tracker = MemoryTracker::new(Budget::new(1 << 20, 0));
//! {
//!     let decode = tracker.scope("decode");
//!     let _codes = tracker.reserve(Space::Host, 4096)?;
//!     let _upsample = decode.scope("upsample");
//! }
//! println!("{}", tracker.summary());
//! # Ok::<(), melisma::Error>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use melisma_kernels::Watch;
use melisma_kernels::lock::Mutex;
#[doc(no_inline)]
pub use melisma_kernels::{Budget, Reservation, Space, Usage};

use super::device::Device;
use super::machine;
use crate::Result;
use crate::config::Limit;
use crate::text::size;
use crate::text::table::{Align, Table};

/// If a GPU shares memory with the host, one part in this many is reserved for the system, within
/// these bounds.
const SYSTEM_PART: u64 = 8;
const SYSTEM_BYTES: [u64; 2] = [256 << 20, 2 << 30];

/// The available memory of a machine and a device at one time, in bytes, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[doc(hidden)]
#[non_exhaustive]
pub struct Available {
    /// Total host memory.
    pub total: Option<u64>,
    /// Free host memory.
    pub host: Option<u64>,
    /// Free device memory.
    pub device: Option<u64>,
    /// Whether host and device share one memory, as on Jetson boards.
    pub is_shared: bool,
}

impl Available {
    /// Reads the current figures.
    pub fn detect(device: &Device) -> Self {
        let (device, is_shared) = match device {
            Device::Cpu(_) => (None, false),
            Device::Cuda(cuda) => (cuda.memory().ok().map(|(free, _)| free), cuda.shares_memory()),
        };
        Self { total: machine::memory_bytes(), host: machine::free_bytes(), device, is_shared }
    }

    /// Free bytes in `space`.
    pub fn free(&self, space: Space) -> Option<u64> {
        let own = if space == Space::Device { self.device } else { self.host };
        // With shared memory, the driver counts memory that the system could reclaim as used.
        if self.is_shared { self.host.or(own) } else { own }
    }

    /// A budget for `limit`: on host and device each, or on their sum if they share memory. A
    /// machine with shared memory freezes when it runs out, so even without a limit some is
    /// reserved for the system.
    pub fn budget(&self, limit: Limit) -> Budget {
        match (limit.bytes(), self.free(Space::Host).filter(|_| self.is_shared)) {
            (None, Some(free)) => {
                let part = self.total.unwrap_or(free) / SYSTEM_PART;
                Budget::limited(free.saturating_sub(part.clamp(SYSTEM_BYTES[0], SYSTEM_BYTES[1])))
            }
            (None, None) => Budget::unlimited(),
            (Some(bytes), _) if self.is_shared => Budget::limited(bytes),
            (Some(bytes), _) => Budget::new(bytes, bytes),
        }
    }
}

/// Memory that a piece of work takes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needed {
    /// Pageable and pinned host memory.
    pub host: u64,
    /// Device memory of its own; 0 on the CPU.
    pub device: u64,
}

/// A budget of at most `limit` for the memory that `device` has now.
pub fn budget(limit: Limit, device: &Device) -> Budget {
    Available::detect(device).budget(limit)
}

/// Memory held by all calls of one scope, per space in the order of [`Space::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeUse {
    /// How many times the scope was left.
    pub calls: u64,
    /// Bytes held at the last entry.
    pub entry: [u64; 3],
    /// Peak bytes held inside any call.
    pub peak: [u64; 3],
    /// Bytes held at the last exit.
    pub exit: [u64; 3],
}

#[derive(Debug, Default)]
struct State {
    closed: BTreeMap<String, ScopeUse>,
    device: Option<(String, u64)>,
}

/// Scopes over a [`Budget`]; clones share their counts.
#[derive(Debug, Clone)]
pub struct MemoryTracker {
    budget: Budget,
    state: Arc<Mutex<State>>,
}

impl From<Budget> for MemoryTracker {
    fn from(budget: Budget) -> Self {
        Self::new(budget)
    }
}

impl MemoryTracker {
    /// A tracker without scopes.
    pub fn new(budget: Budget) -> Self {
        Self { budget, state: Arc::default() }
    }

    /// The underlying budget.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Opens a scope until the guard is dropped.
    pub fn scope(&self, name: impl Into<String>) -> Scope {
        let (entry, watch) = (self.now(), self.budget.watch());
        Scope { tracker: self.clone(), name: name.into(), entry, watch }
    }

    /// Runs `work` in a scope called `name`.
    pub fn track<R>(&self, name: impl Into<String>, work: impl FnOnce() -> R) -> R {
        let _scope = self.scope(name);
        work()
    }

    /// Counts `bytes` like [`Budget::reserve`].
    ///
    /// # Errors
    /// [`ErrorKind::Memory`](crate::ErrorKind) when the limit would be exceeded.
    pub fn reserve(&self, space: Space, bytes: u64) -> Result<Reservation> {
        self.budget.reserve(space, bytes)
    }

    /// Records the memory in use as reported by the device.
    pub fn device_reports(&self, device: impl Into<String>, bytes: u64) {
        self.state.lock().device = Some((device.into(), bytes));
    }

    /// All closed scopes, by name.
    pub fn scopes(&self) -> BTreeMap<String, ScopeUse> {
        self.state.lock().closed.clone()
    }

    /// The current figures.
    pub fn summary(&self) -> Summary {
        Summary {
            total: Space::ALL.map(|space| self.budget.usage(space)),
            limit: Space::ALL.map(|space| self.budget.limit(space)),
            scopes: self.scopes(),
            peak_resident_bytes: machine::peak_resident_bytes(),
            device: self.state.lock().device.clone(),
        }
    }

    fn now(&self) -> [u64; 3] {
        Space::ALL.map(|space| self.budget.usage(space).now)
    }
}

/// An open scope.
#[derive(Debug)]
#[must_use = "the scope ends when this is dropped"]
pub struct Scope {
    tracker: MemoryTracker,
    name: String,
    entry: [u64; 3],
    watch: Watch,
}

impl Scope {
    /// Opens a scope inside this one, named `outer/inner`.
    pub fn scope(&self, name: &str) -> Scope {
        self.tracker.scope(format!("{}/{name}", self.name))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let exit = self.tracker.now();
        let peak = Space::ALL.map(|space| self.watch.peak(space));
        let mut state = self.tracker.state.lock();
        let total = state.closed.entry(std::mem::take(&mut self.name)).or_default();
        total.calls += 1;
        total.entry = self.entry;
        total.exit = exit;
        total.peak = [0, 1, 2].map(|i| total.peak[i].max(peak[i]));
    }
}

/// Current memory, peak and limit, per space and scope.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The whole budget, per space.
    pub total: [Usage; 3],
    /// The limits, per space.
    pub limit: [Option<u64>; 3],
    /// The closed scopes.
    pub scopes: BTreeMap<String, ScopeUse>,
    /// Peak physical memory of this process.
    pub peak_resident_bytes: Option<u64>,
    /// The device's name and its reported memory in use.
    pub device: Option<(String, u64)>,
}

impl Summary {
    /// One row per scope, below the whole budget.
    #[doc(hidden)]
    pub fn table(&self) -> Table {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("scope", Align::Left),
            right("calls"),
            right("host now"),
            right("host peak"),
            right("pinned now"),
            right("pinned peak"),
            right("device now"),
            right("device peak"),
        ]);
        let cells = |now: [u64; 3], peak: [u64; 3]| [0, 1, 2].map(|i| [size::show(now[i]), size::show(peak[i])]);
        let row = |name: &str, calls: String, cells: [[String; 2]; 3]| {
            [name.to_owned(), calls].into_iter().chain(cells.into_iter().flatten()).collect::<Vec<_>>()
        };
        table.push(row(
            "all",
            "-".to_owned(),
            cells(self.total.map(|use_| use_.now), self.total.map(|use_| use_.peak)),
        ));
        for (name, scope) in &self.scopes {
            // A scope that was left holds nothing any more.
            let peaks = scope.peak.map(|peak| ["-".to_owned(), size::show(peak)]);
            table.push(row(name, scope.calls.to_string(), peaks));
        }
        table
    }
}

impl Summary {
    /// The lines below the table.
    #[doc(hidden)]
    pub fn footer(&self) -> String {
        let limit = |space: Space| self.limit[space as usize].map_or_else(|| "none".to_owned(), size::show);
        let mut text = format!("limit: host and pinned {}, device {}\n", limit(Space::Host), limit(Space::Device));
        if let Some(bytes) = self.peak_resident_bytes {
            text += &format!("{}\n", resident_text(bytes));
        }
        if let Some((device, bytes)) = &self.device {
            text += &format!("in use on {device}, as it says: {}\n", size::show(*bytes));
        }
        text + "counted: pools, tensors and reservations; not: allocations of foreign code\n"
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table().text())?;
        f.write_str(&self.footer())
    }
}

/// A sentence about the peak physical memory of this process.
#[doc(hidden)]
pub fn resident_line() -> Option<String> {
    machine::peak_resident_bytes().map(resident_text)
}

fn resident_text(bytes: u64) -> String {
    format!("peak resident memory of the process: {}", size::show(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn scopes_nest_and_keep_their_own_peaks() {
        let tracker = MemoryTracker::new(Budget::new(1000, 500));
        let base = tracker.reserve(Space::Host, 10).unwrap();
        {
            let outer = tracker.scope("outer");
            drop(tracker.reserve(Space::Host, 300).unwrap());
            {
                let _inner = outer.scope("inner");
                drop(tracker.reserve(Space::Host, 100).unwrap());
                drop(tracker.reserve(Space::Device, 50).unwrap());
            }
        }
        let scopes = tracker.scopes();
        assert_eq!(scopes["outer"].peak, [310, 0, 50]);
        assert_eq!(scopes["outer/inner"].peak, [110, 0, 50]);
        assert_eq!((scopes["outer"].entry, scopes["outer"].exit), ([10, 0, 0], [10, 0, 0]));
        drop(base);
        assert_eq!(tracker.budget().usage(Space::Host).now, 0);
    }

    #[test]
    fn sees_direct_reservations_below_an_earlier_maximum() {
        let tracker = MemoryTracker::new(Budget::unlimited());
        drop(tracker.budget().reserve(Space::Pinned, 900).unwrap());
        for bytes in [100, 200, 50] {
            let _scope = tracker.scope("pool");
            drop(tracker.budget().reserve(Space::Pinned, bytes).unwrap());
        }
        assert_eq!(tracker.scopes()["pool"], ScopeUse { calls: 3, peak: [0, 200, 0], ..ScopeUse::default() });
    }

    #[test]
    fn shared_memory_leaves_room_for_the_system() {
        let none = Limit::NONE;
        // A board with 8 GiB, of which 6 GiB are free.
        let board = Available { total: Some(8 << 30), host: Some(6 << 30), device: Some(1 << 30), is_shared: true };
        let budget = board.budget(none);
        assert_eq!(budget.limit(Space::Host), Some(5 << 30));
        let _model = budget.reserve(Space::Device, 3 << 30).unwrap();
        assert_eq!(budget.free(Space::Host), 2 << 30, "both take from the same memory");
        assert_eq!(budget.reserve(Space::Host, 3 << 30).unwrap_err().kind(), ErrorKind::Memory);
        let small = Available { total: Some(1 << 30), host: Some(512 << 20), ..board };
        assert_eq!(small.budget(none).limit(Space::Device), Some(256 << 20), "at least 256 MiB stay");
        let asked = Limit(std::num::NonZeroU64::new(7 << 30));
        let asked = board.budget(asked);
        assert_eq!(asked.limit(Space::Host), Some(7 << 30), "who gives a limit means it");
        let _model = asked.reserve(Space::Device, 3 << 30).unwrap();
        assert_eq!(asked.free(Space::Host), 4 << 30, "a limit is one for both");
        let desktop = Available { is_shared: false, ..board };
        assert_eq!(desktop.budget(none).limit(Space::Host), None);
        assert_eq!((desktop.free(Space::Host), desktop.free(Space::Device)), (Some(6 << 30), Some(1 << 30)));
    }

    #[test]
    fn a_scope_that_was_left_shows_its_peak_and_no_bytes_that_are_gone() {
        let tracker = MemoryTracker::new(Budget::unlimited());
        let scope = tracker.scope("decode");
        let held = tracker.reserve(Space::Host, 512 << 10).unwrap();
        drop(scope);
        drop(held);
        let text = tracker.summary().to_string();
        let line = text.lines().find(|line| line.starts_with("decode")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells, ["decode", "1", "-", "512KiB", "-", "0B", "-", "0B"], "{text}");
    }

    #[test]
    fn refuses_beyond_the_limit_and_says_so_in_the_table() {
        let tracker = MemoryTracker::new(budget(Limit(std::num::NonZeroU64::new(1 << 20)), &Device::cpu().unwrap()));
        assert_eq!(tracker.reserve(Space::Host, (1 << 20) + 1).unwrap_err().kind(), ErrorKind::Memory);
        tracker.device_reports("cuda:0", 3 << 30);
        drop(tracker.scope("decode"));
        let text = tracker.summary().to_string();
        assert!(text.contains("limit: host and pinned 1MiB, device 1MiB"), "{text}");
        assert!(text.contains("in use on cuda:0, as it says: 3GiB"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("decode")), "{text}");
    }
}
