//! How fast texts will be spoken, from a few steps before the first of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::format::{Draw, Tokens};
use super::run::{ScriptRun, Stage};
use super::script::{Prompt, Script};
use crate::Result;
use crate::snac::{Codes, Config};

/// Steps are tried for so long; two at least, because the first one reads weights that are not in
/// memory.
const STEPS: Duration = Duration::from_millis(30);
/// The most of them: those of a small model agree soon.
const MOST_STEPS: usize = 6;
/// Frames of a text that is tried.
const TRIED_FRAMES: usize = 4;

/// How fast texts will be spoken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Texts of a list, or pieces of one text, that are spoken at once.
    pub n_at_once: usize,
    /// The time of a step, which draws a token for each of them.
    pub step: Duration,
    /// Seconds of speech that a second of work gives.
    pub realtime: f64,
    /// The time of all texts if none ends before its limit.
    pub most: Duration,
}

impl Estimate {
    /// Returns the figures as the fronts report them.
    pub fn to_json(&self) -> Value {
        json!({
            "real_time_factor": 1.0 / self.realtime,
            "step_seconds": self.step.as_secs_f64(),
            "texts_at_once": self.n_at_once,
            "most_seconds": self.most.as_secs_f64(),
        })
    }
}

/// What was tried.
pub(super) struct Trial {
    pub(super) n_at_once: usize,
    pub(super) step: Duration,
    /// The codec's time for a frame.
    pub(super) frame: Duration,
}

impl Trial {
    /// Returns what to expect of texts with up to `max_frames` frames together.
    pub(super) fn estimate(&self, config: &Config, max_frames: usize) -> Estimate {
        let frame_s = config.frame_len() as f64 / f64::from(config.sampling_rate);
        let per_frame = self.step.as_secs_f64() * config.n_slots() as f64 / self.n_at_once as f64;
        let realtime = frame_s / (per_frame + self.frame.as_secs_f64()).max(1e-9);
        let most = Duration::try_from_secs_f64(max_frames as f64 * frame_s / realtime).unwrap_or(Duration::MAX);
        Estimate { n_at_once: self.n_at_once, step: self.step, realtime, most }
    }
}

/// Returns the codec's time for a frame, with `decode` for a few of them.
pub(super) fn frame_time(config: &Config, decode: impl FnOnce(&Codes) -> Result<()>) -> Result<Duration> {
    let codes = Codes::from_frames(config, &vec![0; TRIED_FRAMES * config.n_slots()])?;
    let begin = Instant::now();
    decode(&codes)?;
    Ok(begin.elapsed() / TRIED_FRAMES as u32)
}

impl Stage {
    /// Returns the time of a step of `n` texts. Nothing is left of them.
    pub(super) fn step_time(&mut self, n: usize, (tokens, draw): (Tokens, Draw)) -> Result<Duration> {
        let _span = tracing::info_span!("estimate", n = n).entered();
        let prompt = Prompt { tokens: vec![tokens.speech], max_frames: TRIED_FRAMES };
        let run = |seed| {
            ScriptRun::new(Script { prompts: vec![prompt.clone()], seed, notes: Vec::new() }, tokens, draw, usize::MAX)
        };
        let mut runs: Vec<ScriptRun> = (0..n as u64).map(run).collect();
        let (begin, mut least) = (Instant::now(), Duration::MAX);
        for n_steps in 1.. {
            let start = Instant::now();
            // A text that fails here fails for its listener too, who is told.
            self.step(&mut runs)?;
            least = least.min(start.elapsed());
            let is_enough = n_steps == MOST_STEPS || (n_steps > 1 && begin.elapsed() > STEPS);
            if runs.iter().any(ScriptRun::is_done) || is_enough {
                break;
            }
        }
        runs.iter_mut().for_each(|run| self.forget(run));
        Ok(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speech_takes_the_steps_of_its_tokens_and_the_codec() {
        let trial = Trial { n_at_once: 4, step: Duration::from_millis(80), frame: Duration::from_millis(30) };
        let config = Config::snac_24khz();
        let estimate = trial.estimate(&config, 1000);
        // Seven steps for four frames of 85 ms, and the codec for each.
        assert!((estimate.realtime - (2048.0 / 24.0) / 170.0).abs() < 1e-9, "{estimate:?}");
        assert_eq!(estimate.most.as_secs_f64().round(), 170.0);
    }
}
