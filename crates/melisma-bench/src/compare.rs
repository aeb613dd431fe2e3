//! Compares two records row by row.

use melisma::text::table::{Align, Table};
use melisma::{Error, ErrorKind, Result};
use serde::Serialize;

use super::record::{Better, UNITS, direction, gain};
use super::{Record, Row, figure, percent};

/// A loss beyond this share fails.
const ALLOWED_LOSS: f64 = 0.10;

/// What the sign of a change means, whatever the unit of its row.
pub const SIGN: &str = "change: positive is better in every row, a higher rate as well as a shorter time or a smaller \
    size; +100 % is twice as fast or half as large";

/// Returns the direction in which figures in `unit` improve.
///
/// # Errors
/// An unknown unit.
pub fn better(unit: &str) -> Result<Better> {
    direction(unit).ok_or_else(|| {
        let known: Vec<&str> = UNITS.iter().map(|(known, _)| *known).collect();
        Error::invalid(format!("unknown unit `{unit}`")).with_hint(format!("use {}", known.join(", ")))
    })
}

/// One row that is in both records.
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
    /// The improvement: 0.25 means a quarter more speed, a time divided by 1.25, or 25 points of a
    /// share.
    pub gain: f64,
    /// The larger spread of the two medians.
    pub spread: f64,
    /// The old and the new winner, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winners: Option<[String; 2]>,
}

impl Change {
    fn between(before: &Row, after: &Row) -> Result<Self> {
        let better = better(&before.unit).map_err(|error| error.at(&before.name))?;
        let is_ratio = matches!(better, Better::Larger | Better::Smaller);
        for median in [before.median, after.median] {
            if !median.is_finite() || (is_ratio && median <= 0.0) {
                return Err(Error::corrupt(format!("{}: the median {median} is not a figure", before.name)));
            }
        }
        let gain = gain(better, before.median, after.median);
        let winners = match (&before.winner, &after.winner) {
            (Some(old), Some(new)) if old != new => Some([old.clone(), new.clone()]),
            _ => None,
        };
        let (name, unit) = (before.name.clone(), before.unit.clone());
        let spread = before.spread.max(after.spread);
        Ok(Self { name, unit, old: before.median, new: after.median, gain, spread, winners })
    }

    fn is_lost(&self) -> bool {
        self.gain < -ALLOWED_LOSS
    }
}

/// The differences between two records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Rows in both records.
    pub changes: Vec<Change>,
    /// Rows only in the old record.
    pub missing: Vec<String>,
    /// Rows only in the new record.
    pub added: Vec<String>,
    /// The old and the new machine with its device, if they differ.
    pub machines: Option<[String; 2]>,
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
        changes.push(Change::between(before, after)?);
    }
    if changes.is_empty() && !old.rows.is_empty() {
        return Err(Error::invalid("the records have no row in common")
            .with_hint("compare records of the same room, made with `melisma bench ROOM -o FILE`"));
    }
    let is_old = |name: &str| old.rows.iter().any(|row| row.name == name);
    let added = new.rows.iter().filter(|row| !is_old(&row.name)).map(|row| row.name.clone()).collect();
    let machines = [old, new].map(|record| format!("{}, {}", record.machine, record.device));
    let machines = Some(machines).filter(|[old, new]| old != new);
    Ok(Comparison { changes, missing, added, machines })
}

impl Comparison {
    /// Returns one line per row of both records.
    pub fn table(&self) -> Table {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("name", Align::Left),
            right("old"),
            right("new"),
            ("unit", Align::Left),
            right("change"),
            right("spread"),
        ]);
        for Change { name, unit, old, new, gain, spread, winners } in &self.changes {
            let sign = if *gain >= 0.0 { "+" } else { "" };
            let change = match better(unit) {
                Ok(Better::Neither) => "-".to_owned(),
                Ok(Better::LargerShare) => format!("{sign}{:.1} points", 100.0 * gain),
                _ => format!("{sign}{}", percent(*gain)),
            };
            let name = match winners {
                None => name.clone(),
                Some([old, new]) => format!("{name} ({old}, now {new})"),
            };
            table.push([name, figure(*old), figure(*new), unit.clone(), change, percent(*spread)]);
        }
        table
    }

    /// Returns the table, what its signs mean, and whether the records are of different machines.
    pub fn text(&self) -> String {
        let note = match &self.machines {
            None => String::new(),
            Some([old, new]) => format!("the records are of different machines: {old}; now {new}\n"),
        };
        format!("{}{SIGN}\n{note}", self.table().text())
    }

    /// Checks that no row got worse.
    ///
    /// # Errors
    /// [`ErrorKind::Check`] when a row lost more than 10 % or is missing.
    pub fn check(&self) -> Result<()> {
        let lost = self.changes.iter().filter(|change| change.is_lost());
        let mut failures: Vec<String> = lost.map(|change| change.name.clone()).collect();
        failures.extend(self.missing.iter().map(|name| format!("{name} (not measured)")));
        if failures.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Check, format!("more than 10 % lost: {}", failures.join(", ")))
            .with_hint("measure again on a quiet machine; the spread says how far to trust a median"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rows: &[(&str, &str, f64)]) -> Record {
        let row = |(name, unit, median): &(&str, &str, f64)| Row::single(*name, unit, *median);
        Record { machine: "test".into(), device: "cpu".into(), rows: rows.iter().map(row).collect(), notes: Vec::new() }
    }

    #[test]
    fn units_say_which_way_is_better() {
        for unit in ["GB/s", "GFLOP/s", "files/s", "x"] {
            assert_eq!(better(unit).unwrap(), Better::Larger, "{unit}");
        }
        assert_eq!(better("%").unwrap(), Better::LargerShare);
        assert_eq!(better("% busy").unwrap(), Better::Neither);
        for unit in ["s", "ms", "us", "ns", "bytes", "MiB", "share"] {
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
            assert_eq!(error.kind(), ErrorKind::Check);
        }
        let faster = compare(&old, &record(&[("rate", "GB/s", 12.5), ("time", "ms", 8.0)])).unwrap();
        assert!(faster.changes.iter().all(|change| (change.gain - 0.25).abs() < 1e-12));
        let text = faster.text();
        assert!(text.lines().filter(|line| line.contains("+25.0 %")).count() == 2, "of a rate and of a time: {text}");
        assert!(text.ends_with("half as large\n") && text.contains("\nchange: positive is better"), "{text}");
        let twice = compare(&old, &record(&[("rate", "GB/s", 20.0), ("time", "ms", 5.0)])).unwrap();
        assert!(twice.changes.iter().all(|change| (change.gain - 1.0).abs() < 1e-12), "as the line says");
    }

    #[test]
    fn different_machines_and_the_spread_are_shown() {
        let old = record(&[("a", "s", 1.0)]);
        let mut new = old.clone();
        new.rows[0].spread = 0.25;
        let same = compare(&old, &new).unwrap();
        assert!(same.machines.is_none() && same.text().contains(" 25.0 %"), "{}", same.text());
        new.device = "cuda:0".to_owned();
        let text = compare(&old, &new).unwrap().text();
        assert!(text.ends_with("the records are of different machines: test, cpu; now test, cuda:0\n"), "{text}");
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

    /// Covers every record of the repository, and therefore every unit that benches write.
    #[test]
    fn every_row_on_record_has_a_known_unit_and_equals_itself() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/record");
        let mut n_rows = 0;
        for machine in std::fs::read_dir(folder).unwrap() {
            for file in std::fs::read_dir(machine.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let Ok(text) = std::fs::read_to_string(&path) else { continue };
                let Ok(record) = serde_json::from_str::<Record>(&text) else { continue };
                let same = compare(&record, &record).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                same.check().unwrap();
                assert!(same.changes.iter().all(|change| change.gain == 0.0) && same.missing.is_empty());
                n_rows += record.rows.len();
            }
        }
        assert!(n_rows > 200, "{n_rows} rows");
        assert!(better("furlongs/s").unwrap_err().hint().unwrap().contains("GB/s"));
    }

    /// Reads the units from the sources of the benches: a bench with a new unit fails here, not in
    /// a comparison.
    #[test]
    fn every_unit_in_the_sources_of_benches_is_known() {
        let mut units = std::collections::BTreeSet::new();
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| name != "compare.rs" && name != "record.rs")
                    && !path.ends_with("sheet/mod.rs")
                {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for start in ["unit: \"", ".rate(", "single(", " row("] {
                        for piece in text.split(start).skip(1) {
                            units.extend(unit_of(start, piece));
                        }
                    }
                }
            }
        }
        assert!(units.len() >= 10, "{units:?}");
        for unit in &units {
            better(unit).unwrap();
        }
    }

    /// Returns the unit in a call that takes it as second argument, or in `unit: "..."`; `None` if
    /// it is not written there.
    fn unit_of(start: &str, piece: &str) -> Option<String> {
        if start == "unit: \"" {
            return piece.split('"').next().map(str::to_owned);
        }
        let call = piece.split(';').next()?;
        let literals: Vec<&str> = call.split('"').skip(1).step_by(2).collect();
        literals.into_iter().find(|text| text.ends_with("/s") && !text.contains(' ')).map(str::to_owned)
    }

    #[test]
    fn shares_change_by_points_and_may_be_zero() {
        let of = |met| record(&[("deadlines met", "%", met), ("kernels busy", "% busy", met)]);
        compare(&of(100.0), &of(91.0)).unwrap().check().unwrap();
        let lost = compare(&of(100.0), &of(0.0)).unwrap();
        let failure = lost.check().unwrap_err().to_string();
        assert!(failure.contains("deadlines met") && !failure.contains("kernels busy"), "{failure}");
        assert!(lost.table().text().contains("-100.0 points"), "{}", lost.table().text());
        compare(&of(0.0), &of(50.0)).unwrap().check().unwrap();
    }

    #[test]
    fn another_winner_is_not_a_loss_and_a_slower_one_is() {
        let of = |winner: &str, median| {
            let mut record = record(&[("optimize/vad", "ms", median)]);
            record.rows[0].winner = Some(winner.to_owned());
            record
        };
        let other = compare(&of("rten", 1.0), &of("melisma", 0.9)).unwrap();
        other.check().unwrap();
        assert!(other.missing.is_empty());
        assert!(other.table().text().contains("optimize/vad (rten, now melisma)"), "{}", other.table().text());
        assert!(compare(&of("rten", 1.0), &of("melisma", 1.3)).unwrap().check().is_err());
    }
}
