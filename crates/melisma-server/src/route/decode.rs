//! `POST /v1/decode`: tokens in, audio out while they arrive.

use std::sync::Arc;

use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, StatusCode};
use melisma::snac::tokens::{self, Ledger};

use super::Call;
use super::intake::{Choice, Intake};
use super::player::{Feed, Packaging, Play, play};
use crate::app::App;
use crate::audio::Format;
use crate::event::Field;
use crate::http::body::Reply;
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::http::upload::RequestBody;

/// The longest body that is read before its audio leaves: about 2.5 minutes of tokens as text.
const GATHERED_BYTES: u64 = 256 << 10;

pub(super) async fn post(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let format = query.value("format", Format::NAMES, Format::from_name)?.unwrap_or(Format::Wav);
    let mut choice = Choice::new(&mut query)?;
    query.finish()?;
    choice.tokens = token_format(call.request.headers())?;
    call.record.note(Field::Format, format.name());
    let upload = RequestBody::new(call.request.into_body(), app.limits.token_bytes, app.limits.stall_timeout);
    if upload.n_announced().is_some_and(|n_bytes| n_bytes <= GATHERED_BYTES) {
        choice.gather();
    }
    let (intake, output, layout) = choice.open(app).await?;
    call.record.note_time(Field::QueueSeconds);
    let length = intake.length();
    let feed = Feed::start(read(upload, intake));
    let (record, kind, packaging, speed, picture) = (call.record, "decode", Packaging::Plain, 1.0, None);
    play(Play { record, kind, layout, length, format, packaging, speed, picture }, feed, output).await
}

/// Returns how the body is written, by its media type.
fn token_format(headers: &HeaderMap) -> Result<tokens::Format, Failure> {
    let media_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let media_type = media_type.map(|text| text.split(';').next().unwrap_or_default().trim().to_lowercase());
    match media_type.as_deref() {
        // The last is what `curl --data-binary` sends unless it is told otherwise.
        None | Some("text/plain" | "application/octet-stream" | "application/x-www-form-urlencoded") => {
            Ok(tokens::Format::Auto)
        }
        Some("application/json") => Ok(tokens::Format::Codes),
        Some(_) => {
            let message = "tokens are text/plain, lists of codes application/json";
            Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", message).and_close())
        }
    }
}

async fn read(mut upload: RequestBody, mut intake: Intake) -> Result<Ledger, Failure> {
    while let Some(bytes) = upload.next().await? {
        intake.push(&bytes).await?;
    }
    intake.finish().await
}
