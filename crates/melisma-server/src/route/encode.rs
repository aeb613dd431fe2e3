//! `POST /v1/encode`: an audio file in, tokens out while it arrives.

use std::sync::Arc;

use melisma::Error;
use melisma::audio::Stream;
use melisma::snac::Codes;
use melisma::snac::tokens::{Text, to_json};

use super::Call;
use super::clip::{self, Source, Texts};
use crate::app::{App, Decoder};
use crate::http::body::Reply;
use crate::http::failure::Failure;
use crate::http::query::Query;

/// The form of the answer.
#[derive(Debug, Clone, Copy)]
enum Form {
    Text(Text),
    Codes,
}

pub(super) async fn post(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let form = query.value("format", "orpheus, ids or codes", |text| match text {
        "orpheus" => Some(Form::Text(Text::Orpheus)),
        "ids" => Some(Form::Text(Text::Ids)),
        "codes" => Some(Form::Codes),
        _ => None,
    })?;
    let form = form.unwrap_or(Form::Text(Text::Orpheus));
    query.finish()?;
    app.check_open()?;
    let full = || Failure::busy("full", "other clips are being encoded").and_close();
    let place = app.decoder()?.encoder.enter().ok_or_else(full)?;
    let media_type = match form {
        Form::Text(_) => "text/plain; charset=utf-8",
        Form::Codes => "application/json",
    };
    let worker = Arc::clone(app);
    clip::answer(app, call, media_type, move |source, texts| {
        let _place = place;
        encode(&worker, source, form, texts)
    })
    .await
}

/// Encodes a clip on a thread of its own.
fn encode(app: &App, source: Source, form: Form, texts: &Texts) -> Result<(), Error> {
    let Some(Decoder { model, encoder, .. }) = app.decoder.get() else { return Ok(()) };
    let config = model.config();
    let mut all = Codes::empty(config);
    let mut start = match form {
        Form::Text(text) => text.start(model)?,
        Form::Codes => String::new(),
    };
    let mut take = |codes: Codes| match form {
        Form::Text(_) if codes.n_frames() == 0 => Ok(()),
        Form::Text(text) => texts.give(std::mem::take(&mut start) + &text.lines(&codes)),
        Form::Codes => all.append(codes.frames()),
    };
    let mut stream = Stream::live(source, config.sampling_rate)?;
    let clip = encoder.open()?;
    clip::each_block(app, &mut stream, config.sampling_rate, |samples| clip.push(samples, &mut take))?;
    if let Some(rest) = clip.finish()? {
        take(rest)?;
    }
    match form {
        // A clip without a frame has the start alone.
        Form::Text(_) => texts.give(start),
        Form::Codes => texts.give(to_json(model, &all)),
    }
}
