//! Memory by named scope: what was held at entry and exit, and the most in between.
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use melisma_kernels::Watch;
pub use melisma_kernels::{Budget, Reservation, Space, Usage};

use super::config::Limit;
use super::device::Device;
use super::table::{Align, Table};
use super::{machine, size};
use crate::Result;

/// A budget for `limit`: on host and device each, or on their sum where `device` shares the host's memory.
pub fn budget(limit: Limit, device: &Device) -> Budget {
    let shares_memory = matches!(device, Device::Cuda(cuda) if cuda.shares_memory());
    match limit.bytes() {
        None => Budget::unlimited(),
        Some(bytes) if shares_memory => Budget::shared(bytes),
        Some(bytes) => Budget::new(bytes, bytes),
    }
}

/// What all calls of one scope held, per space in the order of [`Space::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScopeUse {
    /// How many times the scope was left.
    pub calls: u64,
    /// Bytes held at the last entry.
    pub entry: [u64; 3],
    /// The most bytes held inside any call.
    pub peak: [u64; 3],
    /// Bytes held at the last exit.
    pub exit: [u64; 3],
}

#[derive(Debug, Default)]
struct State {
    closed: BTreeMap<String, ScopeUse>,
    device: Option<(String, u64)>,
}

/// Scopes over a [`Budget`]; clones count together.
#[derive(Debug, Clone)]
pub struct MemoryTracker {
    budget: Budget,
    state: Arc<Mutex<State>>,
}

impl MemoryTracker {
    /// A tracker with no scopes yet.
    pub fn new(budget: Budget) -> Self {
        Self { budget, state: Arc::default() }
    }

    /// The budget under it.
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
    /// [`Kind::Memory`](crate::Kind) when the limit would be exceeded.
    pub fn reserve(&self, space: Space, bytes: u64) -> Result<Reservation> {
        self.budget.reserve(space, bytes)
    }

    /// Records what the device itself says it has in use.
    pub fn device_reports(&self, device: impl Into<String>, bytes: u64) {
        self.state().device = Some((device.into(), bytes));
    }

    /// All scopes that were closed, by name.
    pub fn scopes(&self) -> BTreeMap<String, ScopeUse> {
        self.state().closed.clone()
    }

    /// The table of everything, as it is now.
    pub fn summary(&self) -> Summary {
        Summary {
            total: Space::ALL.map(|space| self.budget.usage(space)),
            limit: Space::ALL.map(|space| self.budget.limit(space)),
            scopes: self.scopes(),
            peak_resident_bytes: machine::peak_resident_bytes(),
            device: self.state().device.clone(),
        }
    }

    fn now(&self) -> [u64; 3] {
        Space::ALL.map(|space| self.budget.usage(space).now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut state = self.tracker.state();
        let total = state.closed.entry(std::mem::take(&mut self.name)).or_default();
        total.calls += 1;
        total.entry = self.entry;
        total.exit = exit;
        total.peak = [0, 1, 2].map(|i| total.peak[i].max(peak[i]));
    }
}

/// Memory now, peak and limit, per space and scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The whole budget, per space.
    pub total: [Usage; 3],
    /// The limits, per space.
    pub limit: [Option<u64>; 3],
    /// The closed scopes.
    pub scopes: BTreeMap<String, ScopeUse>,
    /// The most physical memory this process has had.
    pub peak_resident_bytes: Option<u64>,
    /// The device's name and what it says it has in use.
    pub device: Option<(String, u64)>,
}

impl Summary {
    /// One row per scope, under the whole budget.
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
            table.push(row(name, scope.calls.to_string(), cells(scope.exit, scope.peak)));
        }
        table
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table().text())?;
        let limit = |space: Space| self.limit[space as usize].map_or_else(|| "none".to_owned(), size::show);
        writeln!(f, "limit: host and pinned {}, device {}", limit(Space::Host), limit(Space::Device))?;
        if let Some(bytes) = self.peak_resident_bytes {
            writeln!(f, "{}", resident_text(bytes))?;
        }
        if let Some((device, bytes)) = &self.device {
            writeln!(f, "in use on {device}, as it says: {}", size::show(*bytes))?;
        }
        f.write_str("counted: pools, tensors and reservations; not: allocations of foreign code\n")
    }
}

/// The most physical memory that this process has had, in words.
pub fn resident_line() -> Option<String> {
    machine::peak_resident_bytes().map(resident_text)
}

fn resident_text(bytes: u64) -> String {
    format!("peak resident memory of the process: {}", size::show(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

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
        for bytes in [100, 200] {
            let _scope = tracker.scope("pool");
            drop(tracker.budget().reserve(Space::Pinned, bytes).unwrap());
        }
        assert_eq!(tracker.scopes()["pool"], ScopeUse { calls: 2, peak: [0, 200, 0], ..ScopeUse::default() });
    }

    #[test]
    fn refuses_beyond_the_limit_and_says_so_in_the_table() {
        let tracker = MemoryTracker::new(budget(Limit(std::num::NonZeroU64::new(1 << 20)), &Device::cpu().unwrap()));
        assert_eq!(tracker.reserve(Space::Host, (1 << 20) + 1).unwrap_err().kind(), Kind::Memory);
        tracker.device_reports("cuda:0", 3 << 30);
        drop(tracker.scope("decode"));
        let text = tracker.summary().to_string();
        assert!(text.contains("limit: host and pinned 1MiB, device 1MiB"), "{text}");
        assert!(text.contains("in use on cuda:0, as it says: 3GiB"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("decode")), "{text}");
    }
}
