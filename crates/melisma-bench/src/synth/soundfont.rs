//! General MIDI with a SoundFont: CPU seconds per minute of 16 channels, beside FluidSynth with the same file and font.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::file::PEER;
use super::{Peer, RATE, Row, cpu_seconds, peer};
use crate::record::quantile;
use melisma::output;
use melisma::synth::{BusConfig, Performance, Sequence, Setup, SoundFont, synthetic_soundfont};
use melisma::{Error, Result};

/// Where systems keep SoundFonts.
const FOLDER: &str = "/usr/share/sounds/sf2";
/// Beats of the piece, at 120 a minute.
const BEATS: u32 = 120;
/// Ticks of a beat.
const DIVISION: u16 = 96;
const RUNS: usize = 5;

pub(super) fn rows() -> Result<Vec<Row>> {
    let bytes = sixteen_channels();
    let found = font();
    let font = match &found {
        Some(path) => SoundFont::open(path)?,
        None => SoundFont::read(&synthetic_soundfont::bytes())?,
    };
    let sequence = Sequence::from_midi(&bytes)?;
    let mut figures = Vec::new();
    for _ in 0..RUNS {
        let begin = cpu_seconds();
        let mut performance = Performance::sampled(&sequence, &font, Setup::new(BusConfig::new(RATE)))?;
        let mut n_samples = 0;
        while let Some(block) = performance.next_block(None)? {
            n_samples += block.left.len();
        }
        figures.push((cpu_seconds() - begin) * 60.0 * f64::from(RATE) / n_samples as f64);
    }
    let mut row = Row::single("synth/SoundFont, 16 channels, CPU per minute of sound", "s", quantile(&figures, 0.5));
    row.n = RUNS as u64;
    if found.is_some() {
        let path = std::env::temp_dir().join(format!("melisma-bench-gm-{}.mid", std::process::id()));
        output::write(&path, &bytes, output::Existing::Replace)?;
        let beside = peer("FluidSynth", PEER, &[&path.to_string_lossy(), &RATE.to_string()]);
        std::fs::remove_file(&path).map_err(|error| output::failed(&path, error))?;
        let beside: Option<BTreeMap<String, f64>> = beside.and_then(|value| serde_json::from_value(value).ok());
        row.peers.extend(beside.into_iter().flatten().map(|(name, median)| Peer { name, median }));
    }
    Ok(vec![row])
}

/// Returns the SoundFont that the peer takes as well; without one, a row of its own has a synthetic one.
fn font() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("MELISMA_SOUNDFONT") {
        return Some(path.into());
    }
    let entries = std::fs::read_dir(FOLDER).map_err(|error| Error::io(FOLDER, error)).ok()?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "sf2"));
    paths.sort();
    paths.into_iter().next()
}

/// Returns a minute of chords of two notes a beat on fifteen programs, and of drums.
fn sixteen_channels() -> Vec<u8> {
    let mut track = Vec::new();
    for channel in 0..16u8 {
        track.extend([0, 0xc0 | channel, channel * 8 % 128]);
    }
    for beat in 0..BEATS {
        let keys = |channel: u8| {
            let low = 40 + ((beat * 5 + u32::from(channel) * 7) % 36) as u8;
            [low, low + 7]
        };
        for channel in 0..16u8 {
            keys(channel).iter().for_each(|key| track.extend([0, 0x90 | channel, *key, 90]));
        }
        for channel in 0..16u8 {
            let [first, second] = keys(channel);
            let wait = if channel == 0 { DIVISION as u8 } else { 0 };
            track.extend([wait, 0x80 | channel, first, 0, 0, 0x80 | channel, second, 0]);
        }
    }
    track.extend([0, 0xff, 0x2f, 0]);
    let len = (track.len() as u32).to_be_bytes();
    [b"MThd\0\0\0\x06\0\0\0\x01", &DIVISION.to_be_bytes()[..], b"MTrk", &len, &track].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_piece_is_a_minute_of_sixteen_channels() {
        let sequence = Sequence::from_midi(&sixteen_channels()).unwrap();
        let notes = &sequence.score().notes;
        assert_eq!(notes.len(), BEATS as usize * 32);
        let end = notes.iter().map(|note| note.start + note.duration).fold(0.0, f64::max);
        assert!((end - 60.0).abs() < 1e-9, "{end}");
        let channels: std::collections::BTreeSet<u8> = notes.iter().map(|note| note.channel).collect();
        assert_eq!(channels.len(), 16);
    }
}
