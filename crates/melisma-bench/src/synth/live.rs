//! Live streams: the cost of one among many, and 200 on two cores against the clock.

use std::time::{Duration, Instant};

use melisma::Result;
use melisma::synth::{Action, EngineConfig, Instrument, Stream, render_all};
use melisma_kernels::{Budget, Cpu, Isa, Queue};

use super::{Device, Row, beside, cpu_seconds, quantiles};

const N_LIVE: usize = 200;
const N_VOICES: u64 = 8;
const PERIOD: Duration = Duration::from_millis(10);

fn stream(index: usize) -> Result<Stream> {
    let (stream, remote) = Stream::dry(EngineConfig::default().with_max_voices(16).with_max_events(256))?;
    let parts =
        [Instrument::Pad, Instrument::Pad, Instrument::Pad, Instrument::Pad, Instrument::Lead, Instrument::Bass];
    for note in 0..N_VOICES {
        let instrument = parts[note as usize % parts.len()];
        let key = 40 + (index as u64 + 5 * note) as u8 % 40;
        remote.send(Action::Start { note, instrument, channel: 0, key, velocity: 0.5, pan: 0.0 })?;
    }
    Ok(stream)
}

pub(super) fn rows(time: Duration) -> Result<Vec<Row>> {
    let mut rows = vec![cost()?];
    rows.extend(deadlines(time)?);
    Ok(rows)
}

/// Measures the CPU seconds of each of ten streams, divided by those of a single one: the minimum of many turns
/// of both.
fn cost() -> Result<Row> {
    const TURNS: usize = 60;
    const N_BLOCKS: usize = 400;
    let mut least = [f64::INFINITY; 2];
    let crowd = |n: usize| (0..n).map(stream).collect::<Result<Vec<_>>>();
    let mut crowds = [crowd(1)?, crowd(10)?];
    for _ in 0..TURNS {
        for (streams, least) in crowds.iter_mut().zip(&mut least) {
            let begin = cpu_seconds();
            for _ in 0..N_BLOCKS / streams.len() {
                for stream in streams.iter_mut() {
                    stream.next_block();
                }
            }
            *least = least.min((cpu_seconds() - begin) / (N_BLOCKS as f64 * PERIOD.as_secs_f64()));
        }
    }
    let mut row = beside(Row::single("synth/10 streams, CPU per second of one", "s", least[1]), "one stream", least[0]);
    row.n = TURNS as u64;
    Ok(row)
}

/// Measures a block of every stream every 10 ms, on two cores.
fn deadlines(time: Duration) -> Result<Vec<Row>> {
    let queue: Queue = Device::Cpu(Cpu { isa: Isa::best(), threads: 2 }).queue(&Budget::unlimited())?;
    let mut streams = (0..N_LIVE).map(stream).collect::<Result<Vec<_>>>()?;
    (0..20).for_each(|_| render_all(&queue, &mut streams));
    let n_blocks = (time.as_secs_f64() / PERIOD.as_secs_f64()) as u32;
    let begin = Instant::now();
    let mut times = Vec::new();
    for block in 0..n_blocks {
        let due = begin + PERIOD * block;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        render_all(&queue, &mut streams);
        times.push(due.elapsed().as_secs_f64());
    }
    let name = format!("synth/{N_LIVE} live streams");
    let n_met = times.iter().filter(|&&time| time <= PERIOD.as_secs_f64()).count();
    let mut rows = quantiles(&name, &times, &[("p50", 0.5), ("p99", 0.99), ("max", 1.0)]);
    let met = Row::single(format!("{name}, deadlines met"), "%", 100.0 * n_met as f64 / f64::from(n_blocks));
    rows.push(Row { n: n_blocks.into(), ..met });
    Ok(rows)
}
