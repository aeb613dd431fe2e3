//! The room `serve`: clients at real-time pace over loopback, measured from their side.
//!
//! The server is this program in a process of its own, `melisma serve --port 0`, so its memory,
//! threads and settings are those that a user gets, and nothing of the clients is counted as the
//! server's. The clients share a few threads, and their phases are spread evenly.
//!
//! `MELISMA_BENCH_SECONDS` sets the length of each run, `MELISMA_BENCH_CLIENTS` the number of streams
//! or listeners, and `MELISMA_BENCH_REQUESTS` the number of short requests; records use their
//! defaults.

mod block;
mod capacity;
mod client;
mod crowd;
mod decode;
mod floor;
mod host;
mod memory;
mod overload;
mod queue;
mod report;
mod script;
mod speech;
pub mod stand_in;
mod stream;
mod subject;
mod synth;

use melisma::runtime::device::Device;
use melisma::runtime::machine::{Machine, raise_file_limit};
use melisma::{Error, Result};
use tokio::runtime::Runtime;

use super::measure::{live_time, of_times, quantiles, setting};
use super::record::quantile;
use super::snac::{codes, frame_time, model_folder};
use super::{BenchContext, Peer, Room, Row};

pub(super) use report::BUFFER;

/// Parts that can be measured alone.
pub(super) const PARTS: [(&str, Room); 12] = [
    ("serve/capacity", capacity::rows),
    ("serve/capacity/builtin", capacity::builtin_rows),
    ("serve/decode", decode::rows),
    ("serve/decode/builtin", decode::builtin_rows),
    ("serve/speech", speech::rows),
    ("serve/synth", synth::rows),
    ("serve/overload", overload::rows),
    ("serve/overload/builtin", overload::builtin_rows),
    ("serve/queue", queue::rows),
    ("serve/queue/builtin", queue::builtin_rows),
    ("serve/connections", crowd::rows),
    ("serve/memory", memory::rows),
];

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let mut rows = capacity::rows(context)?;
    rows.extend(decode::rows(context)?);
    rows.extend(speech::rows(context)?);
    rows.extend(overload::rows(context)?);
    // Music and connections do not depend on the device, and a queue hardly.
    if let Device::Cpu(_) = context.device {
        rows.extend(queue::rows(context)?);
        rows.extend(synth::rows(context)?);
        rows.extend(crowd::rows(context)?);
        rows.extend(memory::rows(context)?);
    }
    Ok(rows)
}

/// Returns how many clients are measured at a time: `MELISMA_BENCH_CLIENTS`, or each of `counts`.
fn client_counts(counts: &[u32]) -> Result<Vec<u32>> {
    let count = setting("MELISMA_BENCH_CLIENTS", 1..=100_000)?;
    Ok(count.map_or_else(|| counts.to_vec(), |n_clients| vec![n_clients as u32]))
}

/// Returns the threads of the clients: a quarter of the machine's, the rest is the server's.
fn clients() -> Result<Runtime> {
    // Each client is an open file. Where the limit cannot be raised, connecting fails.
    let _ = raise_file_limit();
    let n_threads = (Machine::detect().cores / 4).max(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(n_threads).enable_all().build();
    runtime.map_err(|error| Error::io("the clients' threads", error))
}
