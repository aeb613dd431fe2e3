//! The memory that is available, the budget that it allows, and what a piece of work needs of it.

use std::ops::Add;

use melisma_kernels::{Budget, Space};

use super::device::Device;
use super::machine;
use crate::config::Limit;

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

    /// Returns the free bytes in `space`.
    pub fn free(&self, space: Space) -> Option<u64> {
        let own = if space == Space::Device { self.device } else { self.host };
        // With shared memory, the driver counts memory that the system could reclaim as used.
        if self.is_shared { self.host.or(own) } else { own }
    }

    /// Returns a budget for `limit`: on host and device each, or on their sum if they share memory.
    /// A machine with shared memory freezes when it runs out, so even without a limit some is
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

impl Add for Needed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { host: self.host.saturating_add(other.host), device: self.device.saturating_add(other.device) }
    }
}

/// Returns a budget of at most `limit` for the memory that `device` has now.
pub fn budget(limit: Limit, device: &Device) -> Budget {
    Available::detect(device).budget(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

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
}
