//! `mutate SECONDS [NAME...]`: runs the targets on mutated inputs, each for that many seconds. An input that panics or takes
//! longer than [`PATIENCE`] is saved in `artifacts/NAME/` and ends the run; so does one that allocates without bounds.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use melisma::random::SplitMix64;
use melisma::runtime::machine::limit_memory;
use melisma_fuzz::mutation::mutate;
use melisma_fuzz::{TARGETS, Target};

/// The longest that a parser may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Address space of the process; a larger allocation ends it, and the message of the target before says where.
const MEMORY: u64 = 4 << 30;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(Ok(seconds)) = arguments.next().map(|text| text.parse()) else {
        eprintln!("usage: mutate SECONDS [NAME...]");
        return ExitCode::from(2);
    };
    let names: Vec<String> = arguments.collect();
    if let Err(error) = limit_memory(MEMORY) {
        eprintln!("note: {error}");
    }
    let is_named = |target: &&Target| names.is_empty() || names.iter().any(|name| name == target.name);
    let failed = TARGETS.iter().filter(is_named).filter(|target| !fuzz(target, Duration::from_secs(seconds))).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one target; false when an input failed.
fn fuzz(target: &Target, time: Duration) -> bool {
    println!("{}:", target.name);
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| (target.run)(seed));
    let (mut random, begin, mut n_inputs) = (SplitMix64::new(0x6d65_6c69_736d_6121), Instant::now(), 0u64);
    while begin.elapsed() < time {
        let input = mutate(&seeds, &mut random);
        let start = Instant::now();
        let returned = catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_ok();
        if !returned || start.elapsed() > PATIENCE {
            let reason = if returned { "took too long" } else { "panicked" };
            println!("  input {n_inputs} {reason}; saved as {}", save(target.name, &input));
            return false;
        }
        n_inputs += 1;
    }
    println!("  {n_inputs} inputs, {} seeds", seeds.len());
    true
}

fn save(name: &str, input: &[u8]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
    let path = folder.join("crash");
    let saved = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    saved.map_or_else(|error| format!("{error}"), |()| path.display().to_string())
}
