//! Durations and counts in fixed buckets, without a lock.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of values up to each of some bounds, and above the last.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<AtomicU64>,
    /// In millionths, so that sums need no lock.
    sum: AtomicU64,
    /// The bits of the largest value: those of numbers from 0 have the order of the numbers.
    largest: AtomicU64,
}

/// From a tenth of a millisecond to ten seconds.
pub const SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// From a millisecond to an hour.
pub const ANSWERS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0];
/// Streams of a step.
pub const STREAMS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

impl Histogram {
    /// Creates a histogram without values.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0), largest: AtomicU64::new(0) }
    }

    /// Adds a value from 0.
    pub fn add(&self, value: f64) {
        self.largest.fetch_max(value.to_bits(), Relaxed);
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Relaxed);
    }

    /// Returns the bound below which a share of the values lies, between bounds by a straight line, at most the largest
    /// value; `None` without values.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let wanted = share * total as f64;
        let largest = f64::from_bits(self.largest.load(Relaxed));
        let mut below = 0.0;
        for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = count as f64;
            if below + count >= wanted {
                let low = if at == 0 { 0.0 } else { self.bounds[at - 1] };
                let high = self.bounds.get(at).copied().unwrap_or(low);
                return Some((low + (high - low) * ((wanted - below) / count).clamp(0.0, 1.0)).min(largest));
            }
            below += count;
        }
        None
    }

    /// Writes the lines of Prometheus' text format. `label` is empty or like `stage="decode"`.
    pub fn write(&self, name: &str, label: &str, text: &mut String) {
        let comma = if label.is_empty() { "" } else { "," };
        let mut total = 0;
        for (at, count) in self.counts.iter().enumerate() {
            total += count.load(Relaxed);
            let bound = self.bounds.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            let _ = writeln!(text, "{name}_bucket{{{label}{comma}le=\"{bound}\"}} {total}");
        }
        let labels = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        let _ = writeln!(text, "{name}_sum{labels} {}", self.sum.load(Relaxed) as f64 / 1e6);
        let _ = writeln!(text, "{name}_count{labels} {total}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_buckets() {
        let histogram = Histogram::new(&[1.0, 2.0, 4.0]);
        assert_eq!(histogram.quantile(0.5), None);
        [0.5, 1.0, 1.5, 3.0, 9.0].into_iter().for_each(|value| histogram.add(value));
        let mut text = String::new();
        histogram.write("x_seconds", "stage=\"a\"", &mut text);
        let expected = "\
x_seconds_bucket{stage=\"a\",le=\"1\"} 2
x_seconds_bucket{stage=\"a\",le=\"2\"} 3
x_seconds_bucket{stage=\"a\",le=\"4\"} 4
x_seconds_bucket{stage=\"a\",le=\"+Inf\"} 5
x_seconds_sum{stage=\"a\"} 15
x_seconds_count{stage=\"a\"} 5
";
        assert_eq!(text, expected);
        assert_eq!(histogram.quantile(0.4), Some(1.0));
        assert_eq!(histogram.quantile(0.6), Some(2.0));
        assert_eq!(histogram.quantile(1.0), Some(4.0));
    }

    #[test]
    fn no_quantile_is_above_the_largest_value() {
        let histogram = Histogram::new(&[2.5, 5.0]);
        histogram.add(2.8);
        assert_eq!(histogram.quantile(0.5), Some(2.8));
        histogram.add(1.0);
        assert_eq!((histogram.quantile(0.5), histogram.quantile(0.99)), (Some(2.5), Some(2.8)));
    }
}
