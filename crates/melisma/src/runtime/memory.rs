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
use std::sync::{Arc, OnceLock};

use melisma_kernels::Watch;
use melisma_kernels::lock::Mutex;
use melisma_kernels::memory::refusal;
#[doc(no_inline)]
pub use melisma_kernels::{Budget, Reservation, Space, Usage};

pub use super::available::{Available, Needed, budget};
use super::machine;
use crate::text::size;
use crate::text::table::{Align, Table, one_line};
use crate::{Error, Result};

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
    open: Vec<String>,
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
    /// Creates a tracker without scopes.
    pub fn new(budget: Budget) -> Self {
        Self { budget, state: Arc::default() }
    }

    /// Returns the underlying budget.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Opens a scope until the guard is dropped.
    pub fn scope(&self, name: impl Into<String>) -> Scope {
        let (entry, watch, name) = (self.now(), self.budget.watch(), name.into());
        self.state.lock().open.push(name.clone());
        Scope { tracker: self.clone(), name, entry, watch }
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

    /// Returns all closed scopes, by name.
    pub fn scopes(&self) -> BTreeMap<String, ScopeUse> {
        self.state.lock().closed.clone()
    }

    /// Returns the current figures.
    pub fn summary(&self) -> Summary {
        let mut open_scopes = self.state.lock().open.clone();
        open_scopes.sort_unstable();
        Summary {
            total: Space::ALL.map(|space| self.budget.usage(space)),
            limit: Space::ALL.map(|space| self.budget.limit(space)),
            scopes: self.scopes(),
            open_scopes,
            peak_resident_bytes: machine::peak_resident_bytes(),
            program_bytes: program_bytes(),
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
        if let Some(at) = state.open.iter().position(|name| *name == self.name) {
            state.open.swap_remove(at);
        }
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
    /// The names of open scopes.
    pub open_scopes: Vec<String>,
    /// Peak physical memory of this process.
    pub peak_resident_bytes: Option<u64>,
    /// The part of it that the program itself took, as [`program_bytes`] returns it.
    pub program_bytes: Option<u64>,
    /// The device's name and its reported memory in use.
    pub device: Option<(String, u64)>,
}

impl Summary {
    /// Returns one row per scope, below the whole budget.
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

    /// Returns the lines below the table.
    #[doc(hidden)]
    pub fn footer(&self) -> String {
        let limit = |space: Space| size::show_limit(self.limit[space as usize]);
        let mut text = format!("limit: host and pinned {}, device {}\n", limit(Space::Host), limit(Space::Device));
        if !self.open_scopes.is_empty() {
            let names = one_line(&self.open_scopes.join(", "));
            text += &format!("scopes that are still open, and are not counted: {names}\n");
        }
        text += &resident_text(self.peak_resident_bytes, self.program_bytes);
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

/// Returns lines about the physical memory of this process and of the program itself.
#[doc(hidden)]
pub fn resident_lines() -> String {
    resident_text(machine::peak_resident_bytes(), program_bytes())
}

fn resident_text(peak: Option<u64>, program: Option<u64>) -> String {
    let line = |name: &str, bytes: Option<u64>| {
        bytes.map_or_else(String::new, |bytes| format!("{name}: {}\n", size::show(bytes)))
    };
    line("peak resident memory of the process", peak) + &line("resident memory of the program itself", program)
}

/// Returns the physical memory of the program itself: that of this process at the first call, which
/// programs make before they work. A memory limit does not count it.
#[doc(hidden)]
pub fn program_bytes() -> Option<u64> {
    static BYTES: OnceLock<Option<u64>> = OnceLock::new();
    *BYTES.get_or_init(machine::resident_bytes)
}

/// Returns the error for `what`, which needs `needed` bytes in all under a limit of `limit`.
#[doc(hidden)]
pub fn too_small(what: impl fmt::Display, needed: u64, limit: u64) -> Error {
    refusal::too_small(what, needed, limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::config::Limit;
    use crate::runtime::device::Device;

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
                let text = tracker.summary().footer();
                assert!(text.contains("still open, and are not counted: outer, outer/inner\n"), "{text}");
            }
        }
        assert!(tracker.summary().open_scopes.is_empty());
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
    fn the_program_itself_is_what_it_was_at_first() {
        let first = program_bytes();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        assert_eq!(program_bytes(), first);
        let text = MemoryTracker::new(Budget::unlimited()).summary().footer();
        drop(held);
        if let Some(bytes) = first {
            let line = format!("resident memory of the program itself: {}\n", size::show(bytes));
            assert!(text.contains(&line), "{text}");
        }
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
