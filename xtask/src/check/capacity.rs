//! Seven starts of the server beside one busy core, each with an empty cache: how far apart their capacities are.

use super::outcome::Outcome;
use crate::process::{cargo, run};
use crate::tree;
use anyhow::{Context, Result, bail, ensure};
use std::hint::spin_loop;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const N_STARTS: usize = 7;
/// The most that the largest capacity is above the smallest one.
const SPREAD: f64 = 0.15;

pub fn check() -> Result<Outcome> {
    run(&mut cargo(["build", "--release", "-p", "melisma-cli"]))?;
    let program = tree::target().join("release/melisma");
    let found = beside_a_busy_core(|| (0..N_STARTS).map(|_| capacity(&program)).collect::<Result<Vec<_>>>())?;
    let [least, most] = [found.iter().min(), found.iter().max()].map(|bound| *bound.unwrap_or(&0));
    let text = found.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    // Capacities are whole numbers, so a difference of one stream counts as none.
    let limit = (f64::from(least) * (1.0 + SPREAD)).max(f64::from(least) + 1.0);
    ensure!(f64::from(most) <= limit, "streams of {N_STARTS} starts: {text}; the limit is {limit:.1}");
    Ok(Outcome::Counted(format!("streams of {N_STARTS} starts: {text}")))
}

/// Keeps one core busy while `work` runs.
fn beside_a_busy_core<T>(work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                spin_loop();
            }
        });
        let result = work();
        is_done.store(true, Relaxed);
        result
    })
}

/// Starts a server with an empty cache, and returns its streams.
fn capacity(program: &Path) -> Result<u32> {
    let cache = tree::target().join("capacity");
    tree::renew(&cache)?;
    let mut command = Command::new(program);
    command.args(["serve", "--port", "0", "--device", "cpu"]).env("MELISMA_CACHE_DIR", &cache).current_dir(&cache);
    let mut server = command.stderr(Stdio::piped()).spawn().with_context(|| tree::shown(program))?;
    let lines = server.stderr.take().context("no pipe to the server's log")?;
    let mut lines = BufReader::new(lines).lines().map_while(Result::ok);
    let ready = lines.find_map(|line| Some(line.strip_prefix("ready on ")?.to_owned()));
    server.kill().and_then(|()| server.wait()).context("the server")?;
    let Some(ready) = ready else { bail!("the server ended before it was ready") };
    let streams = ready.split_once(": ").and_then(|(_, text)| text.split(' ').next()?.parse().ok());
    let streams = streams.with_context(|| format!("`{ready}` does not tell its streams"))?;
    println!("ready on {ready}");
    Ok(streams)
}
