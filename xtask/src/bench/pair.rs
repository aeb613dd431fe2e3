//! Two builds of `melisma`, measured in turns, so that a slowdown of the machine affects both.

use super::row::{Row, gain};
use crate::table;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// How much worse the new median may be beyond the spread, as a share.
const LOSS: f64 = 0.03;

/// The medians of one row, one per round.
#[derive(Debug)]
struct Series {
    unit: String,
    rounds: [Vec<f64>; 2],
}

/// The figures of both builds, by row.
#[derive(Default)]
pub struct Pair {
    rows: BTreeMap<String, Series>,
}

/// One of the two builds.
#[derive(Clone, Copy, PartialEq)]
pub enum Build {
    Old,
    New,
}

/// Every second round starts with the new build.
pub fn order(round: usize) -> [Build; 2] {
    match round % 2 {
        0 => [Build::Old, Build::New],
        _ => [Build::New, Build::Old],
    }
}

impl Pair {
    pub fn add(&mut self, build: Build, rows: &[Row]) -> Result<()> {
        for row in rows {
            let series = self
                .rows
                .entry(row.name.clone())
                .or_insert_with(|| Series { unit: row.unit.clone(), rounds: [Vec::new(), Vec::new()] });
            if series.unit != row.unit {
                bail!("row `{}` is in {} and in {}", row.name, series.unit, row.unit);
            }
            series.rounds[usize::from(build == Build::New)].push(row.median);
        }
        Ok(())
    }

    /// Prints one line per row and the verdict; the exit code is 3 if a row is slower.
    pub fn report(&self) -> Result<ExitCode> {
        let mut cells = Vec::new();
        let (mut n_slower, mut n_compared) = (0, 0);
        for (name, series) in &self.rows {
            let [old, new] = series.rounds.each_ref().map(|rounds| Figure::of(rounds));
            let (Some(old), Some(new)) = (old, new) else {
                cells.push(vec![
                    name.clone(),
                    "-".into(),
                    "-".into(),
                    series.unit.clone(),
                    "-".into(),
                    "one build only".into(),
                ]);
                continue;
            };
            let gain = gain(&series.unit, old.median, new.median).with_context(|| format!("row `{name}`"))?;
            let spread = old.spread.max(new.spread);
            let slower = gain < -(LOSS + spread);
            n_compared += 1;
            n_slower += usize::from(slower);
            cells.push(vec![
                name.clone(),
                format!("{:.4}", old.median),
                format!("{:.4}", new.median),
                series.unit.clone(),
                format!("{:+.1} %", 100.0 * gain),
                format!("{:.1} %", 100.0 * spread),
                if slower { "SLOWER" } else { "" }.into(),
            ]);
        }
        table::print(&["name", "old", "new", "unit", "gain", "spread", ""], &cells);
        println!("\n{n_compared} rows compared, {n_slower} slower by more than {:.0} % and the spread", 100.0 * LOSS);
        Ok(ExitCode::from(if n_slower == 0 { 0 } else { 3 }))
    }
}

/// A median over rounds, and the interquartile range divided by it.
#[derive(Debug, PartialEq)]
struct Figure {
    median: f64,
    spread: f64,
}

impl Figure {
    fn of(rounds: &[f64]) -> Option<Self> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (low, part) = (place.floor() as usize, place.fract());
            sorted[low] * (1.0 - part) + sorted[(low + 1).min(last)] * part
        };
        let median = at(0.5);
        Some(Self { median, spread: (at(0.75) - at(0.25)) / median.abs().max(f64::MIN_POSITIVE) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pair(unit: &str, old: &[f64], new: &[f64]) -> ExitCode {
        let mut pair = Pair::default();
        for (build, medians) in [(Build::Old, old), (Build::New, new)] {
            for median in medians {
                let row = json!({ "name": "a", "unit": unit, "median": median, "spread": 0.0 });
                pair.add(build, &Row::all(&json!({ "rows": [row] })).unwrap()).unwrap();
            }
        }
        pair.report().unwrap()
    }

    #[test]
    fn a_row_may_lose_three_percent_and_its_spread() {
        let ok = ExitCode::SUCCESS;
        assert_eq!(pair("ms", &[1.0, 1.0, 1.0], &[1.02, 1.02, 1.02]), ok);
        assert_ne!(pair("ms", &[1.0, 1.0, 1.0], &[1.05, 1.05, 1.05]), ok);
        assert_ne!(pair("GB/s", &[1.0, 1.0, 1.0], &[0.95, 0.95, 0.95]), ok);
        assert_eq!(pair("GB/s", &[1.0, 1.0, 1.0], &[1.5, 1.5, 1.5]), ok);
        assert_eq!(pair("% busy", &[90.0, 90.0, 90.0], &[10.0, 10.0, 10.0]), ok, "explains other rows");
        assert_eq!(pair("ms", &[0.9, 1.0, 1.1], &[1.05, 1.05, 1.05]), ok, "within the spread");
    }

    #[test]
    fn rows_of_one_build_are_no_verdict() {
        assert_eq!(pair("ms", &[1.0], &[]), ExitCode::SUCCESS);
    }

    #[test]
    fn builds_take_turns_at_being_first() {
        assert!(order(0) == [Build::Old, Build::New] && order(1) == [Build::New, Build::Old]);
    }

    #[test]
    fn the_spread_is_the_interquartile_range() {
        let figure = Figure::of(&[5.0, 1.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!(figure, Figure { median: 3.0, spread: 2.0 / 3.0 });
        assert_eq!(Figure::of(&[]), None);
    }
}
