//! The gate for speed: a few rows beside peers that need numpy alone, held against this machine's record.
//!
//! A ratio is lost if it fell by more than [`LOSS`] beyond the spread of both measurements. On a machine
//! without a record there is nothing to compare with: its ratios are printed, and none is lost. Peers that are not
//! installed here are named; without a single ratio to numpy the gate has seen nothing, and says so.

use super::ratio::{Change, changes, ratio};
use super::record::Row;
use super::{LOSS, machine, measure, read};
use crate::process::{cargo, run};
use crate::table::Align::{Left, Right};
use crate::table::Table;
use crate::{tree, venv};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Rooms that take about two minutes together.
const ROOMS: [&str; 2] = ["runtime", "mel"];
/// The peer that the gate installs.
const PEER: &str = "numpy";
const PACKAGES: &[&str] = &["numpy==2.4.6"];

/// What the gate found.
pub enum Verdict {
    /// No ratio to numpy could be compared, and why.
    NoPeer { why: String },
    /// This machine has no record to compare with.
    NoRecord { machine: String, n: usize },
    /// How many ratios were compared, and how many were lost.
    Compared { n: usize, lost: usize },
}

/// Measures, prints the table, and counts the losses.
pub fn check() -> Result<Verdict> {
    let name = machine::name("cpu");
    let folder = tree::root().join("bench/record").join(&name);
    let has_record = folder.is_dir();
    let python = venv::python_in("gate", PACKAGES)?;
    run(&mut cargo(["build", "--release", "-p", "melisma-cli"]))?;
    let (mut before, mut now, mut notes) = (Vec::new(), Vec::new(), BTreeSet::new());
    for room in ROOMS {
        if has_record {
            before.extend(read(&folder.join(format!("{room}.json")))?);
        }
        let rest = ["--device".to_owned(), "cpu".to_owned()];
        let measured = measure(&tree::target().join("release/melisma"), room, &rest, Some(&python))?;
        now.extend(measured.rows);
        notes.extend(measured.notes);
    }
    if !has_record {
        let ratios = ratios(&now);
        let mut table = Table::new([("name", Left), ("peer", Left), ("now", Right)]);
        ratios.iter().for_each(|(row, peer, ratio)| table.push([(*row).into(), (*peer).into(), format!("{ratio:.3}")]));
        print!("\n{}", table.text());
        let n_peer = ratios.iter().filter(|(_, peer, _)| *peer == PEER).count();
        return Ok(blind(n_peer, &notes).unwrap_or(Verdict::NoRecord { machine: name, n: ratios.len() }));
    }
    let (compared, missing): (Vec<_>, Vec<_>) =
        changes(&before, &now).into_iter().partition(|change| change.now.is_some());
    let is_lost = |change: &Change| is_lost(change, spread(&before, change.row) + spread(&now, change.row));
    super::print_changes(&compared, &is_lost);
    print!("{}", unmatched(&missing, &before, &now));
    let n_peer = compared.iter().filter(|change| change.peer == PEER).count();
    if let Some(verdict) = blind(n_peer, &notes) {
        return Ok(verdict);
    }
    Ok(Verdict::Compared { n: compared.len(), lost: compared.iter().filter(|change| is_lost(change)).count() })
}

/// Returns the verdict of a gate that has compared no ratio to numpy; `n` is their number.
fn blind(n: usize, notes: &BTreeSet<String>) -> Option<Verdict> {
    let why = if notes.is_empty() { "the record has none".into() } else { Vec::from_iter(notes.clone()).join("; ") };
    (n == 0).then_some(Verdict::NoPeer { why })
}

/// Returns a line about the ratios of the record whose peers are missing now, and one about those that are new.
fn unmatched(missing: &[Change<'_>], before: &[Row], now: &[Row]) -> String {
    let mut peers = BTreeMap::<&str, usize>::new();
    missing.iter().for_each(|change| *peers.entry(change.peer).or_default() += 1);
    let peers: Vec<String> = peers.iter().map(|(peer, n)| format!("{peer} ({n})")).collect();
    let known = ratios(before);
    let is_new = |(row, peer, _): &(&str, &str, f64)| !known.iter().any(|known| (known.0, known.1) == (*row, *peer));
    let new = ratios(now).into_iter().filter(is_new).map(|(row, peer, ratio)| format!("{row}: {peer} {ratio:.3}"));
    let new = Vec::from_iter(new);
    let lines = [("in the record, not measured", peers), ("measured, not in the record", new)];
    let lines = lines.iter().filter(|(_, names)| !names.is_empty());
    lines.map(|(what, names)| format!("{what}: {}\n", names.join(", "))).collect()
}

fn is_lost(change: &Change<'_>, spread: f64) -> bool {
    change.factor() < 1.0 - LOSS - spread
}

/// Returns row, peer and ratio of everything that was measured.
fn ratios(rows: &[Row]) -> Vec<(&str, &str, f64)> {
    rows.iter()
        .flat_map(|row| row.peers.iter().map(move |peer| (row, peer)))
        .filter_map(|(row, peer)| Some((&*row.name, &*peer.name, ratio(row, peer.median)?)))
        .collect()
}

/// Returns the spread of a row, as a share of its median.
fn spread(rows: &[Row], name: &str) -> f64 {
    rows.iter().find(|row| row.name == name).map_or(0.0, |row| row.spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(unit: &str, peer: &str) -> Row {
        let row = json!({ "name": "mel", "unit": unit, "median": 4.0, "spread": 0.0, "n": 9, "ceiling": null,
            "peers": [{ "name": peer, "median": 2.0 }] });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_machine_without_a_record_still_has_ratios() {
        let rows = ["GB/s", "s", "% busy"].map(|unit| row(unit, "numpy"));
        assert_eq!(ratios(&rows), [("mel", "numpy", 2.0), ("mel", "numpy", 0.5)]);
    }

    #[test]
    fn peers_that_are_missing_or_new_are_named() {
        let (before, now) = ([row("s", "torch"), row("s", "librosa")], [row("s", "numpy")]);
        let missing = changes(&before, &now);
        let told =
            "in the record, not measured: librosa (1), torch (1)\nmeasured, not in the record: mel: numpy 0.500\n";
        assert_eq!(unmatched(&missing, &before, &now), told);
        assert_eq!(unmatched(&[], &now, &now), "");
    }

    #[test]
    fn a_gate_without_numpy_has_seen_nothing() {
        let notes = BTreeSet::from(["a peer is left out: No module named 'numpy'".to_owned()]);
        let why = |notes| match blind(0, notes) {
            Some(Verdict::NoPeer { why }) => why,
            _ => String::new(),
        };
        assert!(why(&notes).contains("'numpy'") && why(&BTreeSet::new()).contains("record"));
        assert!(blind(1, &notes).is_none());
    }

    #[test]
    fn a_loss_counts_beyond_the_spread() {
        let change = |now| Change { row: "mel", peer: "numpy", before: 2.0, now: Some(now) };
        assert!(!is_lost(&change(1.81), 0.0));
        assert!(is_lost(&change(1.79), 0.0));
        assert!(!is_lost(&change(1.79), 0.05));
        assert!(is_lost(&change(1.5), 0.05));
    }
}
