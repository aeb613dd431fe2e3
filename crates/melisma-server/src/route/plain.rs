//! Routes that answer at once.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use melisma::runtime::device::cuda::GpuUsage;
use melisma::runtime::{device, machine, memory};
use melisma::snac::Config;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Call;
use crate::app::{App, Decoder};
use crate::http::body::{Body, Reply};
use crate::http::failure::Failure;
use crate::http::race::{First, race};
use crate::keyring::KeyFigures;
use crate::metrics::{self, Gauge};
use crate::queue::SlotQueue;
use crate::speakers::Speakers;
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

pub(super) fn health(app: &App) -> Result<Reply, Failure> {
    let mut answer = app.build.json();
    answer.insert("status".to_owned(), "ok".into());
    Ok(json_reply(&answer.into()))
}

pub(super) fn ready(app: &App) -> Result<Reply, Failure> {
    if app.is_draining() {
        return Err(Failure::busy("draining", "the server is stopping"));
    }
    let decoder = app.decoder()?;
    if decoder.batcher.is_lost() || decoder.speakers.iter().any(Speakers::is_lost) {
        return Err(Failure::busy("device", "the device failed: restart the server"));
    }
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
        let slots = decoder.batcher.slots();
        gauges.extend([
            Gauge {
                name: "load",
                help: "Largest share in use of the streams and of each voice model's speakers; 1 while requests wait.",
                value: decoder.load(),
            },
            gauge("queue_frames", "Frames that wait for their step.", decoder.queue_depth()),
            gauge("decode_streams", "Streams that the decoder serves.", slots.in_use()),
            gauge("decode_capacity_streams", "Streams that the decoder can serve.", slots.limit()),
            gauge("queue_waiting", "Requests that wait for a free stream or speaker.", waiting(decoder)),
            gauge("encode_queue_frames", "Frames that wait for the encoder.", decoder.encoder.queue_depth()),
            gauge("encode_clips", "Clips that are being encoded.", decoder.encoder.slots().in_use()),
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
        ("program_bytes", "Memory of the program itself, which a limit does not count.", memory::program_bytes()),
    ];
    gauges.extend(
        resident.into_iter().filter_map(|(name, help, bytes)| Some(Gauge { name, help, value: bytes? as f64 })),
    );
    let mut text = app.metrics.text(&gauges);
    metrics::rows(&mut text, ["build_info", "gauge", "What the program was built from."], [(app.build.labels(), 1)]);
    speaker_metrics(app, &mut text);
    let is_up = app.upstream.as_ref().and_then(|upstream| upstream.is_up());
    let is_up = is_up.map(|is_up| (String::new(), u64::from(is_up)));
    metrics::rows(&mut text, ["upstream_up", "gauge", "Whether the upstream answers."], is_up);
    let keys = app.guard.keys.figures();
    let each =
        |value: fn(&KeyFigures) -> u64| keys.iter().map(move |key| (format!("key=\"{}\"", key.name), value(key)));
    metrics::rows(&mut text, ["key_streams", "gauge", "Open streams, by key."], each(|key| key.streams as u64));
    metrics::rows(&mut text, ["key_requests_total", "counter", "Requests, by key."], each(|key| key.requests));
    let help = "Streams that a key's limit refused, by key.";
    metrics::rows(&mut text, ["key_refused_total", "counter", help], each(|key| key.refused));
    Ok(reply("text/plain; version=0.0.4", text))
}

/// Writes what the voice models do.
fn speaker_metrics(app: &App, text: &mut String) {
    let models = app.decoder.get().map_or(&[][..], |decoder| &decoder.speakers);
    if models.is_empty() {
        return;
    }
    let each = |value: fn(&Speakers) -> u64| {
        models.iter().map(move |model| (format!("model=\"{}\"", model.name()), value(model)))
    };
    let mut gauge = |name, help, value| metrics::rows(text, [name, "gauge", help], each(value));
    gauge("speakers", "Texts that a voice model speaks.", |model| model.slots().in_use() as u64);
    gauge("speakers_capacity", "Texts that a voice model can speak.", |model| model.slots().limit() as u64);
    gauge("speakers_waiting", "Requests that wait for a voice model.", |model| model.slots().waiting() as u64);
    gauge("speak_cache_bytes", "Memory of a voice model's cache.", |model| model.capacity().cache_bytes);
    let help = "Memory of a voice model's cache that texts hold.";
    gauge("speak_cache_in_use_bytes", help, |model| model.metrics().held_bytes());
    let metrics: Vec<_> = models.iter().map(|model| (model.name(), model.metrics())).collect();
    metrics::speaker::write(&metrics, text);
}

/// Returns `[{"model", "in_use", "waiting", "expected_seconds", "refused", "capacity", ...}]` of the voice models.
fn speakers(app: &App) -> Value {
    let one = |model: &Speakers| {
        let mut report = model.metrics().json();
        report["model"] = model.name().into();
        report["in_use"] = model.slots().in_use().into();
        report["waiting"] = model.slots().waiting().into();
        report["expected_seconds"] = model.slots().forecast().as_secs_f64().into();
        report["refused"] = model.slots().refused().into();
        report["capacity"] = model.capacity().json();
        report
    };
    app.decoder.get().map_or(&[][..], |decoder| &decoder.speakers).iter().map(one).collect()
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
        let _record = call.record;
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

/// Returns how many requests wait for a free stream or speaker.
fn waiting(decoder: &Decoder) -> usize {
    decoder.queues().map(SlotQueue::waiting).sum()
}

/// Returns the requests that wait for a free stream or speaker, and those that did.
fn queue(app: &App, decoder: Option<&Decoder>) -> Value {
    let mut queue = app.metrics.queue.json();
    let longest = decoder.and_then(|decoder| decoder.queues().map(SlotQueue::forecast).max());
    queue["waiting"] = decoder.map_or(0, waiting).into();
    queue["expected_seconds"] = longest.map(|wait| wait.as_secs_f64()).into();
    queue["limit_seconds"] = app.limits.queue.as_secs_f64().into();
    queue
}

fn report(app: &App) -> Value {
    let decoder = app.decoder().ok();
    let batcher = decoder.map(|decoder| &decoder.batcher);
    let refused = decoder.map_or(0, |decoder| decoder.queues().map(SlotQueue::refused).sum::<usize>());
    json!({
        "type": "status",
        "build": app.build.json(),
        "streams": app.streams.json(),
        "batch_size": app.metrics.batch_size(),
        "queue_depth": decoder.map_or(0, Decoder::queue_depth),
        "stages": app.metrics.stages_json(),
        "memory_bytes": machine::resident_bytes(),
        "device": decoder.map(|decoder| decoder.device.to_string()),
        "gpu": gpu_usage(app).map(|usage| json!({
            "memory_bytes": usage.memory_bytes,
            "total_bytes": usage.total_bytes,
            "busy_percent": usage.busy_percent,
            "power_watts": usage.power_watts,
        })),
        "capacity_streams": batcher.map_or(0, |batcher| batcher.slots().limit()),
        "capacity": batcher.map(|batcher| batcher.capacity().json()),
        "queue": queue(app, decoder),
        "places": places(app),
        "speakers": speakers(app),
        "frame_seconds": decoder.map(|decoder| frame_seconds(decoder.model.config())),
        "missed_deadlines": app.metrics.missed_frames(),
        "refusals": app.metrics.refusals_json(),
        "refused": refused + app.connections.refused(),
    })
}

/// Returns `{KIND: {"in_use", "limit"}}` for the kinds of streams that have places of their own.
fn places(app: &App) -> Value {
    let one = |in_use: usize, limit: usize| json!({"in_use": in_use, "limit": limit});
    let slots = |slots: &SlotQueue| one(slots.in_use(), slots.limit());
    let decoder = app.decoder().ok();
    json!({
        "decode": decoder.map(|decoder| slots(decoder.batcher.slots())),
        "encode": decoder.map(|decoder| slots(decoder.encoder.slots())),
        "synth": app.synth_pool().ok().map(|pool| one(pool.admission().in_use(), pool.admission().limit())),
    })
}

/// Returns the time that one frame of tokens sounds: its samples are late after it.
fn frame_seconds(config: &Config) -> f64 {
    config.frame_len() as f64 / f64::from(config.sampling_rate)
}
