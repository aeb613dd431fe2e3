//! `/v1/synth`: how punctual the blocks of live music are.
//!
//! A listener's clock starts with its most punctual block: every other block is late by the time
//! that it lies behind the line through that one. Underruns are those of a player that starts with
//! the first block; the server sends 100 ms ahead.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use melisma::synth::STYLES;
use melisma_server::websocket::Message;
use tokio::io::AsyncWriteExt;

use super::block::Block;
use super::client::{Answer, Socket, frame, open, until};
use super::host::Host;
use super::{BenchContext, Error, Result, Row, client_counts, clients, live_time, quantiles};

const COUNTS: [u32; 3] = [1, 10, 200];
const PERIOD: Duration = Duration::from_millis(10);
/// The time between two listeners that connect: half a block, and a part that spreads the phases.
const SPACING: Duration = Duration::from_millis(5);
/// From the last connection to the first block that counts.
const SETTLE: Duration = Duration::from_secs(1);

/// When a listener connects, and the blocks that count.
#[derive(Clone, Copy)]
struct Plan {
    connect: Instant,
    start: Instant,
    end: Instant,
}

/// What a listener heard, in seconds.
#[derive(Debug, Default)]
struct Heard {
    late: Vec<f64>,
    n_blocks: usize,
    n_in_time: usize,
}

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let time = live_time()?;
    let runtime = clients()?;
    let host = Host::start(context, "builtin:mini24")?;
    let mut rows = Vec::new();
    for n_listeners in client_counts(&COUNTS)? {
        let noun = if n_listeners == 1 { "listener" } else { "listeners" };
        let name = format!("serve/synth, {n_listeners} {noun}");
        let run = || runtime.block_on(listeners(host.address, n_listeners, time));
        let (heard, busy) = host.watched(&name, run)?;
        rows.extend(count_rows(&name, heard));
        rows.push(busy);
    }
    Ok(rows)
}

fn count_rows(name: &str, heard: Vec<Option<Heard>>) -> Vec<Row> {
    let n_listeners = heard.len();
    let share = |what: &str, n: usize, of: usize| {
        let row = Row::single(format!("{name}, {what}"), "%", 100.0 * n as f64 / of.max(1) as f64);
        Row { n: of as u64, ..row }
    };
    let served: Vec<Heard> = heard.into_iter().flatten().collect();
    let mut rows = vec![share("accepted", served.len(), n_listeners)];
    let late: Vec<f64> = served.iter().flat_map(|heard| heard.late.iter().copied()).collect();
    if !late.is_empty() {
        let shares = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];
        rows.extend(quantiles(&format!("{name}, late"), &late, &shares));
    }
    let sum = |count: fn(&Heard) -> usize| served.iter().map(count).sum();
    rows.push(share("in time for a player", sum(|heard| heard.n_in_time), sum(|heard| heard.n_blocks)));
    rows
}

async fn listeners(address: SocketAddr, n_listeners: u32, time: Duration) -> Result<Vec<Option<Heard>>> {
    let begin = Instant::now();
    let start = begin + SPACING * n_listeners + PERIOD + SETTLE;
    let listen = |index: u32| {
        let connect = begin + SPACING * index + PERIOD * index / n_listeners;
        tokio::spawn(listener(address, index, Plan { connect, start, end: start + time }))
    };
    let listening: Vec<_> = (0..n_listeners).map(listen).collect();
    let mut heard = Vec::with_capacity(listening.len());
    for listener in listening {
        heard.push(listener.await.map_err(|error| Error::io("a listener", std::io::Error::other(error)))??);
    }
    Ok(heard)
}

/// Returns `None` for a listener that was refused.
async fn listener(address: SocketAddr, index: u32, plan: Plan) -> Result<Option<Heard>> {
    until(plan.connect).await;
    let preset = STYLES[index as usize % STYLES.len()].name.clone();
    let Answer::Open(socket) = open(address, &format!("/v1/synth?preset={preset}&seed={index}")).await? else {
        return Ok(None);
    };
    let Socket { mut reader, mut writer } = socket;
    let mut blocks = Vec::new();
    loop {
        match reader.next().await? {
            (at, Message::Binary(bytes)) => {
                blocks.push(Block::read(at, &bytes)?);
                if at >= plan.end {
                    return Ok(Some(Heard::new(&blocks, plan.start)));
                }
            }
            (_, Message::Ping(bytes)) => {
                let pong = frame(&Message::Pong(bytes));
                writer.write_all(&pong).await.map_err(|error| Error::io("a listener", error))?;
            }
            _ => {}
        }
    }
}

impl Heard {
    /// Judges blocks in their order; lateness counts from `start` on.
    fn new(blocks: &[Block], start: Instant) -> Self {
        let Some(first) = blocks.first() else { return Self::default() };
        let plays = |index: usize| first.at + PERIOD * index as u32;
        let n_in_time = blocks.iter().enumerate().filter(|(index, block)| block.at <= plays(*index)).count();
        // Seconds behind the player's clock, negative because the server sends ahead.
        let behind = |(index, block): (usize, &Block)| {
            let ahead = plays(index).saturating_duration_since(block.at).as_secs_f64();
            block.at.saturating_duration_since(plays(index)).as_secs_f64() - ahead
        };
        let counted = blocks.iter().enumerate().filter(|(_, block)| block.at >= start);
        let behind: Vec<f64> = counted.map(behind).collect();
        let most_punctual = behind.iter().copied().fold(f64::INFINITY, f64::min);
        Self { late: behind.iter().map(|one| one - most_punctual).collect(), n_blocks: blocks.len(), n_in_time }
    }
}
