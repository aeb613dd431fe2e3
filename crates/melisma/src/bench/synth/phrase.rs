//! The phrase of thirty seconds on one core.

use std::time::Instant;

use super::{Row, beside, long_phrase, quantiles, single};
use crate::Result;
use crate::synth::{EngineConfig, PhraseRenderer, Stream};

pub(super) fn rows() -> Result<Vec<Row>> {
    let phrase = long_phrase();
    let mut renderer = PhraseRenderer::new(EngineConfig::default(), phrase.seconds)?;
    let mut times = Vec::new();
    for _ in 0..42 {
        renderer.engine().reset();
        let start = Instant::now();
        renderer.render_phrase(&phrase)?;
        times.push(start.elapsed().as_secs_f64());
    }
    let mut rows = quantiles("synth/phrase 30 s dry", &times[2..], &[("p50", 0.5), ("p95", 0.95)]);
    let steady = rows[0].median;
    rows.push(beside(single("synth/phrase 30 s dry, first after warm-up", "ms", 1e3 * times[1]), "steady", steady));
    rows.push(first_block()?);
    Ok(rows)
}

/// From nothing to the first 10 ms of the phrase's first notes.
fn first_block() -> Result<Row> {
    let phrase = long_phrase();
    let mut times = Vec::new();
    for _ in 0..50 {
        let (mut stream, _remote) = Stream::new(EngineConfig::default())?;
        let start = Instant::now();
        let mut n_notes = 0;
        let engine = stream.engine();
        phrase.events(0, engine.config().sample_rate, |note| {
            n_notes += 1;
            note.events(n_notes).into_iter().try_for_each(|event| engine.push(event))
        })?;
        stream.next_block();
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(quantiles("synth/first block", &times, &[("p50", 0.5)]).remove(0))
}
