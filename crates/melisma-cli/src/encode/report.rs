//! What `encode` prints about a clip.

use std::time::Duration;

use melisma::text::{count, duration};
use serde_json::{Value, json};

use super::flow::Outcome;
use super::token_format::TokenFormat;
use crate::codec::Codec;

pub struct Report<'a> {
    pub codec: &'a Codec,
    pub outcome: Outcome,
    pub wall: Duration,
    pub format: TokenFormat,
    pub min_snr_db: Option<f64>,
}

impl Report<'_> {
    fn sample_rate(&self) -> u32 {
        self.codec.model.config().sampling_rate
    }

    fn audio_seconds(&self) -> f64 {
        self.outcome.n_samples as f64 / f64::from(self.sample_rate())
    }

    fn n_tokens(&self) -> u64 {
        self.outcome.n_frames * self.codec.model.config().n_slots() as u64
    }

    /// Returns the signal-to-noise ratio and the limit, if the ratio is below it. Silence has no ratio.
    pub fn missed_snr(&self) -> Option<(f64, f64)> {
        let snr_db = self.outcome.fidelity.and_then(|fidelity| fidelity.snr_db);
        snr_db.zip(self.min_snr_db).filter(|(snr_db, least)| snr_db < least)
    }

    pub fn text(&self) -> String {
        let (audio, wall) = (self.audio_seconds(), self.wall.as_secs_f64());
        let fidelity = self.outcome.fidelity.map_or_else(String::new, |fidelity| format!("round trip: {fidelity}\n"));
        format!(
            "{}, {} of {} of audio in {} ({:.1}x realtime)\n{fidelity}",
            count(self.outcome.n_frames, "frame"),
            count(self.n_tokens(), "token"),
            duration::show(Duration::from_secs_f64(audio)),
            duration::show(self.wall),
            audio / wall.max(1e-9),
        )
    }

    pub fn json(&self, source: &str) -> Value {
        let (audio, wall) = (self.audio_seconds(), self.wall.as_secs_f64());
        let fidelity = self.outcome.fidelity.map(|fidelity| {
            json!({
                "snr_db": fidelity.snr_db,
                "log_mel_distance": fidelity.log_mel_distance,
                "min_snr_db": self.min_snr_db,
            })
        });
        json!({
            "frames": self.outcome.n_frames,
            "tokens": self.n_tokens(),
            "samples": self.outcome.n_samples,
            "sample_rate_hz": self.sample_rate(),
            "audio_seconds": audio,
            "wall_seconds": wall,
            "load_seconds": self.codec.load_seconds,
            "encode_seconds": self.outcome.encoding.as_secs_f64(),
            // Seconds of work per second of audio: below 1 is faster than real time.
            "real_time_factor": (audio > 0.0).then(|| wall / audio),
            "format": self.format.name(),
            "model": { "source": source, "hash": self.codec.model.hash() },
            "fidelity": fidelity,
            "notes": self.outcome.notes,
        })
    }
}
