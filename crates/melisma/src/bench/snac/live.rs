//! Live streams: each delivers a frame as often as it plays, and wants it decoded before the next.

use std::time::{Duration, Instant};

use super::{Rig, Row, frame_time, frames, quantiles};
use crate::Result;
use crate::snac::{Engine, Model, Noise, StreamId};

const N_STREAMS: u32 = 8;

pub(super) fn rows(model: &Model, rig: &Rig, time: Duration) -> Result<Vec<Row>> {
    let period = frame_time(model.config());
    let served = Server::new(model, rig, period)?.serve(&frames(model.config(), 1), time)?;
    let n_met = served.latencies.iter().filter(|latency| **latency <= period).count();
    let name = format!("snac/{N_STREAMS} streams{}", rig.suffix());
    let [p50, p99] = quantiles(&name, &served.latencies);
    let met = Row {
        name: format!("{name}, deadlines met"),
        unit: "%".to_owned(),
        median: 100.0 * n_met as f64 / served.n_due as f64,
        spread: 0.0,
        n: served.n_due,
        ..p50.clone()
    };
    Ok(vec![p50, p99, met])
}

/// Streams whose frames come evenly spread over the period. All frames that wait are decoded in one step.
struct Server {
    engine: Engine,
    streams: Vec<Client>,
    period: Duration,
}

struct Client {
    stream: StreamId,
    /// When its next frame comes.
    due: Duration,
}

struct Served {
    latencies: Vec<Duration>,
    /// Frames that came, served or not.
    n_due: u64,
}

impl Server {
    fn new(model: &Model, rig: &Rig, period: Duration) -> Result<Self> {
        let mut engine = rig.engine(model, N_STREAMS as usize)?;
        let open =
            |index| Ok(Client { stream: engine.open(Noise::Seed(u64::from(index)))?, due: period * index / N_STREAMS });
        let streams = (0..N_STREAMS).map(open).collect::<Result<Vec<_>>>()?;
        Ok(Self { engine, streams, period })
    }

    fn serve(mut self, one: &[i32], time: Duration) -> Result<Served> {
        let n_rounds = (time.as_secs_f64() / self.period.as_secs_f64()).ceil() as u32;
        let mut served = Served { latencies: Vec::new(), n_due: u64::from(n_rounds * N_STREAMS) };
        let begin = Instant::now();
        // Beyond the end nothing is served: what is left counts as missed.
        while begin.elapsed() < self.period * (n_rounds + 1) {
            let next = self.streams.iter().map(|client| client.due).min().unwrap_or_default();
            if next >= self.period * n_rounds {
                break;
            }
            std::thread::sleep(next.saturating_sub(begin.elapsed()));
            let now = begin.elapsed();
            let waiting = self.streams.iter().filter(|client| client.due <= now);
            let step: Vec<_> = waiting.map(|client| (client.stream, one)).collect();
            self.engine.step(&step)?;
            let end = begin.elapsed();
            for client in self.streams.iter_mut().filter(|client| client.due <= now) {
                served.latencies.push(end - client.due);
                client.due += self.period;
            }
        }
        Ok(served)
    }
}
