//! The figures of README.md, docs/running.md and docs/benchmarks.md: `--fill` writes them from the records, between two
//! markers.
//!
//! A line of README's table has our median and its spread, the two best of the row's peers, the factor over the best,
//! and the command that measures the row again.

mod overview;
mod plot;
mod sizing;

use super::ratio::ratio;
use super::record::{Record, Row};
use crate::tree;
use anyhow::{Context, Result, ensure};
use std::fs;

pub const PAGE: &str = "README.md";
const SIZING_PAGE: &str = "docs/running.md";
/// Every page with figures of chosen rows.
pub const PAGES: [&str; 2] = [PAGE, SIZING_PAGE];
/// The page with the figures of all records.
pub const OVERVIEW_PAGE: &str = overview::PAGE;
/// Where the records are.
pub const RECORDS: &str = "bench/record";
const BEGIN: &str = "<!-- figures of bench/record, written by `cargo xtask bench --fill` -->\n";
const END: &str = "<!-- end of the figures -->\n";
const HEAD: &str =
    "| job | machine | Melisma | spread | best peers | factor | command |\n|---|---|---|---|---|---|---|\n";
/// Peers of a line.
const N_PEERS: usize = 2;

/// A row of a record.
struct Source {
    /// `MACHINE/ROOM`.
    record: &'static str,
    row: &'static str,
    /// What `melisma bench` is asked for to measure it.
    room: &'static str,
}

/// A line of the table.
struct Line {
    job: &'static str,
    source: Source,
}

const LINES: [Line; 4] = [
    Line {
        job: "WAV files of 10 s to a dataset of mel spectrograms",
        source: Source { record: "xeon-avx512-2c/dataset", row: "dataset/build wav to f16 hdf5", room: "dataset" },
    },
    Line {
        job: "audio to SNAC tokens, 24 kHz",
        source: Source {
            record: "nvidia-h200/snac-encode-cpu",
            row: "snac/encode clip 24 kHz 2t",
            room: "snac/encode",
        },
    },
    Line {
        job: "SNAC tokens to audio, 24 kHz, 256 streams",
        source: Source { record: "nvidia-h200/snac", row: "snac/256 streams", room: "snac" },
    },
    Line {
        job: "mel spectrograms, 16-bit samples to f16",
        source: Source { record: "nvidia-h200/mel", row: "mel/1024-256-80 i16 to log f16, cuda", room: "mel" },
    },
];

/// Shares below the table: the words that follow each.
const SHARES: [(Source, &str); 3] = [
    (
        Source {
            record: "nvidia-h200/snac-encode-cpu",
            row: "snac/encode codes equal to a peer's 24 kHz",
            room: "snac/encode",
        },
        "of the encoder's tokens equal those of every peer",
    ),
    (
        Source { record: "nvidia-h200/serve", row: "serve/decode/24khz, 1000 streams, deadlines kept", room: "serve" },
        "of the frames of 1,000 clients come in time from a server on the H200",
    ),
    (
        Source { record: "nvidia-h200/serve", row: "serve/decode/24khz, 2000 streams, deadlines kept", room: "serve" },
        "of the frames of 2,000 clients come in time",
    ),
];

/// Writes the figures into their pages.
pub fn write() -> Result<()> {
    let read = |path: &str| fs::read_to_string(tree::root().join(path)).with_context(|| path.to_string());
    for page in PAGES {
        fs::write(tree::root().join(page), fill(page, &read(page)?, read)?).context(page)?;
    }
    let mut paths: Vec<String> =
        tree::files(&tree::root().join(RECORDS))?.iter().map(|path| tree::shown(path)).collect();
    paths.retain(|path| path.ends_with(".json"));
    let texts = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    let records = paths.iter().zip(&texts).map(|(path, text)| (&**path, &**text));
    let page = fill_overview(&read(OVERVIEW_PAGE)?, records)?;
    fs::write(tree::root().join(OVERVIEW_PAGE), page).context(OVERVIEW_PAGE)
}

/// Returns the text of [`OVERVIEW_PAGE`] with the figures of all records, given as paths and texts.
pub fn fill_overview<'a>(text: &str, records: impl Iterator<Item = (&'a str, &'a str)>) -> Result<String> {
    between(OVERVIEW_PAGE, text, &overview::tables(records)?)
}

/// Returns the text of `page`, one of [`PAGES`], with the figures of the records, which `read` gets by their paths in
/// the repository.
pub fn fill(page: &str, text: &str, read: impl Fn(&str) -> Result<String>) -> Result<String> {
    parts(page, text)?;
    let figures = if page == SIZING_PAGE { sizing::table(&read)? } else { figures(&read)? };
    between(page, text, &figures)
}

/// Returns what stands before and after the figures of `page`.
fn parts<'a>(page: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    let missing = |marker: &str| format!("{page} lacks the line `{}`", marker.trim_end());
    let (before, rest) = text.split_once(BEGIN).with_context(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(END))?;
    Ok((before, after))
}

fn between(page: &str, text: &str, figures: &str) -> Result<String> {
    let (before, after) = parts(page, text)?;
    Ok(format!("{before}{BEGIN}\n{figures}\n{END}{after}"))
}

/// Returns the figures of [`PAGE`].
fn figures(read: &impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut text = HEAD.to_owned();
    for line in &LINES {
        text += &line.fill(read)?;
    }
    text += "\n";
    for (source, words) in &SHARES {
        let (record, row) = source.find(read)?;
        ensure!(row.unit == "%", "{}: `{}` is in {}, not in %", source.path(), source.row, row.unit);
        text += &format!("- {} % {words}:\n  `{}`\n", share(row.median), source.command(&record));
    }
    Ok(text)
}

impl Source {
    fn path(&self) -> String {
        format!("bench/record/{}.json", self.record)
    }

    /// Returns the record and the row.
    fn find(&self, read: impl Fn(&str) -> Result<String>) -> Result<(Record, Row)> {
        let path = self.path();
        let record: Record = serde_json::from_str(&read(&path)?).with_context(|| path.clone())?;
        let row = record.rows.iter().find(|row| row.name == self.row).cloned();
        Ok((record, row.with_context(|| format!("{path} has no row `{}`", self.row))?))
    }

    fn command(&self, record: &Record) -> String {
        format!("melisma bench {} --device {}", self.room, device(record))
    }

    /// Returns the machine as [`machine`] has it.
    fn machine(&self, record: &Record) -> Result<String> {
        machine(&self.path(), self.record.split('/').next().unwrap_or_default(), record)
    }
}

/// How the folders of machines with a GPU begin.
const GPU: &str = "nvidia-";

/// Returns the GPU that `folder` is named after, `2 cores`, or `2 cores of the NVIDIA H200's host`.
fn machine(path: &str, folder: &str, record: &Record) -> Result<String> {
    let gpu = folder.to_uppercase().replace('-', " ");
    if device(record) != "cpu" {
        return Ok(gpu);
    }
    let cores = record.machine.rsplit_once('(').and_then(|(_, rest)| rest.split_once(','));
    let (cores, _) = cores.with_context(|| format!("{path}: `machine` does not tell the cores"))?;
    Ok(if folder.starts_with(GPU) { format!("{cores} of the {gpu}'s host") } else { cores.to_owned() })
}

impl Line {
    fn fill(&self, read: impl Fn(&str) -> Result<String>) -> Result<String> {
        let (record, row) = self.source.find(read)?;
        let path = self.source.path();
        let mut peers: Vec<_> =
            row.peers.iter().filter_map(|peer| Some((&peer.name, peer.median, ratio(&row, peer.median)?))).collect();
        peers.sort_by(|a, b| a.2.total_cmp(&b.2));
        let (_, _, factor) = peers.first().with_context(|| format!("{path}: `{}` has no peer", row.name))?;
        let shown: Vec<_> =
            peers.iter().take(N_PEERS).map(|(name, median, _)| format!("{name} {}", number(*median))).collect();
        Ok(format!(
            "| {} | {} | {} {} | {} | {} | {factor:.1} | `{}` |\n",
            self.job,
            self.source.machine(&record)?,
            number(row.median),
            if row.unit == "x" { "x realtime" } else { &row.unit },
            percent(row.spread),
            shown.join(", "),
            self.source.command(&record),
        ))
    }
}

/// Returns `cpu` or `cuda`.
fn device(record: &Record) -> &str {
    record.device.split(':').next().unwrap_or_default()
}

/// Returns three digits or more: `1.61`, `30.4`, `2,024`.
fn number(value: f64) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    grouped(whole) + rest
}

/// Returns a share as in `3 %`.
fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Returns digits with commas between thousands.
fn grouped(digits: &str) -> String {
    let comma = |at: usize| (at > 0 && (digits.len() - at).is_multiple_of(3)).then_some(',');
    digits.char_indices().flat_map(|(at, digit)| [comma(at), Some(digit)]).flatten().collect()
}

/// Rounds down: only a share of 100 % is shown as such.
fn share(percent: f64) -> f64 {
    (percent * 100.0).floor() / 100.0
}

#[cfg(test)]
mod tests;
