//! The gate for speed: a few rows beside peers that need numpy alone, held against this machine's record.
//!
//! A ratio is lost if it fell by more than [`LOSS`] beyond the spread of both measurements. On a machine
//! without a record there is nothing to compare with.

use super::ratio::{Change, changes};
use super::record::Row;
use super::{LOSS, machine, measure, read};
use crate::process::{cargo, run};
use crate::{tree, venv};
use anyhow::Result;

/// Rooms that take about two minutes together.
const ROOMS: [&str; 2] = ["runtime", "mel"];
const PACKAGES: &[&str] = &["numpy==2.4.6"];

/// What the gate found.
pub enum Verdict {
    /// This machine has no record.
    NoRecord(String),
    /// How many ratios were compared, and how many were lost.
    Compared { n: usize, lost: usize },
}

/// Measures, prints the table, and counts the losses.
pub fn check() -> Result<Verdict> {
    let name = machine::name("cpu");
    let folder = tree::root().join("bench/record").join(&name);
    if !folder.is_dir() {
        return Ok(Verdict::NoRecord(name));
    }
    let python = venv::python_in("gate", PACKAGES)?;
    run(&mut cargo(["build", "--release", "-p", "melisma-cli"]))?;
    let (mut before, mut now) = (Vec::new(), Vec::new());
    for room in ROOMS {
        before.extend(read(&folder.join(format!("{room}.json")))?);
        let rest = ["--device".to_owned(), "cpu".to_owned()];
        now.extend(measure(&tree::target().join("release/melisma"), room, &rest, Some(&python))?.rows);
    }
    let mut compared = changes(&before, &now);
    compared.retain(|change| change.now.is_some());
    let is_lost = |change: &Change| is_lost(change, spread(&before, change.row) + spread(&now, change.row));
    super::print_changes(&compared, &is_lost);
    Ok(Verdict::Compared { n: compared.len(), lost: compared.iter().filter(|change| is_lost(change)).count() })
}

fn is_lost(change: &Change<'_>, spread: f64) -> bool {
    change.factor() < 1.0 - LOSS - spread
}

/// The spread of a row, as a share of its median.
fn spread(rows: &[Row], name: &str) -> f64 {
    rows.iter().find(|row| row.name == name).map_or(0.0, |row| row.spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_counts_beyond_the_spread() {
        let change = |now| Change { row: "mel", peer: "numpy", before: 2.0, now: Some(now) };
        assert!(!is_lost(&change(1.81), 0.0));
        assert!(is_lost(&change(1.79), 0.0));
        assert!(!is_lost(&change(1.79), 0.05));
        assert!(is_lost(&change(1.5), 0.05));
    }
}
