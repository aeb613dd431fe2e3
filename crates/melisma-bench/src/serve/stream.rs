//! A client of `/v1/decode`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::ErrorKind;
use melisma_server::websocket::Message;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;

use super::block::{Block, HEAD_BYTES};
use super::client::{Answer, MessageReader, Socket, open, until};
use super::script::Script;
use super::{Error, Result};

/// A refused client that persists comes back after `Retry-After`.
const RETRY: Duration = Duration::from_secs(1);

/// When a client connects and when it says its first token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) connect: Instant,
    pub(super) speak: Instant,
    pub(super) refused: Refused,
}

/// What a refused client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Leaves,
    ComesBack,
}

/// What became of a client.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// When the last token of each frame was sent, and then the end; empty for a refused client.
    pub(super) sent: Vec<Instant>,
    pub(super) first_token: Option<Instant>,
    pub(super) blocks: Vec<Block>,
    /// The time that each refusal took.
    pub(super) refusals: Vec<Duration>,
}

/// Plays one client from its connection to the ledger.
pub(super) async fn play(address: SocketAddr, script: Arc<Script>, plan: Plan) -> Result<Outcome> {
    until(plan.connect).await;
    let end = plan.speak + script.period * script.n_frames as u32;
    let mut outcome = Outcome::default();
    let socket = loop {
        match open(address, "/v1/decode").await? {
            Answer::Open(socket) => break socket,
            Answer::Refused(time) => outcome.refusals.push(time),
        }
        let next = Instant::now() + RETRY;
        if plan.refused == Refused::Leaves || next > end {
            return Ok(outcome);
        }
        until(next).await;
    };
    if Instant::now() > plan.speak + script.period {
        // A place that became free late is not part of the load.
        return Ok(outcome);
    }
    let Socket { mut reader, writer } = socket;
    let speaking = tokio::spawn(speak(writer, Arc::clone(&script), plan.speak));
    let heard = listen(&mut reader, &script).await;
    if heard.is_err() {
        speaking.abort();
    }
    outcome.blocks = heard?;
    let lost = |error| Error::io("a stream", error);
    let spoken = speaking.await.map_err(|error| lost(io::Error::other(error)))?;
    let (_mouth, sent, first_token) = spoken.map_err(lost)?;
    (outcome.sent, outcome.first_token) = (sent, Some(first_token));
    Ok(outcome)
}

type Spoken = (OwnedWriteHalf, Vec<Instant>, Instant);

/// Says all tokens at the pace at which they are played. The half is returned, because dropping it
/// would end the connection.
async fn speak(mut writer: OwnedWriteHalf, script: Arc<Script>, start: Instant) -> io::Result<Spoken> {
    let mut sent = Vec::with_capacity(script.n_frames + 1);
    writer.write_all(&script.start).await?;
    until(start).await;
    let first = Instant::now();
    for index in 0..script.n_frames {
        let messages = script.messages(index);
        let began = start + script.period * index as u32;
        let mut last = first;
        for (message, n) in messages.iter().zip(0..) {
            until(began + script.period * n / messages.len() as u32).await;
            last = Instant::now();
            writer.write_all(message).await?;
        }
        sent.push(last);
    }
    sent.push(Instant::now());
    writer.write_all(&script.end).await?;
    Ok((writer, sent, first))
}

/// Takes blocks until the ledger comes.
async fn listen(reader: &mut MessageReader, script: &Script) -> Result<Vec<Block>> {
    let mut blocks = Vec::with_capacity(script.n_frames);
    let mut position = 0;
    loop {
        match reader.next().await? {
            (at, Message::Binary(bytes)) => {
                let block = Block::read(at, &bytes)?;
                if block.position != position {
                    let message = format!("a block at sample {} instead of {position}", block.position);
                    return Err(Error::new(ErrorKind::Check, message));
                }
                script.check(&block, &bytes[HEAD_BYTES..])?;
                position += u64::from(block.n_samples);
                blocks.push(block);
            }
            (_, Message::Text(text)) => {
                let message: Value = serde_json::from_str(&text).unwrap_or_default();
                match message["type"].as_str() {
                    Some("ledger") => return Ok(blocks),
                    Some("error") => return Err(Error::new(ErrorKind::Check, format!("the server says {message}"))),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}
