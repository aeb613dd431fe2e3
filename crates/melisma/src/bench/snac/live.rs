//! Live streams: each delivers a frame as often as it plays, and wants it decoded before the next.

use std::time::{Duration, Instant};

use super::{Rig, Row, frame_time, frames, quantiles};
use crate::snac::{Engine, Model, Noise, StreamId};
use crate::{Error, Kind, Result};

const N_STREAMS: u32 = 8;
const N_THREADS: u32 = 2;

pub(super) fn rows(model: &Model, rig: &Rig, time: Duration) -> Result<Vec<Row>> {
    let one = &frames(model.config(), 1);
    let servers = (0..N_THREADS).map(|thread| Server::new(model, rig, thread)).collect::<Result<Vec<_>>>()?;
    let begin = Instant::now() + Duration::from_millis(20);
    let served = std::thread::scope(|scope| {
        let serve = |server: Server| scope.spawn(move || server.serve(one, begin, time));
        let threads: Vec<_> = servers.into_iter().map(serve).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Result<Vec<_>, _>>()
    });
    let served = served.map_err(|_| Error::new(Kind::Check, "snac: a thread of live streams panicked"))?;
    let served = served.into_iter().collect::<Result<Vec<_>>>()?;
    let latencies: Vec<Duration> = served.iter().flat_map(|served| served.latencies.iter().copied()).collect();
    let n_due: u64 = served.iter().map(|served| served.n_due).sum();
    let limit = frame_time(model.config());
    let n_met = latencies.iter().filter(|latency| **latency <= limit).count();
    let name = format!("snac/{N_STREAMS} streams {N_THREADS}t");
    let [p50, p99] = quantiles(&name, &latencies);
    let met = Row {
        name: format!("{name}, deadlines met"),
        unit: "%".to_owned(),
        median: 100.0 * n_met as f64 / n_due as f64,
        spread: 0.0,
        n: n_due,
        ..p50.clone()
    };
    Ok(vec![p50, p99, met])
}

/// One thread and the streams that it serves, in the order in which their frames come.
struct Server {
    engine: Engine,
    streams: Vec<(Duration, StreamId)>,
    period: Duration,
}

struct Served {
    latencies: Vec<Duration>,
    /// Frames that came, served or not.
    n_due: u64,
}

impl Server {
    fn new(model: &Model, rig: &Rig, thread: u32) -> Result<Self> {
        let period = frame_time(model.config());
        let mut engine = rig.engine(model, (N_STREAMS / N_THREADS) as usize)?;
        let mut streams = Vec::new();
        for index in (thread..N_STREAMS).step_by(N_THREADS as usize) {
            // Evenly spread over the period.
            streams.push((period * index / N_STREAMS, engine.open(Noise::Seed(index.into()))?));
        }
        Ok(Self { engine, streams, period })
    }

    fn serve(mut self, one: &[i32], begin: Instant, time: Duration) -> Result<Served> {
        let n_rounds = (time.as_secs_f64() / self.period.as_secs_f64()).ceil() as u32;
        let mut served = Served { latencies: Vec::new(), n_due: u64::from(n_rounds) * self.streams.len() as u64 };
        for round in 0..n_rounds {
            for (phase, stream) in &mut self.streams {
                let due = begin + self.period * round + *phase;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                self.engine.step(&[(*stream, one)])?;
                served.latencies.push(due.elapsed());
            }
            // Hopelessly late: what is left counts as missed.
            if begin.elapsed() > time + self.period {
                break;
            }
        }
        Ok(served)
    }
}
