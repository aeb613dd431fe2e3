//! Routes that answer at once.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use melisma::runtime::device::cuda::GpuUsage;
use melisma::runtime::{device, machine};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Call;
use crate::app::App;
use crate::http::body::{Body, Reply};
use crate::http::failure::Failure;
use crate::http::race::{First, race};
use crate::metrics::Gauge;
use crate::websocket::{Incoming, Message, Outgoing, Writer, handshake};

/// The time between two reports of the status.
const PACE: Duration = Duration::from_secs(1);

/// Returns an answer of the given media type.
pub(super) fn reply(media_type: &'static str, bytes: impl Into<hyper::body::Bytes>) -> Reply {
    let mut reply = Response::new(Body::from(bytes));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

pub(super) fn json_reply(value: &Value) -> Reply {
    reply("application/json", value.to_string())
}

pub(super) fn health() -> Result<Reply, Failure> {
    Ok(json_reply(&json!({"status": "ok"})))
}

pub(super) fn ready(app: &App) -> Result<Reply, Failure> {
    if app.is_draining() {
        return Err(Failure::busy("draining", "the server is stopping"));
    }
    app.decoder()?;
    Ok(json_reply(&json!({"status": "ready"})))
}

pub(super) fn ledger(app: &App, id: &str) -> Result<Reply, Failure> {
    let missing = || Failure::new(StatusCode::NOT_FOUND, "unknown_request", "no ledger of that request");
    Ok(json_reply(&app.token_reports.get(id).ok_or_else(missing)?.json()))
}

pub(super) fn metrics(app: &App) -> Result<Reply, Failure> {
    let gauge = |name, help, value: usize| Gauge { name, help, value: value as f64 };
    let mut gauges = vec![
        gauge("connections", "Open connections.", app.connections.in_use()),
        gauge("streams", "Open streams.", app.streams.count()),
    ];
    if let Ok(synth_pool) = app.synth_pool() {
        gauges.extend([
            gauge("synth_streams", "Listeners of live music.", synth_pool.admission().in_use()),
            gauge("synth_capacity_streams", "Listeners that can be served.", synth_pool.admission().limit()),
        ]);
    }
    if let Ok(decoder) = app.decoder() {
        let places = decoder.batcher.admission();
        gauges.extend([
            gauge("queue_frames", "Frames that wait for their step.", decoder.batcher.queue_depth()),
            gauge("decode_streams", "Streams that the decoder serves.", places.in_use()),
            gauge("decode_capacity_streams", "Streams that the decoder can serve.", places.limit()),
            gauge("encode_queue_frames", "Frames that wait for the encoder.", decoder.encoder.queue_depth()),
            gauge("encode_clips", "Clips that are being encoded.", decoder.encoder.admission().in_use()),
        ]);
    }
    if let Some(usage) = gpu_usage(app) {
        let gpu = |name, help, value| Gauge { name, help, value };
        gauges.extend([
            gpu("gpu_memory_bytes", "Memory in use of the GPU, by all processes.", usage.memory_bytes as f64),
            gpu("gpu_memory_total_bytes", "Memory of the GPU.", usage.total_bytes as f64),
        ]);
        let busy = usage.busy_percent.map(|percent| f64::from(percent) / 100.0);
        gauges.extend(busy.map(|share| gpu("gpu_busy_ratio", "Share of time in which the GPU ran a kernel.", share)));
        gauges.extend(usage.power_watts.map(|watts| gpu("gpu_power_watts", "Power draw of the GPU.", watts)));
    }
    let resident = [
        ("resident_bytes", "Memory of the process.", machine::resident_bytes()),
        ("peak_resident_bytes", "Peak memory of the process.", machine::peak_resident_bytes()),
    ];
    gauges.extend(
        resident.into_iter().filter_map(|(name, help, bytes)| Some(Gauge { name, help, value: bytes? as f64 })),
    );
    Ok(reply("text/plain; version=0.0.4", app.metrics.text(&gauges)))
}

/// Returns one report, or one each second over a WebSocket.
pub(super) async fn status(app: &Arc<App>, mut call: Call) -> Result<Reply, Failure> {
    if call.request.method() == Method::HEAD || !handshake::is_asked(call.request.headers()) {
        return Ok(json_reply(&report(app)));
    }
    let accepted = handshake::accept(&call.request)?;
    let upgrade = hyper::upgrade::on(&mut call.request);
    let app = Arc::clone(app);
    tokio::spawn(async move {
        let _permit = call.connection.permit;
        let Ok(upgraded) = upgrade.await else { return };
        let (read, write) = tokio::io::split(TokioIo::new(upgraded));
        let mut incoming = Incoming::new(read, Writer::Client, app.limits.message_bytes);
        let outgoing = Outgoing::new(write, app.limits.stall_timeout);
        while !app.is_draining() {
            if outgoing.send(Message::Text(report(&app).to_string())).await.is_err() {
                return;
            }
            // Whatever the client says, only the end of its connection matters.
            let listening = async { while incoming.next().await.is_ok() {} };
            if let First::A(()) = race(listening, sleep(PACE)).await {
                break;
            }
        }
        outgoing.end(Some(Message::Close(Some((1001, String::new())))));
    });
    Ok(accepted)
}

fn gpu_usage(app: &App) -> Option<GpuUsage> {
    device::usage(&app.decoder().ok()?.device)
}

fn report(app: &App) -> Value {
    let decoder = app.decoder().ok();
    let batcher = decoder.map(|decoder| &decoder.batcher);
    json!({
        "type": "status",
        "streams": app.streams.json(),
        "batch_size": app.metrics.batch_size(),
        "queue_depth": batcher.map_or(0, |batcher| batcher.queue_depth()),
        "stages": app.metrics.stages_json(),
        "memory_bytes": machine::resident_bytes(),
        "device": decoder.map(|decoder| decoder.device.to_string()),
        "gpu": gpu_usage(app).map(|usage| json!({
            "memory_bytes": usage.memory_bytes,
            "total_bytes": usage.total_bytes,
            "busy_percent": usage.busy_percent,
            "power_watts": usage.power_watts,
        })),
        "capacity_streams": batcher.map_or(0, |batcher| batcher.admission().limit()),
        "refused": batcher.map_or(0, |batcher| batcher.admission().refused()) + app.connections.refused(),
    })
}
