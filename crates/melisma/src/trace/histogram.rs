//! Percentiles of any number of durations in bounded memory, accurate to 0.8 %.
//!
//! Each power of two is divided into 64 equal buckets, so a bucket is at most 1/64 of its value
//! wide, and its middle is at most 1/128 off. Values below 128 are exact.

use std::collections::BTreeMap;

const BITS: u32 = 6;

/// Counts of nanoseconds by bucket.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    counts: BTreeMap<u16, u64>,
    total: u64,
    largest: u64,
}

impl Histogram {
    pub fn add(&mut self, nanos: u64) {
        *self.counts.entry(bucket(nanos)).or_default() += 1;
        self.total += 1;
        self.largest = self.largest.max(nanos);
    }

    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            *self.counts.entry(*bucket).or_default() += count;
        }
        self.total += other.total;
        self.largest = self.largest.max(other.largest);
    }

    /// Returns the smallest value that at least `share` of all values do not exceed; 0 if there are
    /// none.
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = ((share * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, count) in &self.counts {
            seen += count;
            if seen >= wanted {
                return middle(*bucket).min(self.largest);
            }
        }
        0
    }
}

fn bucket(nanos: u64) -> u16 {
    let shift = (63 - (nanos | 1).leading_zeros()).saturating_sub(BITS);
    // The leading bit stays in the mantissa: 64..128 after the shift, below 64 only without a
    // shift.
    (shift as u16) * (1 << BITS) + (nanos >> shift) as u16
}

fn middle(bucket: u16) -> u64 {
    let shift = (u32::from(bucket) >> BITS).saturating_sub(1);
    let mantissa = u64::from(bucket) - u64::from(shift) * (1 << BITS);
    (mantissa << shift) + ((1u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_are_within_a_hundredth() {
        for power in 0..64 {
            for offset in [0, 1, 3, 1000, 12345] {
                let nanos = (1u64 << power).saturating_add(offset);
                let error = middle(bucket(nanos)).abs_diff(nanos) as f64 / nanos as f64;
                assert!(error <= 1.0 / 128.0, "{nanos}: {error}");
            }
        }
        assert_eq!([0, 1, 127].map(|nanos| middle(bucket(nanos))), [0, 1, 127]);
    }

    #[test]
    fn percentiles_of_a_ramp() {
        let mut low = Histogram::default();
        let mut high = Histogram::default();
        (1..=500).for_each(|i| low.add(i * 1000));
        (501..=1000).for_each(|i| high.add(i * 1000));
        low.merge(&high);
        for (share, expected) in [(0.5, 500_000.0), (0.95, 950_000.0), (0.99, 990_000.0)] {
            let found = low.percentile(share) as f64;
            assert!((found / expected - 1.0).abs() < 0.01, "{share}: {found}");
        }
        assert_eq!(Histogram::default().percentile(0.5), 0);
        let mut one = Histogram::default();
        one.add(128);
        assert_eq!(one.percentile(0.99), 128, "no percentile exceeds the largest value");
    }
}
