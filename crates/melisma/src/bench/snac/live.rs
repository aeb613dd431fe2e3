//! Live streams: each delivers a frame as often as it plays, and wants it decoded before the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Row, codes, frame_time, quantiles};
use crate::snac::{Codes, Model, Noise, Stream};
use crate::{Error, Kind, Result};

const N_STREAMS: u32 = 8;
const N_THREADS: u32 = 2;

pub(super) fn rows(model: &Arc<Model>, time: Duration) -> Result<Vec<Row>> {
    let one = &codes(model.config(), 1)?;
    let begin = Instant::now() + Duration::from_millis(20);
    let served = std::thread::scope(|scope| {
        let serve = |thread| scope.spawn(move || Server::new(model, thread).serve(one, begin, time));
        let threads: Vec<_> = (0..N_THREADS).map(serve).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Result<Vec<_>, _>>()
    });
    let served = served.map_err(|_| Error::new(Kind::Check, "snac: a thread of live streams panicked"))?;
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
    streams: Vec<(Duration, Stream)>,
    period: Duration,
}

struct Served {
    latencies: Vec<Duration>,
    /// Frames that came, served or not.
    n_due: u64,
}

impl Server {
    fn new(model: &Arc<Model>, thread: u32) -> Self {
        let period = frame_time(model.config());
        let streams = (thread..N_STREAMS).step_by(N_THREADS as usize);
        let stream = |index: u32| {
            // Evenly spread over the period.
            (period * index / N_STREAMS, Stream::new(Arc::clone(model), Noise::Seed(index.into())))
        };
        Self { streams: streams.map(stream).collect(), period }
    }

    fn serve(mut self, one: &Codes, begin: Instant, time: Duration) -> Served {
        let n_rounds = (time.as_secs_f64() / self.period.as_secs_f64()).ceil() as u32;
        let mut served = Served { latencies: Vec::new(), n_due: u64::from(n_rounds) * self.streams.len() as u64 };
        for round in 0..n_rounds {
            for (phase, stream) in &mut self.streams {
                let due = begin + self.period * round + *phase;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                stream.push(one);
                served.latencies.push(due.elapsed());
            }
            // Hopelessly late: what is left counts as missed.
            if begin.elapsed() > time + self.period {
                break;
            }
        }
        served
    }
}
