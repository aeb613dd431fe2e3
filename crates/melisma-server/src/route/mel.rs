//! `POST /v1/mel`: an audio file in, its picture out while it arrives, one message per line.

use std::sync::Arc;

use hyper::header::HeaderValue;
use melisma::audio::{Stream, Target};
use melisma::mel::{Config, PRESETS};
use serde_json::Value;
use tokio::runtime::Handle;

use super::Call;
use super::clip::{self, Kind, Texts};
use super::player::SAMPLE_RATE;
use crate::app::App;
use crate::event::Field;
use crate::http::body::Reply;
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::picture::Picture;

const DEFAULT_PRESET: &str = "builder";

pub(super) async fn post(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let name = query.text("preset");
    let name = name.as_deref().unwrap_or(DEFAULT_PRESET);
    let preset = Config::preset(name)
        .map_err(|error| Failure::parameter("preset", format!("{error}; the presets are {}", presets())))?;
    query.finish()?;
    call.record.note(Field::Format, "ndjson");
    call.record.note(Field::Preset, name);
    app.check_open()?;
    let full = || Failure::busy("full", "pictures of other files are being made").and_close();
    let permit = app.pictures.try_acquire().ok_or_else(full)?;
    let sample_rate = preset.sample_rate;
    let mut picture = Picture::new(preset)?;
    let worker = Arc::clone(app);
    let kind = Kind { name: "mel", media_type: "application/x-ndjson" };
    let mut reply = clip::answer(app, call, kind, move |source, texts| {
        let _permit = permit;
        let mut stream = Stream::live(source, Target::new(sample_rate))?;
        clip::each_block(&worker, &mut stream, sample_rate, |samples| give(texts, &picture.push(samples)?))?;
        give(texts, &picture.finish()?)
    })
    .await?;
    reply.headers_mut().insert(SAMPLE_RATE, HeaderValue::from(sample_rate));
    Ok(reply)
}

fn presets() -> String {
    PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn give(texts: &Texts, messages: &[Value]) -> melisma::Result<()> {
    Handle::current().block_on(texts.give(messages.iter().map(|message| format!("{message}\n")).collect()))
}
