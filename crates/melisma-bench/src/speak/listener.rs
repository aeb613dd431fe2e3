//! Several listeners of the built-in voice, as a server has them, but without its connections: the texts share the
//! steps, and their frames one engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use melisma::Result;
use melisma::snac::{Engine, EngineOptions, Noise};
use melisma::speak::{Ensemble, EnsembleOptions, Speaker};

use super::Row;
use super::voice::SENTENCE;
use crate::serve::BUFFER;

const N_LISTENERS: usize = 6;
/// Pieces of each text, which follow each other while the other texts are spoken.
const N_PIECES: usize = 3;

/// Measures how much of the audio comes in time for players that start a little after its first samples, and the speed
/// of the slowest text, as a multiple of real time.
pub(super) fn rows(speaker: &Arc<Speaker>, threads: usize) -> Result<Vec<Row>> {
    let all = spoken(speaker)?;
    let n_blocks: usize = all.iter().map(|audio| audio.blocks.len()).sum();
    let n_in_time: usize = all.iter().map(Audio::n_in_time).sum();
    let slowest = all.iter().map(Audio::realtime).fold(f64::INFINITY, f64::min);
    let name = format!("speak/builtin, {N_LISTENERS} listeners {threads}t");
    let share = 100.0 * n_in_time as f64 / n_blocks.max(1) as f64;
    let in_time = Row::single(format!("{name}, in time for a player"), "%", share);
    let slowest = Row::single(format!("{name}, the slowest"), "x", slowest);
    Ok(vec![Row { n: n_blocks as u64, ..in_time }, Row { n: N_LISTENERS as u64, ..slowest }])
}

/// Speaks texts that begin together, each to its end.
fn spoken(speaker: &Arc<Speaker>) -> Result<Vec<Audio>> {
    let (context, codec, text) = (speaker.context(), speaker.codec(), SENTENCE.repeat(N_PIECES));
    let options = EnsembleOptions { n_texts: N_LISTENERS, cache_bytes: u64::MAX };
    let mut ensemble = Ensemble::new(Arc::clone(speaker), options)?;
    let mut engine = Engine::new(codec, context.queue(), context.budget(), EngineOptions::new(N_LISTENERS))?;
    // A server is ready before its first client, too.
    ensemble.step_time(N_LISTENERS)?;
    let (start, mut texts) = (Instant::now(), BTreeMap::new());
    for seed in 0..N_LISTENERS as u64 {
        let script = speaker.script_within(&text, None, seed, ensemble.context())?;
        texts.insert(ensemble.join(script)?, (engine.open(Noise::default())?, Audio::default()));
    }
    let rate = f64::from(codec.config().sampling_rate);
    while !ensemble.is_empty() {
        for said in ensemble.step(|_| true)?.said {
            let Some((stream, audio)) = texts.get_mut(&said.member) else { continue };
            let mut n_samples = engine.push(*stream, &said.codes)?.len();
            if let Some(end) = said.end {
                end?;
                n_samples += engine.finish(*stream)?.len();
            }
            audio.push(start.elapsed().as_secs_f64(), n_samples as f64 / rate);
        }
    }
    Ok(texts.into_values().map(|(_, audio)| audio).collect())
}

/// The audio of a listener.
#[derive(Default)]
struct Audio {
    /// Of each block, when it came and when it is due after the first one is played, in seconds.
    blocks: Vec<(f64, f64)>,
    seconds: f64,
}

impl Audio {
    /// Adds a block of so many seconds that came at `at_s`. The first frames of a text give none.
    fn push(&mut self, at_s: f64, seconds: f64) {
        if seconds > 0.0 {
            self.blocks.push((at_s, self.seconds));
            self.seconds += seconds;
        }
    }

    fn n_in_time(&self) -> usize {
        let begin = self.blocks.first().map_or(0.0, |(at_s, _)| at_s + BUFFER.as_secs_f64());
        self.blocks.iter().filter(|(at_s, due_s)| *at_s <= begin + due_s).count()
    }

    /// Returns the seconds of audio for each second until the last block came.
    fn realtime(&self) -> f64 {
        self.blocks.last().map_or(0.0, |(at_s, _)| self.seconds / at_s.max(1e-12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_late_once_its_player_has_nothing_left() {
        let mut audio = Audio::default();
        // The player begins at 2.1 s and waits for the third block from 3.1 s on.
        for (at_s, seconds) in [(1.0, 0.0), (2.0, 0.5), (2.5, 0.5), (3.25, 0.5), (3.5, 0.5)] {
            audio.push(at_s, seconds);
        }
        assert_eq!((audio.blocks.len(), audio.n_in_time()), (4, 3));
        assert_eq!(audio.realtime(), 2.0 / 3.5);
        assert_eq!((Audio::default().n_in_time(), Audio::default().realtime()), (0, 0.0));
    }
}
