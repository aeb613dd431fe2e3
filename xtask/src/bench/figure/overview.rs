//! docs/benchmarks.md: every row of the records that has another program or a ceiling beside it, by room, after the rows
//! where another program is better.

use super::super::PARTS;
use super::super::ratio::ratio;
use super::super::record::{ROOMS, Record, Row};
use super::{device, grouped, machine, number, percent, plot};
use anyhow::{Context, Result};

pub const PAGE: &str = "docs/benchmarks.md";

/// How the names of other programs begin. All other peers are ways of Melisma's own, or limits of the machine.
const PROGRAMS: [&str; 18] = [
    "FluidSynth",
    "PyTorch",
    "cat",
    "flashmel",
    "librosa",
    "lz4",
    "numpy",
    "nvcomp",
    "onnxruntime",
    "opusdec",
    "python loop",
    "rten",
    "soundfile",
    "torch",
    "transformers",
    "vllm",
    "zipnn",
    "zstd",
];
/// What ends the name of a peer that is a size, in a row of speeds.
const SIZE: &str = " size";

/// A file of `bench/record`: its path from the root, and what it says.
struct Measured {
    path: String,
    record: Record,
}

/// A row beside other programs.
struct Compared<'a> {
    row: &'a Row,
    /// Name, median, and how many times better we are.
    peers: Vec<(&'a str, f64, f64)>,
}

/// Returns the figures of [`PAGE`] from the records, given as paths and texts. Files without rows are left out.
pub fn tables<'a>(records: impl Iterator<Item = (&'a str, &'a str)>) -> Result<String> {
    let mut all = Vec::new();
    for (path, text) in records {
        let value: serde_json::Value = serde_json::from_str(text).with_context(|| path.to_owned())?;
        if value.get("rows").is_some() {
            let record = serde_json::from_value(value).with_context(|| path.to_owned())?;
            all.push(Measured { path: path.to_owned(), record });
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    let of_room = |room: &str| -> Vec<&Measured> {
        all.iter().filter(|measured| measured.stem().split('-').next() == Some(room)).collect()
    };
    let best = |compared: Compared<'_>| compared.peers.first().map(|(_, _, factor)| *factor);
    let factors = |room| of_room(room).iter().flat_map(|measured| measured.compared()).filter_map(best).collect();
    let mut text = plot::text(&ROOMS.map(|room| (room, factors(room)))) + "\n" + &losses(&all)?;
    for room in ROOMS {
        let of_room = of_room(room);
        let sections = of_room.iter().map(|measured| measured.section()).collect::<Result<String>>()?;
        if !sections.is_empty() {
            text += &format!("\n## {room}\n{sections}");
        }
    }
    Ok(text.trim_end().to_owned())
}

/// Returns the rows in which another program is better, the largest loss first.
fn losses(all: &[Measured]) -> Result<String> {
    let mut found = Vec::new();
    for measured in all {
        for compared in measured.compared() {
            for (peer, median, factor) in compared.peers.iter().filter(|(_, _, factor)| *factor < 1.0) {
                let cells = [
                    compared.row.name.clone(),
                    measured.machine()?,
                    of_unit(compared.row.median, &compared.row.unit),
                    format!("{peer} {}", figure(*median)),
                    format!("{factor:.2}"),
                ];
                found.push((*factor, cells.join(" | ")));
            }
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let lines: String = found.iter().map(|(_, cells)| format!("| {cells} |\n")).collect();
    let head = "| row | machine | Melisma | peer | factor |\n|---|---|---|---|---|\n";
    Ok(format!("## Where a peer is better\n\n{head}{lines}"))
}

impl Measured {
    /// Returns `snac-encode-cpu` for `bench/record/MACHINE/snac-encode-cpu.json`.
    fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".json").unwrap_or(name)
    }

    fn folder(&self) -> &str {
        self.path.rsplit('/').nth(1).unwrap_or_default()
    }

    fn machine(&self) -> Result<String> {
        machine(&self.path, self.folder(), &self.record)
    }

    /// Returns what `melisma bench` is asked for.
    fn command(&self) -> String {
        let named = self.stem().replace('-', "/");
        let part = PARTS.into_iter().find(|part| named.starts_with(part));
        let room = part.or_else(|| named.split('/').next()).unwrap_or_default();
        format!("melisma bench {room} --device {}", device(&self.record))
    }

    /// Returns the rows with other programs or a ceiling.
    fn compared(&self) -> Vec<Compared<'_>> {
        let rows = self.record.rows.iter().map(|row| Compared { row, peers: peers(row, &self.record.rows) });
        rows.filter(|compared| !compared.peers.is_empty() || compared.row.ceiling.is_some()).collect()
    }

    /// Returns the table of the record, or nothing if it has no row beside others.
    fn section(&self) -> Result<String> {
        let compared = self.compared();
        if compared.is_empty() {
            return Ok(String::new());
        }
        let lines: String = compared.iter().map(Compared::line).collect();
        Ok(format!(
            "\n### {} on {}\n\n`{}`, [record](../{})\n\n\
             | row | Melisma | spread | of the ceiling | peers (factor) |\n|---|---|---|---|---|\n{lines}",
            self.stem().trim_end_matches("-cpu").replace('-', "/"),
            self.machine()?,
            self.command(),
            self.path,
        ))
    }
}

impl Compared<'_> {
    fn line(&self) -> String {
        let row = self.row;
        let share = row.ceiling.map_or("-".to_owned(), |ceiling| percent(row.median / ceiling));
        let peers = self.peers.iter().map(|(name, median, factor)| match *factor < 1.0 {
            true => format!("**{name} {} ({factor:.2})**", figure(*median)),
            false => format!("{name} {} ({})", figure(*median), number(*factor)),
        });
        let peers = if self.peers.is_empty() { "-".to_owned() } else { peers.collect::<Vec<_>>().join(", ") };
        let median = of_unit(row.median, &row.unit);
        format!("| {} | {median} | {} | {share} | {peers} |\n", row.name, percent(row.spread))
    }
}

/// Returns the other programs of `row`, the best first. Sizes that stand in a row of speeds belong to its row of sizes.
fn peers<'a>(row: &'a Row, rows: &'a [Row]) -> Vec<(&'a str, f64, f64)> {
    let of_speeds = row.name.strip_suffix(": size");
    let speeds = of_speeds.and_then(|name| rows.iter().find(|row| row.name == name));
    let sizes =
        speeds.into_iter().flat_map(|row| &row.peers).filter_map(|peer| Some((peer.name.strip_suffix(SIZE)?, peer)));
    let own = row.peers.iter().filter(|peer| !peer.name.ends_with(SIZE)).map(|peer| (&*peer.name, peer));
    let is_program = |name: &str| PROGRAMS.iter().any(|program| name.starts_with(program));
    let mut found: Vec<_> = own
        .chain(sizes)
        .filter(|(name, _)| is_program(name))
        .filter_map(|(name, peer)| Some((name, peer.median, ratio(row, peer.median)?)))
        .collect();
    found.sort_by(|a, b| a.2.total_cmp(&b.2));
    found
}

fn of_unit(value: f64, unit: &str) -> String {
    match unit {
        "x" => format!("{}x", figure(value)),
        "%" => format!("{} %", super::share(value)),
        _ => format!("{} {unit}", figure(value)),
    }
}

/// Returns three digits or more, also of small figures.
fn figure(value: f64) -> String {
    match value {
        1e-12..0.0995 => format!("{value:.*}", (2.0 - value.log10().floor()) as usize),
        10_000.0.. => grouped(&format!("{:.0}", value)),
        _ => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(name: &str, unit: &str, median: f64, peers: &[(&str, f64)]) -> serde_json::Value {
        let peers: Vec<_> = peers.iter().map(|(name, median)| json!({ "name": name, "median": median })).collect();
        json!({ "name": name, "unit": unit, "median": median, "spread": 0.034, "n": 3, "peers": peers })
    }

    fn page(rows: &[serde_json::Value]) -> String {
        let record = json!({ "device": "cpu", "machine": "A CPU (2 cores, x86_64)", "rows": rows }).to_string();
        let other = json!({ "device": "cuda:0", "machine": "A CPU (16 cores, x86_64)", "rows": [] }).to_string();
        let files = [
            ("bench/record/a-2c/snac-encode-cpu.json", &*record),
            ("bench/record/nvidia-b1/mel.json", &other),
            ("bench/record/a-2c/tests.json", "{\"total\": 3}"),
        ];
        tables(files.into_iter()).unwrap()
    }

    #[test]
    fn rows_have_the_factor_over_each_program_and_the_best_peer_first() {
        let text = page(&[row("snac/a", "ms", 2.0, &[("torch", 8.0), ("onnxruntime", 4.0), ("memcpy", 1.0)])]);
        assert!(text.contains("\n## snac\n\n### snac/encode on 2 cores\n"), "{text}");
        assert!(
            text.contains(
                "`melisma bench snac/encode --device cpu`, [record](../bench/record/a-2c/snac-encode-cpu.json)"
            )
        );
        assert!(text.contains("| snac/a | 2.00 ms | 3 % | - | onnxruntime 4.00 (2.00), torch 8.00 (4.00) |"), "{text}");
        assert!(!text.contains("## mel") && !text.contains("B1"), "{text}");
    }

    #[test]
    fn a_peer_that_is_better_stands_at_the_top_and_in_bold() {
        let rows =
            [row("snac/a", "x", 4.0, &[("torch", 5.0)]), row("snac/b", "x", 1.0, &[("numpy", 10.0), ("torch", 0.5)])];
        let text = page(&rows);
        let losses = "|---|---|---|---|---|\n| snac/b | 2 cores | 1.00x | numpy 10.0 | 0.10 |\n| snac/a | 2 cores | 4.00x | torch 5.00 | 0.80 |\n";
        assert!(text.contains("\n## Where a peer is better\n") && text.contains(losses), "{text}");
        assert!(text.contains("| **numpy 10.0 (0.10)**, torch 0.50 (2.00) |"), "{text}");
    }

    #[test]
    fn sizes_of_peers_belong_to_the_row_of_sizes() {
        let rows = [
            row("pack/a", "GB/s", 4.0, &[("nvcomp", 2.0), ("nvcomp size", 0.5)]),
            row("pack/a: size", "share", 0.25, &[]),
        ];
        let text = page(&rows);
        assert!(text.contains("| pack/a | 4.00 GB/s | 3 % | - | nvcomp 2.00 (2.00) |"), "{text}");
        assert!(text.contains("| pack/a: size | 0.25 share | 3 % | - | nvcomp 0.50 (2.00) |"), "{text}");
    }

    #[test]
    fn small_figures_keep_their_digits() {
        assert_eq!([0.000_602_7, 0.0301, 0.5, 44_492_240.0].map(figure), ["0.000603", "0.0301", "0.50", "44,492,240"]);
    }
}
