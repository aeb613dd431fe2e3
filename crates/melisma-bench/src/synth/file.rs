//! A MIDI file to audio: CPU seconds per minute of audio, beside FluidSynth on the same file.

use std::collections::BTreeMap;

use melisma::Result;
use melisma::output;
use melisma::synth::{BusConfig, Performance, Score, Setup, Style, compose};

use super::{Peer, RATE, Row, cpu_seconds, peer};
use crate::record::quantile;

pub(super) const PEER: &str = include_str!("../../peers/fluidsynth.py");
const SECONDS: f64 = 60.0;
const RUNS: usize = 5;

pub(super) fn rows() -> Result<Vec<Row>> {
    let bytes = compose(&Style::named("bright")?, 1, SECONDS)?.to_midi()?;
    let score = Score::from_midi(&bytes)?;
    let setup = Setup::new(BusConfig::new(RATE)).with_max_voices(256);
    let mut figures = Vec::new();
    for _ in 0..RUNS {
        let begin = cpu_seconds();
        let mut performance = Performance::new(&score, setup)?;
        let mut n_samples = 0;
        while let Some(block) = performance.next_block(None)? {
            n_samples += block.left.len();
        }
        figures.push((cpu_seconds() - begin) * 60.0 * f64::from(RATE) / n_samples as f64);
    }
    let mut row = Row::single("synth/MIDI file, CPU per minute of sound", "s", quantile(&figures, 0.5));
    row.n = RUNS as u64;
    let path = std::env::temp_dir().join(format!("melisma-bench-{}.mid", std::process::id()));
    output::write(&path, &bytes, output::Existing::Replace)?;
    let found = peer("FluidSynth", PEER, &[&path.to_string_lossy(), &RATE.to_string()]);
    std::fs::remove_file(&path).map_err(|error| output::failed(&path, error))?;
    let found: Option<BTreeMap<String, f64>> = found.and_then(|value| serde_json::from_value(value).ok());
    row.peers.extend(found.into_iter().flatten().map(|(name, median)| Peer { name, median }));
    Ok(vec![row])
}
