//! Two builds of `melisma`, measured in turns, so that a slowdown of the machine affects both.

use super::record::{Row, direction, gain, median_and_spread};
use crate::table::{Align::Left, Align::Right, Table};
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

/// Returns which build starts a round: every second round starts with the new build.
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
        let mut table = Table::new([
            ("name", Left),
            ("old", Right),
            ("new", Right),
            ("unit", Left),
            ("gain", Right),
            ("spread", Right),
            ("", Left),
        ]);
        let (mut n_slower, mut n_compared) = (0, 0);
        for (name, Series { unit, rounds }) in &self.rows {
            if rounds.iter().any(Vec::is_empty) {
                let [none, unit] = ["-", unit].map(String::from);
                let why = "one build only".to_owned();
                table.push([name.clone(), none.clone(), none.clone(), unit, none.clone(), none, why]);
                continue;
            }
            let [(old, old_spread), (new, new_spread)] = rounds.each_ref().map(|rounds| median_and_spread(rounds));
            let better = direction(unit).with_context(|| format!("row `{name}`: unknown unit `{unit}`"))?;
            let gain = gain(better, old, new);
            let spread = old_spread.max(new_spread);
            let slower = gain < -(LOSS + spread);
            n_compared += 1;
            n_slower += usize::from(slower);
            table.push([
                name.clone(),
                format!("{old:.4}"),
                format!("{new:.4}"),
                unit.clone(),
                format!("{:+.1} %", 100.0 * gain),
                format!("{:.1} %", 100.0 * spread),
                if slower { "SLOWER" } else { "" }.into(),
            ]);
        }
        print!("{}", table.text());
        println!("\n{n_compared} rows compared, {n_slower} slower by more than {:.0} % and the spread", 100.0 * LOSS);
        Ok(ExitCode::from(if n_slower == 0 { 0 } else { 3 }))
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
                let row = json!({ "name": "a", "unit": unit, "median": median, "spread": 0.0, "n": 1 });
                pair.add(build, &[serde_json::from_value(row).unwrap()]).unwrap();
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
}
