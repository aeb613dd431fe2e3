//! The library's calls without Python around them, timed for `bench/figures.py`.

use std::hint::black_box;
use std::time::Instant;

use melisma::Error;
use melisma::mel::{Config, Transform};
use melisma::snac::populate::populate;
use pyo3::prelude::*;

use crate::error::raise;
use crate::exec_context;

/// The median seconds of `rounds` calls of `populate` on 28 frames, or of `mel` on 10 seconds.
#[pyfunction(name = "_rust_seconds")]
pub fn rust_seconds(py: Python<'_>, call: &str, rounds: usize) -> PyResult<f64> {
    let exec = exec_context::shared(py, None)?;
    let exec = exec.get()?;
    match call {
        "populate" => {
            let frames: Vec<i32> = (0..28 * 7).map(|i| i * 20 % 4096).collect();
            Ok(py.detach(|| median(rounds, || drop(black_box(populate(black_box(&frames), 4096))))))
        }
        "mel" => py
            .detach(|| {
                let transform = Transform::new_in(&exec.context, Config::preset("builder")?)?;
                let samples: Vec<f32> = (0..10 * 22_050).map(|i| (i as f32 * 0.05).sin() * 0.1).collect();
                let mut outcome = Ok(());
                let seconds = median(rounds, || {
                    if let Err(error) = transform.run(black_box(&samples)).map(black_box) {
                        outcome = Err(error);
                    }
                });
                outcome.map(|()| seconds)
            })
            .map_err(raise),
        _ => Err(raise(Error::invalid(format!("unknown call `{call}`")))),
    }
}

fn median(rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
