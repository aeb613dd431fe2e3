//! Figures as medians with their spread, beside the machine's own ceilings and other programs.
//!
//! A room registers its benches in [`ROOMS`]; `melisma bench ROOM` runs them. Records can be
//! compared later.

mod compare;
mod dataset;
mod first_call;
mod folder;
mod key;
mod measure;
mod mel;
mod optimize;
mod pack;
mod peer;
mod runtime;
mod serve;
pub mod sheet;
mod snac;
mod synth;

use serde::{Deserialize, Serialize};

pub use compare::{Change, Comparison, better, compare};
pub use key::Better;
pub use measure::{Measured, Plan, measure};
pub use peer::peer;

use melisma::config::nearest;
use melisma::runtime::MemoryTracker;
use melisma::runtime::device::Device;
use melisma::runtime::machine::Machine;
use melisma::text::table::{Align, Table};
use melisma::{Error, Result};

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The room and what was measured, e.g. `runtime/copy`.
    pub name: String,
    /// The unit of all figures of the row; it also determines whether more is better, see
    /// [`better`].
    pub unit: String,
    /// The median of `n` runs.
    pub median: f64,
    /// The interquartile range divided by the median.
    pub spread: f64,
    /// The number of runs.
    pub n: u64,
    /// The best this machine could do, measured in the same run.
    pub ceiling: Option<f64>,
    /// The same work in other programs, measured in the same run.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// The winner, if the row measures the best of several, such as the engine of an ONNX model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
}

impl Row {
    /// A single figure, not the median of many runs.
    pub fn single(name: impl Into<String>, unit: &str, median: f64) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
            median,
            spread: 0.0,
            n: 1,
            ceiling: None,
            peers: Vec::new(),
            winner: None,
        }
    }
}

/// Another program's figure for the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// The program.
    pub name: String,
    /// Its median, in the row's unit.
    pub median: f64,
}

/// All rows of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The machine, in words.
    pub machine: String,
    /// The device that was measured, `cpu` or `cuda:N`.
    #[serde(default)]
    pub device: String,
    /// The figures.
    pub rows: Vec<Row>,
    /// What is missing, in words: peers that are not installed on this machine.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The device and memory that a room measures on.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The device.
    pub device: &'a Device,
    /// Its budget and scopes.
    pub memory: &'a MemoryTracker,
}

/// Measures the rows of one room.
pub type Room = fn(Place<'_>) -> Result<Vec<Row>>;

/// The rooms that can be measured, by name.
pub const ROOMS: &[(&str, Room)] = &[
    ("runtime", runtime::rows),
    ("snac", snac::rows),
    ("mel", mel::rows),
    ("dataset", dataset::rows),
    ("pack", pack::rows),
    ("synth", synth::rows),
    ("optimize", optimize::rows),
    ("serve", serve::rows),
];

/// Parts of rooms that can be measured alone, by the beginning of their rows' names.
fn parts() -> impl Iterator<Item = (&'static str, Room)> {
    let encode: Room = snac::encode_rows;
    std::iter::once(("snac/encode", encode)).chain(serve::PARTS)
}

/// Measures `rooms` or parts of rooms at `place` in the given order, or all rooms if none is named.
///
/// # Errors
/// A room is unknown, which is checked before anything is measured; or a room fails.
pub fn run(rooms: &[String], place: Place<'_>) -> Result<Record> {
    let chosen: Vec<Room> = match rooms {
        [] => ROOMS.iter().map(|(_, room)| *room).collect(),
        _ => rooms.iter().map(|name| find(name)).collect::<Result<_>>()?,
    };
    let mut rows = Vec::new();
    for room in chosen {
        rows.extend(room(place)?);
    }
    // A row with an unknown unit could never be compared; it is a mistake in its bench.
    for row in &rows {
        better(&row.unit).map_err(|error| error.at(&row.name))?;
    }
    let machine = Machine::detect();
    let machine = format!("{} ({} cores, {})", machine.cpu, machine.cores, machine.arch);
    Ok(Record { machine, device: place.device.to_string(), rows, notes: peer::left_out() })
}

fn find(name: &str) -> Result<Room> {
    let known = || ROOMS.iter().copied().chain(parts());
    known().find(|(known, _)| *known == name).map(|(_, room)| room).ok_or_else(|| {
        let names = || known().map(|(known, _)| known);
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the rooms are {}", names().collect::<Vec<_>>().join(", ")),
        };
        Error::invalid(format!("unknown room `{name}`")).with_hint(hint)
    })
}

impl Record {
    /// One line per row.
    pub fn table(&self) -> Table {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("name", Align::Left),
            right("median"),
            ("unit", Align::Left),
            right("spread"),
            right("n"),
            right("of ceiling"),
            ("peers", Align::Left),
        ]);
        for row in &self.rows {
            let share = row.ceiling.map_or_else(|| "-".to_owned(), |ceiling| percent(row.median / ceiling));
            let peers = row.peers.iter().map(|peer| format!("{} {}", peer.name, figure(peer.median)));
            let winner = row.winner.as_ref().map_or_else(String::new, |winner| format!(" ({winner})"));
            table.push([
                format!("{}{winner}", row.name),
                figure(row.median),
                row.unit.clone(),
                percent(row.spread),
                row.n.to_string(),
                share,
                peers.collect::<Vec<_>>().join(", "),
            ]);
        }
        table
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Four significant digits.
fn figure(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-12).log10().floor() as i32).clamp(0, 9) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use melisma::runtime::memory::Budget;

    #[test]
    fn unknown_rooms_are_named_with_those_there_are() {
        let device = Device::cpu().unwrap();
        let memory = MemoryTracker::new(Budget::unlimited());
        let refused = |room: &str| run(&[room.to_owned()], Place { device: &device, memory: &memory }).unwrap_err();
        assert_eq!(refused("runtimes").hint().as_deref(), Some("did you mean `runtime`?"));
        assert!(refused("kitchen-sink").hint().unwrap().starts_with("the rooms are runtime"));
    }

    #[test]
    fn figures_have_four_digits() {
        assert_eq!([figure(0.012345), figure(12.3456), figure(98765.4)], ["0.01235", "12.35", "98765"]);
    }
}
