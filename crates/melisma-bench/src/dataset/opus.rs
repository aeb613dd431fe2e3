//! Reading Opus on one core, beside opusdec: a minute of each mode.

use std::path::Path;
use std::time::Instant;

use melisma::audio::{Stream, Target};
use melisma::{Error, Result};

use crate::folder::Folder;
use crate::measure::of_times;
use crate::peer::{Figures, peer};
use crate::{BenchContext, Peer, Row};

const PEERS: &str = include_str!("../../peers/opusdec.py");
/// Three tenths of a second each, at 48 kHz.
const FILES: [(&str, &[u8]); 3] = [
    ("CELT, stereo", include_bytes!("../../golden/celt_20ms.opus")),
    ("hybrid, mono", include_bytes!("../../golden/hybrid_20ms.opus")),
    ("SILK, mono", include_bytes!("../../golden/silk_wide_20ms.opus")),
];
/// How often a file repeats.
const LINKS: u32 = 200;
const RATE: u32 = 48_000;
const RUNS: usize = 3;
/// Bytes of a page's header before the lengths of its segments.
const HEADER: usize = 27;

pub(crate) fn rows(_: BenchContext<'_>) -> Result<Vec<Row>> {
    let folder = Folder::create("opus")?;
    let mut rows = Vec::new();
    let mut args = Vec::new();
    for (index, (name, bytes)) in FILES.into_iter().enumerate() {
        let path = folder.0.join(format!("{index}.opus"));
        std::fs::write(&path, chain(bytes, LINKS)).map_err(|error| Error::io(path.display(), error))?;
        let name = format!("dataset/opus decode, {name}, 1t");
        let (row, seconds) = ours(&name, &path)?;
        args.extend([name, path.display().to_string(), seconds.to_string()]);
        rows.push(row);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut figures: Figures =
        peer("opusdec", PEERS, &args).and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    for row in &mut rows {
        let peers = figures.remove(&row.name).into_iter().flatten();
        row.peers = peers.map(|(name, median)| Peer { name, median }).collect();
    }
    Ok(rows)
}

/// Measures how much faster than real time `path` is read, and returns its seconds as well.
fn ours(name: &str, path: &Path) -> Result<(Row, f64)> {
    let mut seconds = 0.0;
    let mut times = Vec::new();
    // The first run warms the page cache.
    for run in 0..=RUNS {
        let begin = Instant::now();
        seconds = read(path)?;
        if run > 0 {
            times.push(begin.elapsed().as_secs_f64());
        }
    }
    Ok((of_times(times).rate(name, "x", seconds), seconds))
}

/// Reads all samples and returns the seconds that they last.
fn read(path: &Path) -> Result<f64> {
    let mut stream = Stream::open(path, Target::new(RATE))?;
    while !stream.read()?.is_empty() {}
    Ok(stream.n_read() as f64 / f64::from(RATE))
}

/// Repeats an Ogg file `n` times as the links of a chain, each with its own serial number.
fn chain(file: &[u8], n: u32) -> Vec<u8> {
    let mut chained = Vec::with_capacity(file.len() * n as usize);
    for serial in 1..=n {
        let mut rest = file;
        while let Some(&n_segments) = rest.get(HEADER - 1) {
            let lens = &rest[HEADER..HEADER + usize::from(n_segments)];
            let len = HEADER + lens.len() + lens.iter().map(|&len| usize::from(len)).sum::<usize>();
            let (page, after) = rest.split_at(len);
            let mut page = page.to_vec();
            page[14..18].copy_from_slice(&serial.to_le_bytes());
            page[22..26].fill(0);
            let checksum = crc(&page);
            page[22..26].copy_from_slice(&checksum.to_le_bytes());
            chained.append(&mut page);
            rest = after;
        }
    }
    chained
}

/// Returns the checksum of a page (RFC 3533).
fn crc(page: &[u8]) -> u32 {
    page.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_the_sound_of_every_link() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in FILES {
            let path = folder.path().join("chain.opus");
            std::fs::write(&path, bytes).unwrap();
            let one = read(&path).unwrap();
            std::fs::write(&path, chain(bytes, 3)).unwrap();
            assert!(one > 0.25 && (read(&path).unwrap() - 3.0 * one).abs() < 1e-9, "{name}");
        }
    }
}
