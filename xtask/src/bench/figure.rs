//! The figures of README.md: `--fill` writes them from the records, between two markers.
//!
//! A line of the table has our median, the two best of the row's peers, the factor over the best,
//! and the command that measures the row again.

use super::key;
use super::row::Row;
use crate::tree;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;

pub const PAGE: &str = "README.md";
const BEGIN: &str = "<!-- figures of bench/record, written by `cargo xtask bench --fill` -->\n";
const END: &str = "<!-- end of the figures -->\n";
const HEAD: &str = "| job | machine | Melisma | best peers | factor | command |\n|---|---|---|---|---|---|\n";
/// Peers of a line.
const N_PEERS: usize = 2;

/// A row of a record.
struct Place {
    /// `MACHINE/ROOM`.
    record: &'static str,
    row: &'static str,
    /// What `melisma bench` is asked for to measure it.
    room: &'static str,
}

/// A line of the table.
struct Line {
    job: &'static str,
    place: Place,
}

const LINES: [Line; 4] = [
    Line {
        job: "WAV files of 10 s to a dataset of mel spectrograms",
        place: Place { record: "xeon-avx512-2c/dataset", row: "dataset/build wav to f16 hdf5", room: "dataset" },
    },
    Line {
        job: "audio to SNAC tokens, 24 kHz",
        place: Place { record: "nvidia-h200/snac-encode-cpu", row: "snac/encode clip 24 kHz 2t", room: "snac/encode" },
    },
    Line {
        job: "SNAC tokens to audio, 24 kHz, 256 streams",
        place: Place { record: "nvidia-h200/snac", row: "snac/256 streams", room: "snac" },
    },
    Line {
        job: "mel spectrograms, 16-bit samples to f16",
        place: Place { record: "nvidia-h200/mel", row: "mel/1024-256-80 i16 to log f16, cuda", room: "mel" },
    },
];

/// Shares below the table: the words that follow each.
const SHARES: [(Place, &str); 3] = [
    (
        Place {
            record: "nvidia-h200/snac-encode-cpu",
            row: "snac/encode codes equal to a peer's 24 kHz",
            room: "snac/encode",
        },
        "of the encoder's tokens equal those of every peer",
    ),
    (
        Place { record: "nvidia-h200/serve", row: "serve/decode/24khz, 1000 streams, deadlines kept", room: "serve" },
        "of the frames of 1000 clients come from the server in time, on the H200",
    ),
    (
        Place { record: "nvidia-h200/serve", row: "serve/decode/24khz, 2000 streams, deadlines kept", room: "serve" },
        "of those of 2000 clients",
    ),
];

/// Writes the figures into the page.
pub fn write() -> Result<()> {
    let read = |path: &str| fs::read_to_string(tree::root().join(path)).with_context(|| path.to_string());
    let page = fill(&read(PAGE)?, read)?;
    fs::write(tree::root().join(PAGE), page).context(PAGE)
}

/// `page` with the figures of the records, which `read` gets by their paths in the repository.
pub fn fill(page: &str, read: impl Fn(&str) -> Result<String>) -> Result<String> {
    let missing = |marker: &str| format!("{PAGE} lacks the line `{}`", marker.trim_end());
    let (before, rest) = page.split_once(BEGIN).with_context(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(END))?;
    let mut text = format!("{before}{BEGIN}\n{HEAD}");
    for line in &LINES {
        text += &line.fill(&read)?;
    }
    text += "\n";
    for (place, words) in &SHARES {
        let (record, row) = place.find(&read)?;
        ensure!(row.unit == "%", "{}: `{}` is in {}, not in %", place.path(), place.row, row.unit);
        text += &format!("- {} % {words}:\n  `{}`\n", share(row.median), place.command(&record)?);
    }
    Ok(format!("{text}\n{END}{after}"))
}

impl Place {
    fn path(&self) -> String {
        format!("bench/record/{}.json", self.record)
    }

    /// The record and the row.
    fn find(&self, read: impl Fn(&str) -> Result<String>) -> Result<(Value, Row)> {
        let path = self.path();
        let record: Value = serde_json::from_str(&read(&path)?).with_context(|| path.clone())?;
        let rows = Row::all(&record).with_context(|| path.clone())?;
        let row = rows.into_iter().find(|row| key::current(&row.name) == self.row);
        Ok((record, row.with_context(|| format!("{path} has no row `{}`", self.row))?))
    }

    /// `cpu` or `cuda`.
    fn device<'a>(&self, record: &'a Value) -> Result<&'a str> {
        let device = record["device"].as_str().with_context(|| format!("{} has no `device`", self.path()))?;
        Ok(device.split(':').next().unwrap_or_default())
    }

    fn command(&self, record: &Value) -> Result<String> {
        Ok(format!("melisma bench {} --device {}", self.room, self.device(record)?))
    }

    /// `2 cores`, or the GPU that the record's folder is named after.
    fn machine(&self, record: &Value) -> Result<String> {
        if self.device(record)? != "cpu" {
            let folder = self.record.split('/').next().unwrap_or_default();
            return Ok(folder.to_uppercase().replace('-', " "));
        }
        let words = record["machine"].as_str().unwrap_or_default();
        let cores = words.rsplit_once('(').and_then(|(_, rest)| rest.split_once(','));
        Ok(cores.with_context(|| format!("{}: `machine` does not tell the cores", self.path()))?.0.to_string())
    }
}

impl Line {
    fn fill(&self, read: impl Fn(&str) -> Result<String>) -> Result<String> {
        let (record, row) = self.place.find(read)?;
        let path = self.place.path();
        let mut peers: Vec<_> =
            row.peers.iter().filter_map(|(name, median)| Some((name, *median, row.ratio(*median)?))).collect();
        peers.sort_by(|a, b| a.2.total_cmp(&b.2));
        let (_, _, factor) = peers.first().with_context(|| format!("{path}: `{}` has no peer", row.name))?;
        let shown: Vec<_> =
            peers.iter().take(N_PEERS).map(|(name, median, _)| format!("{name} {}", number(*median))).collect();
        Ok(format!(
            "| {} | {} | {} {} | {} | {factor:.1} | `{}` |\n",
            self.job,
            self.place.machine(&record)?,
            number(row.median),
            if row.unit == "x" { "x realtime" } else { &row.unit },
            shown.join(", "),
            self.place.command(&record)?,
        ))
    }
}

/// Three digits or more: `1.61`, `30.4`, `2,024`.
fn number(value: f64) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let grouped: String = whole
        .char_indices()
        .flat_map(|(at, digit)| [(at > 0 && (whole.len() - at) % 3 == 0).then_some(','), Some(digit)])
        .flatten()
        .collect();
    grouped + rest
}

/// Rounded down: only a share of 100 % is shown as such.
fn share(percent: f64) -> f64 {
    (percent * 100.0).floor() / 100.0
}

#[cfg(test)]
mod tests;
