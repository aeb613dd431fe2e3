//! Rounds of measured steps.
//!
//! Another process that takes a core for some milliseconds makes single steps, or a whole round, up to twice as long.
//! So the steps of a round are few, all rounds count together, and rounds follow until their results agree: the mean of
//! the faster steps of each number of streams settles, where a median of few steps jumps between the busy and the idle
//! time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use melisma::Result;
use melisma::snac::{Codes, Config, Engine, Noise, StreamId};

use super::{Capacity, Curve, Measurement, SHARE, period, step_frames, sustained};
use crate::stopper::Stopper;

/// Steps of each number of streams in a round.
const N_STEPS: usize = 5;
/// One in so many steps, the slowest, does not count.
const TRIMMED: usize = 5;
/// Before each step, as between the frames of live streams: threads sleep, and a step that follows another at once is
/// much faster.
const PAUSE: Duration = Duration::from_millis(8);
/// Rounds at least.
const MIN_ROUNDS: usize = 3;
/// Rounds end when the standard error is smaller.
const ERROR: f64 = 0.05;
/// The spread of rounds, as a share, that [`N_ASSUMED`] rounds are assumed to have had: a few that happen to agree are no
/// proof.
const ASSUMED: f64 = 0.1;
const N_ASSUMED: f64 = 2.0;
/// No round begins after this time. Builds for tests start many servers, and nothing depends on their capacities.
const BUDGET: Duration = Duration::from_secs(if cfg!(debug_assertions) { 2 } else { 8 });

/// The step times of one round, by number of streams.
pub(crate) type Round = BTreeMap<usize, Vec<Duration>>;

/// Measured rounds of one engine.
#[derive(Debug)]
pub(in super::super) struct Rounds {
    frame: Codes,
    period: Duration,
    max_streams: usize,
    max_frames: usize,
    done: Vec<Round>,
}

impl Rounds {
    /// Prepares rounds of up to `max_streams` streams.
    pub(in super::super) fn new(engine: &Engine, config: &Config, max_streams: usize) -> Result<Self> {
        let frame = Codes::from_frames(config, &vec![0; config.n_slots()])?;
        let max_frames = engine.max_frames();
        Ok(Self { frame, period: period(config), max_streams, max_frames, done: Vec::new() })
    }

    /// Measures until the rounds agree, or for [`BUDGET`].
    ///
    /// # Errors
    /// The device fails, or the server is asked to stop.
    pub(in super::super) fn measure(&mut self, engine: &mut Engine, stopper: &Stopper) -> Result<Measurement> {
        self.measure_while(engine, &|| !stopper.is_draining())?;
        stopper.check()?;
        Ok(self.measurement())
    }

    /// Measures anew. Returns `None` if `is_idle` becomes false before it is done.
    ///
    /// # Errors
    /// The device fails.
    pub(in super::super) fn measure_while(
        &mut self,
        engine: &mut Engine,
        is_idle: &dyn Fn() -> bool,
    ) -> Result<Option<Measurement>> {
        let start = Instant::now();
        self.done.clear();
        loop {
            let mut open: Vec<StreamId> = Vec::new();
            let round = self.round(engine, &mut open, is_idle);
            open.into_iter().try_for_each(|stream| engine.close(stream))?;
            let Some(round) = round? else { return Ok(None) };
            self.done.push(round);
            let found = self.measurement();
            if found.is_final(start) {
                return Ok(Some(found));
            }
        }
    }

    fn round(
        &self,
        engine: &mut Engine,
        open: &mut Vec<StreamId>,
        is_idle: &dyn Fn() -> bool,
    ) -> Result<Option<Round>> {
        let mut round = Round::new();
        let mut n_streams = 1;
        loop {
            while open.len() < n_streams {
                open.push(engine.open(Noise::default())?);
            }
            let input: Vec<_> = open.iter().map(|stream| (*stream, self.frame.frames())).collect();
            let mut times = Vec::with_capacity(N_STEPS);
            for _ in 0..N_STEPS {
                std::thread::sleep(PAUSE);
                if !is_idle() {
                    return Ok(None);
                }
                let start = Instant::now();
                engine.step(&input)?;
                times.push(start.elapsed());
            }
            let is_over = n_streams == self.max_streams || typical(&times) > self.period;
            round.insert(n_streams, times);
            if is_over {
                return Ok(Some(round));
            }
            n_streams = (2 * n_streams).min(self.max_streams);
        }
    }

    /// Returns the result of all rounds so far.
    fn measurement(&self) -> Measurement {
        Measurement::of(&self.done, |curve| {
            let step_frames = step_frames(curve, self.max_frames);
            (sustained(curve, step_frames, self.period.mul_f64(SHARE)), step_frames)
        })
    }
}

impl Measurement {
    /// Returns the result of rounds together. `capacity` returns what a curve allows: streams, not rounded, and the
    /// frames of a step.
    pub(crate) fn of(rounds: &[Round], capacity: impl Fn(&Curve) -> (f64, usize)) -> Self {
        let of_round = |round: &Round| {
            let curve: Vec<_> = round.iter().map(|(n_streams, times)| (*n_streams, typical(times))).collect();
            capacity(&curve[..])
        };
        let mut all = Round::new();
        for (n_streams, times) in rounds.iter().flatten() {
            all.entry(*n_streams).or_default().extend(times);
        }
        let (streams, step_frames) = of_round(&all);
        let each: Vec<f64> = rounds.iter().map(|round| of_round(round).0).collect();
        // At least one: a machine that is busy now may be idle when the stream comes.
        let capacity = Capacity { streams: (streams as usize).max(1), step_frames };
        Self { capacity, n_rounds: each.len(), error: standard_error(&each) }
    }

    /// Returns whether the rounds since `start` are enough: they agree, or have taken [`BUDGET`].
    pub(crate) fn is_final(&self, start: Instant) -> bool {
        self.is_steady() || start.elapsed() > BUDGET
    }

    /// Returns whether the rounds agree.
    pub(in super::super) fn is_steady(&self) -> bool {
        self.n_rounds >= MIN_ROUNDS && self.error <= ERROR
    }
}

/// Returns the mean without the slowest steps.
fn typical(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.truncate((times.len() - times.len() / TRIMMED).max(1));
    times.iter().sum::<Duration>() / times.len() as u32
}

/// Returns the standard error of the mean, as a share of it; 1 for a single value.
fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 || mean <= 0.0 {
        return 1.0;
    }
    let squares = values.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>();
    let variance = (squares + N_ASSUMED * ASSUMED.powi(2)) / (n - 1.0 + N_ASSUMED);
    (variance / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn rounds(steps: &[u64]) -> Rounds {
        // A step of n streams takes n times as long.
        let round = |per_stream: &u64| {
            [1, 2, 4, 8, 16, 32, 64].map(|n| (n, vec![ms(n as u64 * per_stream); N_STEPS])).into_iter().collect()
        };
        Rounds {
            frame: Codes::empty(&Config::snac_24khz()),
            period: ms(100),
            max_streams: 64,
            max_frames: 64,
            done: steps.iter().map(round).collect(),
        }
    }

    #[test]
    fn rounds_that_agree_are_steady() {
        let found = rounds(&[2, 2, 2]).measurement();
        assert_eq!((found.capacity, found.n_rounds), (Capacity { streams: 31, step_frames: 5 }, 3));
        assert!(found.error < ERROR && found.is_steady());
        assert!(!rounds(&[2, 2]).measurement().is_steady(), "too few");
    }

    #[test]
    fn rounds_that_differ_are_not() {
        let found = rounds(&[2, 4, 2, 4]).measurement();
        assert!(found.error > 0.1 && !found.is_steady(), "{found:?}");
        assert!((15..31).contains(&found.capacity.streams), "{found:?}");
    }

    #[test]
    fn a_stall_does_not_count() {
        assert_eq!(typical(&[ms(2), ms(900), ms(2), ms(4), ms(4)]), ms(3));
        assert_eq!(typical(&[ms(7)]), ms(7));
    }

    #[test]
    fn the_error_shrinks_with_the_number_of_rounds() {
        let error = |n: usize| standard_error(&[9.0, 11.0].repeat(n));
        assert!((error(2) / error(18) - 3.24).abs() < 0.05, "{} and {}", error(2), error(18));
        assert_eq!((standard_error(&[5.0]), standard_error(&[0.0, 0.0])), (1.0, 1.0));
    }
}
