//! A live stream with every technique on, and with each one off in turn, in multiples of real time.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::Result;
use melisma::snac::populate::{FRAME_CODES, Populated, populate, populate_into};
use melisma::snac::reference::seam;
use melisma::snac::{Codes, Config, Model, Noise, Player};

use super::{Rig, Row, SEED, frame_time, frames, of_times};

const N_FRAMES: usize = 28;
const N_RUNS: usize = 3;

/// How codes reach the decoder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Population {
    /// All slots at once, into reused buffers.
    Reused,
    /// All slots at once, into new buffers.
    Fresh,
    /// Code by code, in a plain loop.
    Loop,
}

pub(super) fn rows(model: &Arc<Model>, rig: &Rig) -> Result<Vec<Row>> {
    let all = frames(model.config(), N_FRAMES);
    let streamed = |name: &str, population, chunk| {
        let prepare = || rig.player(model);
        row(model, name, prepare, |player| stream(player, model, &all, Way { population, chunk }))
    };
    let mut rows = vec![
        streamed("all techniques", Population::Reused, 1)?,
        streamed("population by a loop", Population::Loop, 1)?,
        streamed("buffers not kept", Population::Fresh, 1)?,
        streamed("chunks of 4 frames", Population::Reused, 4)?,
        streamed("chunks of 28 frames", Population::Reused, 28)?,
    ];
    let way = Way { population: Population::Reused, chunk: 1 };
    // Includes the first touch of the model's memory and the preparation of its kernels.
    rows.push(row(
        model,
        "not warmed up",
        || Model::random(Config::snac_24khz(), SEED).map(Arc::new),
        |model| stream(rig.player(&model)?, &model, &all, way),
    )?);
    let windowed = |()| -> Result<()> {
        let codes = Codes::from_frames(model.config(), &all)?;
        seam::windowed(model, &codes, &Noise::default()).map(|samples| drop(black_box(samples)))
    };
    let windows = row(model, "28-token windows instead of state, reference model", || Ok(()), windowed)?;
    // Every frame except three decodes a window.
    let share = (N_FRAMES - 3) as f64 / N_FRAMES as f64;
    rows.push(Row { median: windows.median * share, ..windows });
    Ok(rows)
}

/// Times `work`; `prepare` makes new input for every run.
fn row<T>(model: &Model, name: &str, prepare: impl Fn() -> Result<T>, work: impl Fn(T) -> Result<()>) -> Result<Row> {
    let mut times = Vec::new();
    for _ in 0..N_RUNS {
        let prepared = prepare()?;
        let start = Instant::now();
        work(prepared)?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(of_times(times).rate(&format!("snac/stream, {name}"), "x", sound(model.config()).as_secs_f64()))
}

fn sound(config: &Config) -> Duration {
    frame_time(config) * N_FRAMES as u32
}

#[derive(Clone, Copy)]
struct Way {
    population: Population,
    /// Frames per step.
    chunk: usize,
}

fn stream(mut player: Player, model: &Model, all: &[i32], way: Way) -> Result<()> {
    let config = model.config();
    let Way { population, chunk } = way;
    let mut kept = Populated::default();
    for frames in all.chunks(chunk * FRAME_CODES) {
        match population {
            Population::Reused => populate_into(frames, config.codebook_size as i32, &mut kept),
            Population::Fresh => kept = populate(frames, config.codebook_size as i32),
            Population::Loop => populate_by_loop(frames, config.codebook_size as i32, &mut kept),
        }
        black_box(player.push(&Codes::new(config, kept.levels.to_vec())?)?);
    }
    black_box(player.finish()?);
    Ok(())
}

/// Runs the plain loop: one assignment per code, then one check per level and bound.
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
