//! One new frame of one stream, and the first frame after loading.

use std::time::{Duration, Instant};

use melisma::snac::{Codes, Config, Engine, Model, Noise, StreamId};
use melisma::{Error, Result};

use super::{Peer, Rig, Row, codes, of_times, quantiles};

const N_FRAMES: usize = 100;
const N_LOADS: u64 = 5;

pub(super) fn rows(model: &Model, rig: &Rig) -> Result<Vec<Row>> {
    let one = codes(model.config(), 1)?;
    let mut engine = rig.engine(model, 1)?;
    let stream = engine.open(Noise::default())?;
    // After the first samples, every frame is the same amount of work.
    for _ in 0..4 {
        timed(&mut engine, stream, &one)?;
    }
    let times = (0..N_FRAMES).map(|_| timed(&mut engine, stream, &one)).collect::<Result<Vec<_>>>()?;
    let mut rows = quantiles(&format!("snac/one frame{}", rig.suffix()), &times);
    rows.push(first_chunk(rig, &one, rows[0].median)?);
    Ok(rows)
}

/// Measures the first frame that an engine decodes after its model is loaded, beside the median of
/// later ones.
fn first_chunk(rig: &Rig, one: &Codes, steady: f64) -> Result<Row> {
    let first = |seed| {
        let mut engine = rig.engine(&Model::random(Config::snac_24khz(), seed)?, 1)?;
        let stream = engine.open(Noise::default())?;
        Ok(timed(&mut engine, stream, one)?.as_secs_f64())
    };
    let first = (1..=N_LOADS).map(first).collect::<Result<Vec<f64>, Error>>()?;
    let row = of_times(first).seconds("snac/first chunk after load");
    let peers = vec![Peer { name: "steady".to_owned(), median: steady }];
    Ok(Row { unit: "ms".to_owned(), median: 1e3 * row.median, peers, ..row })
}

fn timed(engine: &mut Engine, stream: StreamId, one: &Codes) -> Result<Duration> {
    let start = Instant::now();
    std::hint::black_box(engine.step(&[(stream, one.frames())])?);
    Ok(start.elapsed())
}
