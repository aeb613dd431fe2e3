//! The library's calls without Python around them, timed for `figures.py`. Each line of stdin is a call
//! and a number of rounds, such as `mel 20`; the answer is the median in seconds.
//!
//! `populate` takes 28 frames, `mel` 10 seconds of samples.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use melisma::config::{Config, Environment, Sources};
use melisma::mel::{self, Transform};
use melisma::snac::populate::populate;
use melisma::{Context, Error, Result};

fn main() -> Result<()> {
    let config = Config::load(&Sources::default().with_environment(Environment::process()))?;
    let transform = Transform::new_in(&Context::of(&config)?, mel::Config::preset("builder")?)?;
    let frames: Vec<i32> = (0..28 * 7).map(|i| i * 20 % 4096).collect();
    let samples: Vec<f32> = (0..10 * 22_050).map(|i| (i as f32 * 0.05).sin() * 0.1).collect();
    for line in io::stdin().lines() {
        let line = line.map_err(|error| Error::io("stdin", error))?;
        let wrong = || Error::invalid(format!("`{line}` is not a call and a number of rounds"));
        let (call, rounds) = line.split_once(' ').ok_or_else(wrong)?;
        let rounds: usize = rounds.parse().map_err(|_| wrong())?;
        let seconds = match call {
            "populate" => median(rounds, || {
                black_box(populate(black_box(&frames), 4096));
                Ok(())
            })?,
            "mel" => median(rounds, || transform.run(black_box(&samples)).map(|found| drop(black_box(found))))?,
            _ => return Err(wrong()),
        };
        let mut out = io::stdout();
        writeln!(out, "{seconds:e}").and_then(|()| out.flush()).map_err(|error| Error::io("stdout", error))?;
    }
    Ok(())
}

fn median(rounds: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..rounds.max(1) {
        let begin = Instant::now();
        work()?;
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
