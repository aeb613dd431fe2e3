//! The memory that a candidate may use, beside the program itself.

use std::fmt;

use crate::Remedy;
use crate::config::{Config, Profile};
use crate::runtime::memory;
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
        let free = free_bytes.filter(|_| config.profile.value == Profile::Field);
        Self::least(config.memory_limit.value.bytes(), free)
    }

    /// Returns the lower of the user's limit and the free memory.
    pub(in crate::optimize::search) fn least(limit_bytes: Option<u64>, free_bytes: Option<u64>) -> Option<Self> {
        match (limit_bytes, free_bytes) {
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
    pub(in crate::optimize::search) fn fits(self, peak: Peak) -> bool {
        peak.bytes <= most_peak_bytes(self.bytes().saturating_add(peak.program_bytes), peak.threads)
    }

    /// Appends the bound to a message about memory that does not name it.
    pub(in crate::optimize::search) fn after(self, message: &str) -> String {
        let bound = self.to_string();
        if message.ends_with(&bound) { message.to_owned() } else { format!("{message}; {bound}") }
    }

    /// Returns the sentence for something that needs `bytes`, which is more than there are.
    pub(in crate::optimize::search) fn refusal(self, what: impl fmt::Display, bytes: u64) -> String {
        match self {
            Self::Limit(limit) => memory::too_small(what, bytes, limit).to_string(),
            Self::Free(_) => format!("{what} needs {}; {self}", size::show(bytes)),
        }
    }

    /// Returns how the user can raise the bound; `least` is a sufficient limit.
    pub(in crate::optimize::search) fn remedy(self, least: Option<u64>) -> Remedy {
        match self {
            Self::Limit(_) => Remedy::RaiseMemoryLimit { least },
            Self::Free(_) => "end other programs, or make the input shorter".into(),
        }
    }
}

/// The measured peak of a candidate's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::optimize::search) struct Peak {
    /// Physical memory of the process.
    pub(in crate::optimize::search) bytes: u64,
    /// The part of it that the program takes without a model; 0 if it is unknown.
    pub(in crate::optimize::search) program_bytes: u64,
    /// The threads of the candidate.
    pub(in crate::optimize::search) threads: usize,
}

impl Peak {
    /// Returns what the candidate allocated, which is what a bound counts.
    pub(in crate::optimize::search) fn allocated(self) -> u64 {
        self.bytes.saturating_sub(self.program_bytes)
    }

    /// Returns the largest peak that another run may have.
    pub(in crate::optimize::search) fn raised(self) -> Self {
        let bytes = self.bytes.div_ceil(SHARE).saturating_mul(SHARE + 1);
        Self { bytes: bytes.saturating_add(untouched_bytes(self.threads)), ..self }
    }

    /// Returns the least bound that it fits, in whole MiB.
    pub(in crate::optimize::search) fn least_bound(self) -> u64 {
        self.raised().allocated().max(1).checked_next_multiple_of(MIB).unwrap_or(u64::MAX)
    }
}

/// Returns the largest measured peak that other runs keep within `bytes`. They may take more: the
/// allocator a share, and the process and each thread the pages of code and counters that another
/// run happens to touch.
pub(in crate::optimize::search) fn most_peak_bytes(bytes: u64, threads: usize) -> u64 {
    bytes.saturating_sub(untouched_bytes(threads)) / (SHARE + 1) * SHARE
}

fn untouched_bytes(threads: usize) -> u64 {
    MIB.saturating_mul((threads as u64).saturating_add(1))
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(bytes) => write!(f, "the memory limit is {}", size::show(*bytes)),
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
            for bytes in [1, 4095, MIB, 24 * MIB + 12_345, 600 * MIB + 1, 40 << 30] {
                let peak = Peak { bytes, program_bytes: 0, threads };
                let least = peak.least_bound();
                assert!(Bound::Limit(least).fits(peak) && least.is_multiple_of(MIB), "{peak:?}");
                assert!(least >= bytes + bytes / 16 + (1 + threads as u64) * MIB, "{peak:?}: {least}");
                assert!(!Bound::Limit(least - 2 * MIB).fits(peak), "{peak:?}: {least}");
            }
        }
        let all = Peak { bytes: u64::MAX, program_bytes: 0, threads: usize::MAX };
        assert_eq!(all.least_bound(), u64::MAX);
        assert!(!Bound::Limit(MIB).fits(Peak { bytes: 1, program_bytes: 0, threads: 1 }));
    }

    #[test]
    fn a_bound_does_not_count_the_program_itself() {
        let peak = |bytes: u64| Peak { bytes: bytes * MIB, program_bytes: 30 * MIB, threads: 1 };
        assert_eq!(peak(62).allocated(), 32 * MIB);
        assert_eq!(peak(20).allocated(), 0, "a process that did not load everything");
        // 62 MiB, a sixteenth and 2 MiB, without 30 MiB.
        assert_eq!(peak(62).least_bound(), 38 * MIB);
        assert!(Bound::Limit(38 * MIB).fits(peak(62)) && !Bound::Limit(36 * MIB).fits(peak(62)));
        assert_eq!(peak(20).least_bound(), MIB, "no bound is zero");
        let sentence = |bound: Bound| bound.refusal("it", peak(62).allocated());
        assert_eq!(sentence(Bound::Limit(30 * MIB)), "it needs 32MiB; the memory limit is 30MiB");
        assert_eq!(sentence(Bound::Free(30 * MIB)), "it needs 32MiB; 30MiB of memory is free");
    }
}
