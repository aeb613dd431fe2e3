//! One new frame of one stream, and the first one after loading.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Peer, Row, Threads, codes, of_times, quantiles};
use crate::Result;
use crate::snac::{Codes, Config, Engine, Model, Noise, Playback};

const N_FRAMES: usize = 100;
const N_LOADS: u64 = 5;

pub(super) fn rows(engine: &Engine, model: &Arc<Model>, place: &Threads<'_>) -> Result<Vec<Row>> {
    let one = codes(model.config(), 1)?;
    let mut stream = Playback::on(engine.sibling(&place.queue(1)?, place.budget(), 1)?, Noise::default())?;
    // Past the first samples, every frame is the same amount of work.
    for _ in 0..4 {
        stream.push(&one)?;
    }
    let times = (0..N_FRAMES).map(|_| timed(&mut stream, &one)).collect::<Result<Vec<Duration>>>()?;
    let mut rows = quantiles("snac/one frame 1t", &times).to_vec();
    rows.push(first_chunk(engine, &one, place)?);
    Ok(rows)
}

/// The first frame that a model decodes, beside the first frame of a stream when the model is warm.
fn first_chunk(engine: &Engine, one: &Codes, place: &Threads<'_>) -> Result<Row> {
    let queue = place.queue(1)?;
    let first = |engine: Engine| Ok(timed(&mut Playback::on(engine, Noise::default())?, one)?.as_secs_f64());
    let warm = || first(engine.sibling(&queue, place.budget(), 1)?);
    let steady = of_times((0..20).map(|_| warm()).collect::<Result<Vec<f64>>>()?).median;
    let cold = |seed| {
        let model = Model::random(Config::snac_24khz(), seed)?;
        first(Engine::new(&model, &place.queue(1)?, place.budget(), 1)?)
    };
    let cold = (1..=N_LOADS).map(cold).collect::<Result<Vec<f64>>>()?;
    let row = of_times(cold).seconds("snac/first chunk after load");
    let peers = vec![Peer { name: "when warm".to_owned(), median: 1e3 * steady }];
    Ok(Row { unit: "ms".to_owned(), median: 1e3 * row.median, peers, ..row })
}

fn timed(stream: &mut Playback, one: &Codes) -> Result<Duration> {
    let start = Instant::now();
    stream.push(one)?;
    Ok(start.elapsed())
}
