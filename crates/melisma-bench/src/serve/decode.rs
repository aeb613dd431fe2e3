//! `/v1/decode`: from the last token that a block needs to the block's arrival.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::floor::floor;
use super::host::Host;
use super::report::Report;
use super::script::{Script, Split};
use super::stream::{Outcome, Plan, Refused, play};
use super::subject::Subject;
use super::{BenchContext, Device, Error, Result, Row, client_counts, clients, live_time};

/// The time between two clients that connect.
const SPACING: Duration = Duration::from_millis(2);
/// From the last connection to the first token.
const SETTLE: Duration = Duration::from_millis(200);

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let full_size = || Subject::full_size(context.device);
    match context.device {
        Device::Cpu(_) => {
            let mut rows = builtin_rows(context)?;
            rows.extend(model_rows(context, &full_size()?, Split::Token, &[1, 4])?);
            Ok(rows)
        }
        Device::Cuda(_) => {
            let subject = full_size()?;
            let mut rows = model_rows(context, &subject, Split::Token, &[500, 1000, 2000])?;
            rows.extend(model_rows(context, &subject, Split::Frame, &[2000])?);
            Ok(rows)
        }
    }
}

/// Measures the built-in model alone.
pub(super) fn builtin_rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    model_rows(context, &Subject::builtin()?, Split::Token, &[1, 4, 32])
}

fn model_rows(context: BenchContext<'_>, subject: &Subject, split: Split, counts: &[u32]) -> Result<Vec<Row>> {
    let runtime = clients()?;
    let script = Arc::new(Script::new(subject, context, split, live_time()?)?);
    let floor = floor(&runtime, context, subject, &script)?;
    let host = Host::start(context, &subject.source)?;
    let suffix = match split {
        Split::Token => "",
        Split::Frame => " of whole frames",
    };
    let mut rows = Vec::new();
    for n_clients in client_counts(counts)? {
        let streams = if n_clients == 1 { "stream" } else { "streams" };
        let name = format!("serve/decode/{}, {n_clients} {streams}{suffix}", subject.label);
        let run = || load(&runtime, &host, &script, Load { n_clients, refused: Refused::Leaves });
        let (outcomes, busy) = host.watched(&name, run)?;
        rows.extend(Report::new(&script, &outcomes).rows(&name, floor));
        rows.push(busy);
    }
    Ok(rows)
}

/// Clients at a time.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) n_clients: u32,
    pub(super) refused: Refused,
}

/// Connects clients one after the other, which then speak with phases spread evenly over a frame.
pub(super) fn load(runtime: &Runtime, host: &Host, script: &Arc<Script>, load: Load) -> Result<Vec<Outcome>> {
    let begin = Instant::now();
    let ready = begin + SPACING * load.n_clients + SETTLE;
    let plan = |index: u32| Plan {
        connect: begin + SPACING * index,
        speak: ready + script.period * index / load.n_clients,
        refused: load.refused,
    };
    runtime.block_on(async {
        let start = |index| tokio::spawn(play(host.address, Arc::clone(script), plan(index)));
        let playing: Vec<_> = (0..load.n_clients).map(start).collect();
        let mut outcomes = Vec::with_capacity(playing.len());
        for client in playing {
            let played = client.await.map_err(|error| Error::io("a client", std::io::Error::other(error)))?;
            outcomes.push(played?);
        }
        Ok(outcomes)
    })
}
