//! Figures as medians with their spread, beside the machine's own ceilings and other programs.
//!
//! A room registers its benches in [`ROOMS`]; `melisma bench ROOM` runs them. Records can be
//! compared later.

mod compare;
mod dataset;
mod first_call;
mod folder;
pub mod forecast;
mod measure;
mod mel;
mod optimize;
mod pack;
mod package;
mod peer;
mod record;
mod runtime;
mod serve;
pub mod sheet;
mod snac;
mod speak;
mod synth;

use std::path::Path;

pub use compare::{Change, Comparison, SIGN, better, compare};
pub use measure::{Measured, Plan, measure};
use peer::peer;
pub use record::{Better, Peer, ROOMS, Record, Row};
pub use serve::stand_in;

use melisma::config::nearest;
use melisma::format::read_text;
use melisma::runtime::MemoryTracker;
use melisma::runtime::device::Device;
use melisma::runtime::machine::Machine;
use melisma::text::table::{Align, Table};
use melisma::{Error, Result};

impl Row {
    /// Creates the row of a single figure, not of the median of many runs.
    pub fn single(name: impl Into<String>, unit: &str, median: f64) -> Self {
        Self {
            id: None,
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

    /// Returns the row as one that programs find by `id`.
    #[must_use]
    pub fn with_id(self, id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..self }
    }
}

/// The largest file of a record.
const MAX_BYTES: u64 = 16 << 20;

/// The device and memory that a room measures on.
#[derive(Debug, Clone, Copy)]
pub struct BenchContext<'a> {
    /// The device.
    pub device: &'a Device,
    /// Its budget and scopes.
    pub memory: &'a MemoryTracker,
}

/// Measures the rows of one room.
pub type Room = fn(BenchContext<'_>) -> Result<Vec<Row>>;

/// The benches of [`ROOMS`], in the same order.
const BENCHES: [Room; ROOMS.len()] = [
    runtime::rows,
    snac::rows,
    mel::rows,
    dataset::rows,
    pack::rows,
    synth::rows,
    optimize::rows,
    serve::rows,
    speak::rows,
];

/// Returns parts of rooms that can be measured alone, by the beginning of their rows' names.
fn parts() -> impl Iterator<Item = (&'static str, Room)> {
    let encode: Room = snac::encode_rows;
    std::iter::once(("snac/encode", encode)).chain(dataset::PARTS).chain(serve::PARTS).chain(speak::PARTS)
}

/// Measures `rooms` or parts of rooms at `context` in the given order, or all rooms if none is named.
///
/// # Errors
/// A room is unknown, which is checked before anything is measured; or a room fails.
pub fn run(rooms: &[String], context: BenchContext<'_>) -> Result<Record> {
    let chosen: Vec<Room> = match rooms {
        [] => BENCHES.to_vec(),
        _ => rooms.iter().map(|name| find(name)).collect::<Result<_>>()?,
    };
    let mut rows = Vec::new();
    for room in chosen {
        rows.extend(room(context)?);
    }
    // A row with an unknown unit could never be compared; it is a mistake in its bench.
    for row in &rows {
        better(&row.unit).map_err(|error| error.at(&row.name))?;
    }
    let machine = Machine::detect();
    let machine = format!("{} ({} cores, {})", machine.cpu, machine.cores, machine.arch);
    Ok(Record { machine, device: context.device.to_string(), rows, notes: peer::left_out() })
}

fn find(name: &str) -> Result<Room> {
    let known = || ROOMS.into_iter().zip(BENCHES).chain(parts());
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
    /// Reads a record.
    ///
    /// # Errors
    /// The file cannot be read or is not a record.
    pub fn open(path: &Path) -> Result<Self> {
        serde_json::from_str(&read_text(path, MAX_BYTES)?).map_err(|error| {
            Error::corrupt(format!("{}: this is not a bench record: {error}", path.display()))
                .with_hint("records come from `melisma bench -o FILE`")
        })
    }

    /// Returns one line per row.
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

/// Returns four significant digits.
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
        let refused =
            |room: &str| run(&[room.to_owned()], BenchContext { device: &device, memory: &memory }).unwrap_err();
        assert_eq!(refused("runtimes").hint().as_deref(), Some("did you mean `runtime`?"));
        assert!(refused("kitchen-sink").hint().unwrap().starts_with("the rooms are runtime"));
    }

    #[test]
    fn figures_have_four_digits() {
        assert_eq!([figure(0.012345), figure(12.3456), figure(98765.4)], ["0.01235", "12.35", "98765"]);
    }
}
