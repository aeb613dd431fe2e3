//! A live stream with all techniques of the seed document, and without each of them, in multiples of real time.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Row, SEED, Threads, frame_time, frames, of_times};
use crate::Result;
use crate::snac::populate::{FRAME_CODES, Populated, populate, populate_into};
use crate::snac::{Codes, Config, Engine, Model, Noise, Playback};

const N_FRAMES: usize = 28;
const N_RUNS: usize = 3;
const WINDOW_FRAMES: usize = 4;

/// How codes reach the decoder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Population {
    /// All slots at once, into buffers that are kept.
    Kept,
    /// All slots at once, into new buffers.
    Fresh,
    /// The seed's loop.
    Loop,
}

pub(super) fn rows(engine: &Engine, model: &Arc<Model>, place: &Threads<'_>) -> Result<Vec<Row>> {
    let all = frames(model.config(), N_FRAMES);
    let queue = place.queue(1)?;
    let sibling = || engine.sibling(&queue, place.budget(), 1);
    let streamed = |population, chunk| {
        let all = &all;
        move || stream(Playback::on(sibling()?, Noise::default())?, model.config(), all, population, chunk)
    };
    let mut windows = sibling()?;
    let mut windowed = || -> Result<()> {
        for window in all.windows(WINDOW_FRAMES * FRAME_CODES).step_by(FRAME_CODES) {
            black_box(windows.decode(&Codes::from_frames(model.config(), window)?, &Noise::default())?);
        }
        Ok(())
    };
    let mut rows = vec![
        row(model, "all techniques", streamed(Population::Kept, 1))?,
        row(model, "population by a loop", streamed(Population::Loop, 1))?,
        row(model, "buffers not kept", streamed(Population::Fresh, 1))?,
        row(model, "chunks of 4 frames", streamed(Population::Kept, 4))?,
        row(model, "chunks of 28 frames", streamed(Population::Kept, 28))?,
    ];
    rows.push(cold(&all, place)?);
    let windows = row(model, "28-token windows instead of state", &mut windowed)?;
    // A window is decoded for each frame but three.
    let share = (N_FRAMES - 3) as f64 / N_FRAMES as f64;
    rows.push(Row { median: windows.median * share, ..windows });
    Ok(rows)
}

fn row(model: &Model, name: &str, mut work: impl FnMut() -> Result<()>) -> Result<Row> {
    let mut times = Vec::new();
    for _ in 0..N_RUNS {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(of_times(times).rate(&format!("snac/stream, {name}"), "x", sound(model.config()).as_secs_f64()))
}

/// Without warm-up: every run is the first of a model.
fn cold(all: &[i32], place: &Threads<'_>) -> Result<Row> {
    let mut times = Vec::new();
    for _ in 0..N_RUNS {
        let model = Arc::new(Model::random(Config::snac_24khz(), SEED)?);
        let start = Instant::now();
        let playback = Playback::new(&model, Noise::default(), &place.queue(1)?, place.budget())?;
        stream(playback, model.config(), all, Population::Kept, 1)?;
        times.push(start.elapsed().as_secs_f64());
    }
    let seconds = sound(&Config::snac_24khz()).as_secs_f64();
    Ok(of_times(times).rate("snac/stream, not warmed up", "x", seconds))
}

fn sound(config: &Config) -> Duration {
    frame_time(config) * N_FRAMES as u32
}

fn stream(mut stream: Playback, config: &Config, all: &[i32], population: Population, chunk: usize) -> Result<()> {
    let mut kept = Populated::default();
    for frames in all.chunks(chunk * FRAME_CODES) {
        match population {
            Population::Kept => populate_into(frames, config.codebook_size as i32, &mut kept),
            Population::Fresh => kept = populate(frames, config.codebook_size as i32),
            Population::Loop => populate_by_loop(frames, config.codebook_size as i32, &mut kept),
        }
        black_box(stream.push(&Codes::new(config, kept.levels.to_vec())?)?);
    }
    black_box(stream.finish()?);
    Ok(())
}

/// The seed's loop: one assignment for each code, then one check for each level and bound.
fn populate_by_loop(multiframe: &[i32], codebook_size: i32, out: &mut Populated) {
    let n = multiframe.len() / FRAME_CODES;
    let [codes_0, codes_1, codes_2] = &mut out.levels;
    for (level, per_frame) in [(&mut *codes_0, 1), (&mut *codes_1, 2), (&mut *codes_2, 4)] {
        *level = vec![0; n * per_frame];
    }
    for i in 0..n {
        let base = i * FRAME_CODES;
        codes_0[i] = black_box(multiframe[base]);
        codes_1[i * 2] = black_box(multiframe[base + 1]);
        codes_1[i * 2 + 1] = black_box(multiframe[base + 4]);
        codes_2[i * 4] = black_box(multiframe[base + 2]);
        codes_2[i * 4 + 1] = black_box(multiframe[base + 3]);
        codes_2[i * 4 + 2] = black_box(multiframe[base + 5]);
        codes_2[i * 4 + 3] = black_box(multiframe[base + 6]);
    }
    for (valid, level) in out.valid.iter_mut().zip(&out.levels) {
        *valid = !level.iter().any(|&code| code < 0) && !level.iter().any(|&code| code >= codebook_size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_populates_alike() {
        let mut looped = Populated::default();
        for n_frames in [0, 1, 28] {
            let frames = frames(&Config::snac_24khz(), n_frames);
            populate_by_loop(&frames, 4096, &mut looped);
            assert_eq!(looped, populate(&frames, 4096));
        }
    }
}
