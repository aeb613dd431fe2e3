//! One new frame of one stream, and the first one after loading.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Peer, Row, codes, of_times, quantiles};
use crate::snac::{Codes, Config, Model, Noise, Stream};
use crate::{Error, Result};

const N_FRAMES: usize = 100;
const N_LOADS: u64 = 5;

pub(super) fn rows(model: &Arc<Model>) -> Result<Vec<Row>> {
    let one = codes(model.config(), 1)?;
    let mut stream = Stream::new(Arc::clone(model), Noise::default());
    // Past the first samples, every frame is the same amount of work.
    for _ in 0..4 {
        stream.push(&one);
    }
    let times: Vec<Duration> = (0..N_FRAMES).map(|_| timed(&mut stream, &one)).collect();
    let mut rows = quantiles("snac/one frame 1t", &times).to_vec();
    rows.push(first_chunk(model, &one)?);
    Ok(rows)
}

/// The first frame that a model decodes, beside the first frame of a stream when the model is warm.
fn first_chunk(model: &Arc<Model>, one: &Codes) -> Result<Row> {
    let first = |model: &Arc<Model>| timed(&mut Stream::new(Arc::clone(model), Noise::default()), one).as_secs_f64();
    let steady = of_times((0..20).map(|_| first(model)).collect()).median;
    let cold = |seed| Model::random(Config::snac_24khz(), seed).map(|model| first(&Arc::new(model)));
    let cold = (1..=N_LOADS).map(cold).collect::<Result<Vec<f64>, Error>>()?;
    let row = of_times(cold).seconds("snac/first chunk after load");
    let peers = vec![Peer { name: "when warm".to_owned(), median: 1e3 * steady }];
    Ok(Row { unit: "ms".to_owned(), median: 1e3 * row.median, peers, ..row })
}

fn timed(stream: &mut Stream, one: &Codes) -> Duration {
    let start = Instant::now();
    stream.push(one);
    start.elapsed()
}
