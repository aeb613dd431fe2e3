//! `GET /v1/synth.wav`, `.flac`, `.mp3` and `.opus`: a piece of generated music, as `melisma synth
//! --loudness off` renders it; `.mid`: its notes.

use std::sync::Arc;

use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response};
use melisma::synth::{BusConfig, Length, Performance, Setup, compose};
use tokio::runtime::Handle;

use super::Call;
use super::piece::{self, Piece};
use super::plain::reply;
use super::player::seconds;
use crate::admission::Permit;
use crate::app::App;
use crate::audio::{Encoder, Format, Layout};
use crate::event::Field;
use crate::http::body::{Body, BodySender, Reply, SendError};
use crate::http::failure::Failure;

/// Returns the notes of a piece as a MIDI file, as `melisma synth --midi` writes it.
pub(super) fn midi(app: &App, call: &Call) -> Result<Reply, Failure> {
    let (Piece { style, seed, .. }, length_s) = piece::read(call.request.uri().query(), app.limits.piece)?;
    call.record.note(Field::Format, "midi");
    let _permit = permit(app)?;
    Ok(reply("audio/midi", compose(&style, seed, length_s)?.to_midi()?))
}

fn permit(app: &App) -> Result<Permit, Failure> {
    app.renders.try_acquire().ok_or_else(|| Failure::busy("full", "other pieces are being rendered"))
}

pub(super) async fn get(app: &Arc<App>, call: &Call, format: Format) -> Result<Reply, Failure> {
    let (Piece { style, seed, sample_rate }, length_s) = piece::read(call.request.uri().query(), app.limits.piece)?;
    call.record.note(Field::Format, format.name());
    let permit = permit(app)?;
    let score = compose(&style, seed, length_s)?;
    let n_samples = (length_s * f64::from(sample_rate)).round().max(1.0) as u64;
    let setup = Setup::new(BusConfig::new(sample_rate)).with_length(Length::Samples(n_samples));
    let performance = Performance::new(&score, setup)?;
    let layout = Layout::new(sample_rate, 2);
    let encoder = Encoder::new(format, layout, Some(n_samples))?;
    let (pieces, body) = Body::stream(app.limits.stall_timeout);
    let record = Arc::clone(&call.record);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        // A client that leaves ends the rendering; a fault cuts the answer off.
        let reason = match render(performance, encoder, pieces) {
            Ok(n_samples) => {
                record.app.metrics.audio(seconds(n_samples, layout));
                "done"
            }
            Err(Stop::Client(SendError::Slow)) => "slow_client",
            Err(Stop::Client(SendError::Gone)) => "client_left",
            Err(Stop::Fault) => "fault",
        };
        record.ended("render", reason);
    });
    let mut reply = Response::new(body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    if format == Format::Wav {
        reply.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(44 + 4 * n_samples));
    }
    Ok(reply)
}

/// Why a render ends early.
enum Stop {
    Client(SendError),
    Fault,
}

impl From<SendError> for Stop {
    fn from(lost: SendError) -> Self {
        Self::Client(lost)
    }
}

impl From<melisma::Error> for Stop {
    fn from(_: melisma::Error) -> Self {
        Self::Fault
    }
}

/// Renders on a thread of its own. Returns the samples per channel.
fn render(mut performance: Performance, mut encoder: Encoder, pieces: BodySender) -> Result<u64, Stop> {
    let (handle, mut n_samples) = (Handle::current(), 0);
    while let Some(block) = performance.next_block(None)? {
        let samples: Vec<f32> = block.left.iter().zip(block.right).flat_map(|(left, right)| [*left, *right]).collect();
        n_samples += block.left.len() as u64;
        let bytes = encoder.push(&samples)?;
        if !bytes.is_empty() {
            handle.block_on(pieces.send(bytes))?;
        }
    }
    handle.block_on(pieces.send(encoder.finish()?))?;
    handle.block_on(pieces.finish(HeaderMap::new()))?;
    Ok(n_samples)
}
