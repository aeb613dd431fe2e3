//! How many streams a device keeps at real-time pace, measured on the engine that will serve them.

use std::time::{Duration, Instant};

use melisma::Result;
use melisma::snac::{Codes, Config, Engine, Noise, StreamId};

/// The share of the time that steps may take; the rest is for parsing, sending, and steps that take longer than those
/// measured: at 0.73 one start in three admitted more streams than two shared CPUs could keep.
const SHARE: f64 = 0.62;
/// A step is shorter than this if more than one frame fits into it, so that a frame that has just
/// arrived does not wait long for the step before it.
const STEP: Duration = Duration::from_millis(10);
/// Steps measured for each number of streams. The middle one counts.
const N_STEPS: usize = 11;
/// Before each measured step, as between the frames of live streams: threads sleep, and a step that follows another at
/// once is much faster.
const PAUSE: Duration = Duration::from_millis(8);

/// Measured capacity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Streams at real-time pace, or one that is slower.
    pub streams: usize,
    /// Frames of a step, of all streams together.
    pub step_frames: usize,
}

impl Capacity {
    /// Measures steps of 1, 2, 4, ... streams, up to `max_streams`.
    ///
    /// # Errors
    /// The device fails.
    pub fn measure(engine: &mut Engine, config: &Config, max_streams: usize) -> Result<Self> {
        let frame = Codes::from_frames(config, &vec![0; config.n_slots()])?;
        let period = period(config);
        let mut open: Vec<StreamId> = Vec::new();
        let mut measured = Vec::new();
        let mut n_streams = 1;
        loop {
            while open.len() < n_streams {
                open.push(engine.open(Noise::default())?);
            }
            let input: Vec<_> = open.iter().map(|stream| (*stream, frame.frames())).collect();
            let mut times = [Duration::ZERO; N_STEPS];
            for time in &mut times {
                std::thread::sleep(PAUSE);
                let start = Instant::now();
                engine.step(&input)?;
                *time = start.elapsed();
            }
            times.sort_unstable();
            let time = times[N_STEPS / 2];
            measured.push((n_streams, time));
            if n_streams == max_streams || time > period {
                break;
            }
            n_streams = (2 * n_streams).min(max_streams);
        }
        open.into_iter().try_for_each(|stream| engine.close(stream))?;
        let step_frames = largest(&measured, STEP).clamp(1, engine.max_frames());
        Ok(Self { streams: sustained(&measured, step_frames, period.mul_f64(SHARE)), step_frames })
    }
}

/// Returns the time that one frame plays.
pub fn period(config: &Config) -> Duration {
    Duration::from_secs_f64(config.frame_len() as f64 / f64::from(config.sampling_rate))
}

/// Returns the streams whose steps of `step_frames` frames, one after the other, take at most `limit`. At least
/// one: a machine that is busy now may be idle when the stream comes.
fn sustained(measured: &[(usize, Duration)], step_frames: usize, limit: Duration) -> usize {
    let at_once = largest(measured, limit);
    let rate = measured.iter().filter(|(n, _)| *n <= step_frames).map(|(n, time)| *n as f64 / time.as_secs_f64());
    let one_by_one = rate.fold(0.0, f64::max) * limit.as_secs_f64();
    at_once.min(one_by_one as usize).max(1)
}

/// Returns the largest number of streams whose step takes at most `limit`, between the measured numbers by
/// a straight line.
fn largest(measured: &[(usize, Duration)], limit: Duration) -> usize {
    let mut best = 0;
    for pair in measured.windows(2) {
        let [(n0, t0), (n1, t1)] = [pair[0], pair[1]].map(|(n, time)| (n as f64, time.as_secs_f64()));
        let limit = limit.as_secs_f64();
        if t0 <= limit && t1 > limit {
            return (n0 + (n1 - n0) * (limit - t0) / (t1 - t0)).floor() as usize;
        }
    }
    for &(n, time) in measured {
        if time <= limit {
            best = n;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_limit_lies_between_measured_steps() {
        let measured = [(1, ms(4)), (2, ms(6)), (4, ms(10)), (8, ms(18))];
        assert_eq!(largest(&measured, ms(14)), 6);
        assert_eq!(largest(&measured, ms(100)), 8);
        assert_eq!(largest(&measured, ms(3)), 0);
        assert_eq!(largest(&measured[..1], ms(4)), 1);
    }

    #[test]
    fn short_steps_carry_fewer_streams_than_one_long_one() {
        let measured = [(1, ms(4)), (2, ms(6)), (4, ms(10)), (8, ms(18)), (16, ms(34)), (32, ms(66))];
        assert_eq!(largest(&measured, ms(60)), 29);
        assert_eq!(sustained(&measured, 4, ms(60)), 24);
        assert_eq!(sustained(&measured, 1, ms(60)), 15);
        assert_eq!(sustained(&measured, 32, ms(3)), 1);
    }

    #[test]
    fn a_frame_of_the_24_khz_model_plays_85_ms() {
        let period = period(&Config::snac_24khz());
        assert_eq!(period.as_micros(), 85_333);
    }
}
