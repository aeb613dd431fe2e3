//! Two records, row by row.

use serde::Serialize;

use super::{Record, figure, percent};
use crate::runtime::table::{Align, Table};
use crate::{Error, Kind, Result};

/// A loss beyond this share fails.
const ALLOWED_LOSS: f64 = 0.10;

/// Which way a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates and factors.
    Larger,
    /// Times and sizes.
    Smaller,
}

/// Which way figures in `unit` improve: rates (`GB/s`, `GFLOP/s`, `files/s`) and factors (`x`, `%`) grow, times and
/// bytes shrink.
///
/// # Errors
/// When the unit is none that we know.
pub fn better(unit: &str) -> Result<Better> {
    match unit {
        "s" | "ms" | "us" | "ns" | "bytes" | "B" | "KiB" | "MiB" | "GiB" => Ok(Better::Smaller),
        "x" | "%" => Ok(Better::Larger),
        _ if unit.ends_with("/s") => Ok(Better::Larger),
        _ => Err(Error::invalid(format!("`{unit}` is not a unit of figures"))
            .with_hint("use a rate such as GB/s, x, %, s, ms, us, ns, bytes, KiB, MiB or GiB")),
    }
}

/// One row of both records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The row.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The old median.
    pub old: f64,
    /// The new median.
    pub new: f64,
    /// How much better the new one is: 0.25 is a quarter more speed, or less time by as much.
    pub gain: f64,
}

/// What changed between two records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Rows of both.
    pub changes: Vec<Change>,
    /// Rows of the old record only.
    pub missing: Vec<String>,
    /// Rows of the new record only.
    pub added: Vec<String>,
}

/// Compares medians of rows with equal names.
///
/// # Errors
/// When a row's unit is unknown or differs between the records, or a median is not a positive number.
pub fn compare(old: &Record, new: &Record) -> Result<Comparison> {
    let mut changes = Vec::new();
    let mut missing = Vec::new();
    for before in &old.rows {
        let Some(after) = new.rows.iter().find(|row| row.name == before.name) else {
            missing.push(before.name.clone());
            continue;
        };
        if before.unit != after.unit {
            let message = format!("{}: the units differ: {} and {}", before.name, before.unit, after.unit);
            return Err(Error::invalid(message).with_hint("measure both records with the same version"));
        }
        for median in [before.median, after.median] {
            if !(median.is_finite() && median > 0.0) {
                return Err(Error::new(Kind::Corrupt, format!("{}: the median {median} is not a figure", before.name)));
            }
        }
        let gain = match better(&before.unit).map_err(|error| error.at(&before.name))? {
            Better::Larger => after.median / before.median - 1.0,
            Better::Smaller => before.median / after.median - 1.0,
        };
        let (name, unit) = (before.name.clone(), before.unit.clone());
        changes.push(Change { name, unit, old: before.median, new: after.median, gain });
    }
    let is_old = |name: &str| old.rows.iter().any(|row| row.name == name);
    let added = new.rows.iter().filter(|row| !is_old(&row.name)).map(|row| row.name.clone()).collect();
    Ok(Comparison { changes, missing, added })
}

impl Comparison {
    /// One line per row of both records.
    pub fn table(&self) -> Table {
        let right = |name| (name, Align::Right);
        let columns = [("name", Align::Left), right("old"), right("new"), ("unit", Align::Left), right("change")];
        let mut table = Table::new(columns);
        for Change { name, unit, old, new, gain } in &self.changes {
            let sign = if *gain >= 0.0 { "+" } else { "" };
            table.push([name.clone(), figure(*old), figure(*new), unit.clone(), format!("{sign}{}", percent(*gain))]);
        }
        table
    }

    /// Whether nothing was lost.
    ///
    /// # Errors
    /// [`Kind::Check`] when a row lost more than 10 % or is gone.
    pub fn check(&self) -> Result<()> {
        let lost = |change: &&Change| change.gain < -ALLOWED_LOSS;
        let mut failures: Vec<String> = self.changes.iter().filter(lost).map(|change| change.name.clone()).collect();
        failures.extend(self.missing.iter().map(|name| format!("{name} (not measured)")));
        if failures.is_empty() {
            return Ok(());
        }
        Err(Error::new(Kind::Check, format!("more than 10 % lost: {}", failures.join(", ")))
            .with_hint("measure again on a quiet machine; the spread says how far to trust a median"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;

    fn record(rows: &[(&str, &str, f64)]) -> Record {
        let row = |(name, unit, median): &(&str, &str, f64)| Row {
            name: (*name).into(),
            unit: (*unit).into(),
            median: *median,
            spread: 0.0,
            n: 1,
            ceiling: None,
            peers: Vec::new(),
        };
        Record { machine: "test".into(), device: "cpu".into(), rows: rows.iter().map(row).collect(), notes: Vec::new() }
    }

    #[test]
    fn units_say_which_way_is_better() {
        for unit in ["GB/s", "GFLOP/s", "files/s", "x", "%"] {
            assert_eq!(better(unit).unwrap(), Better::Larger, "{unit}");
        }
        for unit in ["s", "ms", "us", "ns", "bytes", "MiB"] {
            assert_eq!(better(unit).unwrap(), Better::Smaller, "{unit}");
        }
        assert!(better("furlongs").is_err());
    }

    #[test]
    fn a_tenth_may_be_lost_and_no_more() {
        let old = record(&[("rate", "GB/s", 10.0), ("time", "ms", 10.0)]);
        let close = compare(&old, &record(&[("rate", "GB/s", 9.05), ("time", "ms", 11.0)])).unwrap();
        close.check().unwrap();
        for slower in [[("rate", "GB/s", 8.9), ("time", "ms", 10.0)], [("rate", "GB/s", 10.0), ("time", "ms", 12.0)]] {
            let error = compare(&old, &record(&slower)).unwrap().check().unwrap_err();
            assert_eq!(error.kind(), Kind::Check);
        }
        let faster = compare(&old, &record(&[("rate", "GB/s", 12.5), ("time", "ms", 8.0)])).unwrap();
        assert!(faster.changes.iter().all(|change| (change.gain - 0.25).abs() < 1e-12));
        assert!(faster.table().text().contains("+25.0 %"));
    }

    #[test]
    fn rows_that_are_gone_fail_and_new_ones_do_not() {
        let (one, two) = (record(&[("a", "s", 1.0)]), record(&[("a", "s", 1.0), ("b", "s", 1.0)]));
        assert_eq!(compare(&one, &two).unwrap().added, ["b"]);
        compare(&one, &two).unwrap().check().unwrap();
        let gone = compare(&two, &one).unwrap().check().unwrap_err();
        assert!(gone.to_string().contains("b (not measured)"), "{gone}");
    }

    #[test]
    fn records_that_cannot_be_compared_are_refused() {
        let old = record(&[("a", "s", 1.0)]);
        for new in [record(&[("a", "ms", 1.0)]), record(&[("a", "s", 0.0)]), record(&[("a", "s", f64::NAN)])] {
            assert!(compare(&old, &new).is_err());
        }
    }
}
