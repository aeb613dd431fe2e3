//! What is done with the audio of a file before rows are made of it: silence at its ends, and its loudness.

use serde::{Deserialize, Serialize};

use crate::audio::{Meter, Source};
use crate::dataset::counters::Counters;
use crate::{Error, Result};

/// The largest true peak that a gain may cause, in dBTP.
const PEAK_DBTP: f64 = -1.0;
/// Seconds of a block whose power is compared with the threshold.
const BLOCK_SECONDS: f64 = 0.01;
/// The shortest sound that has a loudness, in seconds.
const LEAST_SECONDS: f64 = 0.4;
/// The least rate at which loudness can be weighted by frequency, in Hz.
const LEAST_RATE: u32 = 8_000;
/// Samples that are read at once.
const BLOCK: usize = 1 << 14;

/// What is done with the audio of a file before rows are made of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Preparation {
    /// Which silence at the ends is left out; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim: Option<Trim>,
    /// The loudness that every file gets, in LUFS; `None` for its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loudness: Option<f64>,
}

/// Which silence at the ends of a file is left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trim {
    /// Blocks of 10 ms below this power are silence, in dB of full scale.
    pub threshold_db: f64,
    /// The silence that stays at each end, in seconds.
    pub margin_seconds: f64,
}

impl Default for Trim {
    fn default() -> Self {
        Self { threshold_db: -50.0, margin_seconds: 0.1 }
    }
}

impl Trim {
    setters! {
        /// Sets the power of 10 ms below which they are silence, in dB of full scale.
        pub fn with_threshold_db(threshold_db: f64);
        /// Sets the silence that stays at each end, in seconds.
        pub fn with_margin_seconds(margin_seconds: f64);
    }
}

impl Preparation {
    /// Leaves out the silence that `trim` describes, then gives each file this loudness in LUFS; `None` changes nothing.
    ///
    /// # Errors
    /// A number is out of range: a threshold of -120 to -1 dB, a margin of 0 to 60 s, a loudness of -70 to 0 LUFS.
    pub fn new(trim: Option<Trim>, loudness: Option<f64>) -> Result<Self> {
        if let Some(Trim { threshold_db, margin_seconds }) = trim {
            if !(-120.0..=-1.0).contains(&threshold_db) {
                let message = format!("a threshold of silence of {threshold_db} dB is out of range: -120 to -1");
                return Err(Error::invalid(message).with_hint("rooms of recordings lie at -70 to -50"));
            }
            if !(0.0..=60.0).contains(&margin_seconds) {
                let message = format!("a margin of silence of {margin_seconds} s is out of range: 0 to 60");
                return Err(Error::invalid(message));
            }
        }
        match loudness {
            Some(lufs) if !(-70.0..=0.0).contains(&lufs) => {
                Err(Error::invalid(format!("a loudness of {lufs} LUFS is out of range: -70 to 0"))
                    .with_hint("speech is often at -23 or -18"))
            }
            _ => Ok(Self { trim, loudness }),
        }
    }

    /// Returns whether the audio stays as it is.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Reads all of `source`, and returns its part and gain; or why it has none: the code of its failure, and a message.
    pub(super) fn prepare(
        &self,
        source: &mut Source,
        target: (u32, &Counters),
    ) -> Result<std::result::Result<Prepared, Unfit>> {
        let (rate, counters) = target;
        let mut prepared = Prepared::whole(source.facts().n_samples);
        if let Some(trim) = self.trim {
            let mut sound = Sound::new(trim, rate);
            each(source, &prepared, counters, |samples| sound.push(samples))?;
            match sound.finish(prepared.n_samples) {
                Some((first, n_samples)) => (prepared.first, prepared.n_samples) = (first, n_samples),
                None => {
                    let message = format!("no 10 ms of it are louder than {} dB of full scale", trim.threshold_db);
                    return Ok(Err(("silent", Error::invalid(message))));
                }
            }
        }
        let Some(wanted) = self.loudness else { return Ok(Ok(prepared)) };
        if rate < LEAST_RATE {
            let message = format!("loudness at {rate} Hz; at least {LEAST_RATE} Hz are needed");
            return Err(Error::unsupported(message));
        }
        // One channel: the other side is silent.
        let (mut meter, silence) = (Meter::new(rate), vec![0.0; BLOCK]);
        each(source, &prepared, counters, |samples| meter.push(samples, &silence))?;
        let Some(found) = meter.integrated() else {
            let seconds = prepared.n_samples as f64 / f64::from(rate);
            return Ok(Err(match seconds < LEAST_SECONDS {
                true => ("too-short", Error::invalid(format!("{seconds:.3} s; loudness needs {LEAST_SECONDS} s"))),
                false => ("silent", Error::invalid("no 400 ms of it are louder than -70 LUFS")),
            }));
        };
        let (gain, most) = (from_db(wanted - found), from_db(PEAK_DBTP) / meter.peak());
        prepared.gain = gain.min(most) as f32;
        if most < gain {
            let reached = found + 20.0 * most.log10();
            prepared.limited =
                Some(format!("{reached:.1} LUFS instead of {wanted}: its true peak would be above {PEAK_DBTP} dBTP"));
        }
        Ok(Ok(prepared))
    }
}

/// Why a file is refused.
pub(super) type Unfit = (&'static str, Error);

/// The part of a file that rows are made of, and what it is multiplied with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prepared {
    pub(super) first: u64,
    pub(super) n_samples: u64,
    pub(super) gain: f32,
    /// Words about a gain that is smaller than the loudness needs.
    pub(super) limited: Option<String>,
}

impl Prepared {
    pub(super) fn whole(n_samples: u64) -> Self {
        Self { first: 0, n_samples, gain: 1.0, limited: None }
    }
}

fn from_db(db: f64) -> f64 {
    10f64.powf(db / 20.0)
}

/// Gives the samples of a part to `take`, in order.
fn each(source: &mut Source, part: &Prepared, counters: &Counters, mut take: impl FnMut(&[f32])) -> Result<()> {
    let (mut samples, mut at) = (vec![0.0; BLOCK], 0);
    while at < part.n_samples {
        counters.check_stop()?;
        let n = (part.n_samples - at).min(BLOCK as u64) as usize;
        source.read_f32(part.first + at, &mut samples[..n])?;
        take(&samples[..n]);
        at += n as u64;
    }
    Ok(())
}

/// Finds the first and the last block that is not silence.
struct Sound {
    /// Samples of a block.
    len: u64,
    margin: u64,
    /// The least mean power.
    least: f64,
    /// Samples that were taken, and the power of those of the current block.
    at: u64,
    power: f64,
    /// The first sample of the first loud block, and the one after the last.
    loud: Option<(u64, u64)>,
}

impl Sound {
    fn new(trim: Trim, rate: u32) -> Self {
        let samples = |seconds: f64| (seconds * f64::from(rate)).round() as u64;
        let least = from_db(trim.threshold_db).powi(2);
        Self {
            len: samples(BLOCK_SECONDS).max(1),
            margin: samples(trim.margin_seconds),
            least,
            at: 0,
            power: 0.0,
            loud: None,
        }
    }

    fn push(&mut self, samples: &[f32]) {
        for &sample in samples {
            self.power += f64::from(sample).powi(2);
            self.at += 1;
            if self.at.is_multiple_of(self.len) {
                self.end(self.len);
            }
        }
    }

    /// Ends a block of `n` samples.
    fn end(&mut self, n: u64) {
        if self.power > self.least * n as f64 {
            let first = self.loud.map_or(self.at - n, |(first, _)| first);
            self.loud = Some((first, self.at));
        }
        self.power = 0.0;
    }

    /// Returns the part with its margins: its first sample, and how many it has.
    fn finish(mut self, n_samples: u64) -> Option<(u64, u64)> {
        let rest = self.at % self.len;
        if rest > 0 {
            self.end(rest);
        }
        let (first, end) = self.loud?;
        let first = first.saturating_sub(self.margin);
        Some((first, (end + self.margin).min(n_samples) - first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(samples: &[f32], trim: Trim, cut: usize) -> Option<(u64, u64)> {
        let mut sound = Sound::new(trim, 1000);
        samples.chunks(cut).for_each(|part| sound.push(part));
        sound.finish(samples.len() as u64)
    }

    #[test]
    fn silence_is_left_out_up_to_the_margin_however_the_sound_is_cut() {
        let mut samples = vec![1e-4; 1005];
        samples[300..307].fill(0.5);
        samples[640..650].fill(-0.5);
        let trim = Trim::default().with_margin_seconds(0.05);
        for cut in [1, 7, 10, 2000] {
            assert_eq!(found(&samples, trim, cut), Some((250, 450)), "{cut}");
        }
        // The last block is shorter, and margins end with the file.
        samples[1002] = 1.0;
        samples[3] = 1.0;
        assert_eq!(found(&samples, trim, 9), Some((0, 1005)));
        assert_eq!(found(&[1e-4; 500], trim, 9), None);
        assert_eq!(found(&[1e-4; 500], trim.with_threshold_db(-90.0), 9), Some((0, 500)));
        assert_eq!(found(&[], trim, 9), None);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let trim = Trim::default();
        for wrong in [
            (Some(trim.with_threshold_db(0.0)), None),
            (Some(trim.with_threshold_db(f64::NAN)), None),
            (Some(trim.with_margin_seconds(-1.0)), None),
            (Some(trim.with_margin_seconds(61.0)), None),
            (None, Some(1.0)),
            (None, Some(f64::NAN)),
        ] {
            assert!(Preparation::new(wrong.0, wrong.1).is_err(), "{wrong:?}");
        }
        assert!(Preparation::new(None, None).unwrap().is_none());
        assert!(!Preparation::new(Some(trim), Some(-23.0)).unwrap().is_none());
    }
}
