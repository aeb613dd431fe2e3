//! The memory that a candidate may use.

use std::fmt;

use crate::Remedy;
use crate::config::{Config, Profile};
use crate::text::size;

pub(in crate::optimize::search) const MIB: u64 = 1 << 20;
/// Runs of one candidate differ by up to a sixteenth.
const SHARE: u64 = 16;

/// A number of bytes and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::optimize::search) enum Bound {
    /// The user's limit.
    Limit(u64),
    /// The free memory of the machine.
    Free(u64),
}

impl Bound {
    /// Returns the user's limit; under `field`, at most the free memory.
    pub(in crate::optimize::search) fn of(config: &Config, free_bytes: Option<u64>) -> Option<Self> {
        let limit = config.memory_limit.value.bytes();
        let free = free_bytes.filter(|_| config.profile.value == Profile::Field);
        match (limit, free) {
            (Some(limit), Some(free)) if free < limit => Some(Self::Free(free)),
            (None, Some(free)) => Some(Self::Free(free)),
            (limit, _) => limit.map(Self::Limit),
        }
    }

    pub(in crate::optimize::search) fn bytes(self) -> u64 {
        let (Self::Limit(bytes) | Self::Free(bytes)) = self;
        bytes
    }

    /// Returns whether a candidate with this measured peak stays within the bound in other runs
    /// too.
    pub(in crate::optimize::search) fn fits(self, peak_bytes: u64, threads: usize) -> bool {
        peak_bytes <= most_peak_bytes(self.bytes(), threads)
    }

    /// Returns how the user can raise the bound; `least` is a sufficient limit.
    pub(in crate::optimize::search) fn remedy(self, least: Option<u64>) -> Remedy {
        match self {
            Self::Limit(_) => Remedy::RaiseMemoryLimit { least },
            Self::Free(_) => "end other programs, or make the input shorter".into(),
        }
    }
}

/// Returns the largest measured peak that other runs keep within `bytes`. They may take more: the
/// allocator a share, and the process and each thread the pages of code and counters that another
/// run happens to touch.
pub(in crate::optimize::search) fn most_peak_bytes(bytes: u64, threads: usize) -> u64 {
    bytes.saturating_sub(untouched_bytes(threads)) / (SHARE + 1) * SHARE
}

/// Returns the least bound, in whole MiB, for a measured peak.
pub(in crate::optimize::search) fn least_bytes(peak_bytes: u64, threads: usize) -> u64 {
    let bytes = peak_bytes.div_ceil(SHARE).saturating_mul(SHARE + 1).saturating_add(untouched_bytes(threads));
    bytes.checked_next_multiple_of(MIB).unwrap_or(u64::MAX)
}

fn untouched_bytes(threads: usize) -> u64 {
    MIB.saturating_mul((threads as u64).saturating_add(1))
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(bytes) => write!(f, "the limit is {}", size::show(*bytes)),
            Self::Free(bytes) => write!(f, "{} of memory is free", size::show(*bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_counts_under_field_only() {
        let of = |profile: &str, limit: &str| {
            let config = Config::of_flags(&[("profile", profile), ("memory_limit", limit)]);
            Bound::of(&config, Some(1 << 20))
        };
        assert_eq!(of("field", "none"), Some(Bound::Free(1 << 20)));
        assert_eq!(of("field", "2MiB"), Some(Bound::Free(1 << 20)));
        assert_eq!(of("field", "1KiB"), Some(Bound::Limit(1024)));
        assert_eq!(of("training", "none"), None);
        assert_eq!(of("emergency", "2MiB"), Some(Bound::Limit(2 << 20)));
        assert_eq!(Bound::Free(3 << 20).to_string(), "3MiB of memory is free");
    }

    #[test]
    fn the_least_bound_of_a_peak_leaves_room_for_other_runs() {
        for threads in [1, 2, 64] {
            for peak in [1, 4095, MIB, 24 * MIB + 12_345, 600 * MIB + 1, 40 << 30] {
                let least = least_bytes(peak, threads);
                assert!(Bound::Limit(least).fits(peak, threads) && least.is_multiple_of(MIB), "{peak}");
                assert!(least >= peak + peak / 16 + (1 + threads as u64) * MIB, "{peak}: {least}");
                assert!(!Bound::Limit(least - 2 * MIB).fits(peak, threads), "{peak}: {least}");
            }
        }
        assert_eq!(least_bytes(u64::MAX, usize::MAX), u64::MAX);
        assert!(!Bound::Limit(MIB).fits(1, 1));
    }
}
