//! The memory that a candidate may use.

use std::fmt;

use crate::Remedy;
use crate::config::{Config, Profile};
use crate::text::size;

/// A number of bytes and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// The user's limit.
    Limit(u64),
    /// The free memory of the machine.
    Free(u64),
}

impl Bound {
    /// The user's limit; under `field`, at most the free memory.
    pub(super) fn of(config: &Config, free_bytes: Option<u64>) -> Option<Self> {
        let limit = config.memory_limit.value.bytes();
        let free = free_bytes.filter(|_| config.profile.value == Profile::Field);
        match (limit, free) {
            (Some(limit), Some(free)) if free < limit => Some(Self::Free(free)),
            (None, Some(free)) => Some(Self::Free(free)),
            (limit, _) => limit.map(Self::Limit),
        }
    }

    pub(super) fn bytes(self) -> u64 {
        let (Self::Limit(bytes) | Self::Free(bytes)) = self;
        bytes
    }

    /// How the user can raise the bound; `least` is a sufficient limit.
    pub(super) fn remedy(self, least: Option<u64>) -> Remedy {
        match self {
            Self::Limit(_) => Remedy::RaiseMemoryLimit { least },
            Self::Free(_) => "end other programs, or make the input shorter".into(),
        }
    }
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
    use crate::config::Sources;

    #[test]
    fn what_is_free_counts_under_field_only() {
        let of = |profile: &str, limit: &str| {
            let flags = vec![
                ("profile", "--profile", profile.to_owned()),
                ("memory_limit", "--memory-limit", limit.to_owned()),
            ];
            Bound::of(&Config::load(&Sources { flags, ..Sources::default() }).unwrap(), Some(1 << 20))
        };
        assert_eq!(of("field", "none"), Some(Bound::Free(1 << 20)));
        assert_eq!(of("field", "2MiB"), Some(Bound::Free(1 << 20)));
        assert_eq!(of("field", "1KiB"), Some(Bound::Limit(1024)));
        assert_eq!(of("training", "none"), None);
        assert_eq!(of("emergency", "2MiB"), Some(Bound::Limit(2 << 20)));
        assert_eq!(Bound::Free(3 << 20).to_string(), "3MiB of memory is free");
    }
}
