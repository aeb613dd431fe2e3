//! The median of repeated runs.

use std::time::{Duration, Instant};

use melisma::{Error, Result};

use super::record::{median_and_spread, quantile};

/// How long live streams run.
const LIVE: Duration = Duration::from_secs(60);

/// The number of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Runs before the measurement.
    pub warm_up: u32,
    /// The fewest measured runs.
    pub least: u32,
    /// Runs continue until this much time was measured or [`Plan::most`] runs were made.
    pub time: Duration,
    /// The most measured runs.
    pub most: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self { warm_up: 2, least: 7, time: Duration::from_millis(500), most: 1000 }
    }
}

/// Seconds per run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The median.
    pub median: f64,
    /// The interquartile range divided by the median.
    pub spread: f64,
    /// The number of runs.
    pub n: u64,
}

impl Measured {
    /// Returns the row of a rate: `amount` per second, in `unit`. The spread of the median is the
    /// same for both.
    pub fn rate(self, name: &str, unit: &str, amount: f64) -> super::Row {
        self.row(name, unit, amount / self.median)
    }

    /// Returns the row of a time in seconds.
    pub fn seconds(self, name: &str) -> super::Row {
        self.row(name, "s", self.median)
    }

    fn row(self, name: &str, unit: &str, median: f64) -> super::Row {
        let Self { spread, n, .. } = self;
        super::Row { spread, n, ..super::Row::single(name, unit, median) }
    }
}

/// Times `work` according to `plan`.
pub fn measure(plan: Plan, mut work: impl FnMut()) -> Measured {
    (0..plan.warm_up).for_each(|_| work());
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < plan.least.max(1) as usize || (times.len() < plan.most as usize && begin.elapsed() < plan.time)
    {
        let start = Instant::now();
        work();
        times.push(start.elapsed().as_secs_f64());
    }
    of_times(times)
}

/// Returns the median of `times`.
pub(super) fn of_times(times: Vec<f64>) -> Measured {
    let (median, spread) = median_and_spread(&times);
    // A clock that does not advance would give an infinite rate.
    Measured { median: median.max(1e-12), spread, n: times.len() as u64 }
}

/// Returns rows of quantiles of `times`; `times` are in seconds, the rows in milliseconds.
pub(super) fn quantiles(name: &str, times: &[f64], shares: &[(&str, f64)]) -> Vec<super::Row> {
    let measured = of_times(times.to_vec());
    let row = |(label, share): &(&str, f64)| super::Row {
        name: format!("{name} {label}"),
        unit: "ms".to_owned(),
        median: 1e3 * quantile(times, *share),
        ..measured.seconds("")
    };
    shares.iter().map(row).collect()
}

/// Returns how long live streams run: `MELISMA_BENCH_SECONDS`, or a minute.
pub(super) fn live_time() -> Result<Duration> {
    Ok(setting("MELISMA_BENCH_SECONDS", 1..=3600)?.map_or(LIVE, Duration::from_secs))
}

/// Returns a whole number from the environment.
pub(super) fn setting(name: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    let value = text.parse().ok().filter(|value| range.contains(value));
    let hint = format!("use a number from {} to {}", range.start(), range.end());
    value.map(Some).ok_or_else(|| Error::invalid(format!("{name} is `{text}`")).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        let measured = of_times(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(measured, Measured { median: 3.0, spread: 2.0 / 3.0, n: 5 });
        assert_eq!(of_times(vec![2.0, 4.0]).median, 3.0);
        assert_eq!(measured.rate("a", "GB/s", 6.0).median, 2.0);
    }

    #[test]
    fn quantiles_do_not_depend_on_the_order() {
        let shares = [("least", 0.0), ("p50", 0.5), ("p75", 0.75), ("most", 1.0)];
        let rows = quantiles("step", &[5.0, 1.0, 3.0, 2.0, 4.0], &shares);
        let found: Vec<(&str, f64)> = rows.iter().map(|row| (row.name.as_str(), row.median)).collect();
        assert_eq!(found, [("step least", 1e3), ("step p50", 3e3), ("step p75", 4e3), ("step most", 5e3)]);
        assert!(rows.iter().all(|row| row.unit == "ms" && row.n == 5));
    }

    #[test]
    fn runs_as_often_as_planned() {
        let mut runs = 0;
        let plan = Plan { warm_up: 3, least: 5, time: Duration::ZERO, most: 5 };
        assert_eq!(measure(plan, || runs += 1).n, 5);
        assert_eq!(runs, 8);
    }
}
