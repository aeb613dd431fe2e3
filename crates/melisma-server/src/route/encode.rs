//! `POST /v1/encode`: an audio file in, tokens out while it arrives.

use std::sync::Arc;

use melisma::audio::{Stream, Target};
use melisma::snac::tokens::{Text, to_json};
use melisma::snac::{Codes, Config, EncodeEngine, Model};
use melisma::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

use super::Call;
use super::clip::{self, Source, Texts};
use crate::app::{App, Decoder};
use crate::batcher::{Block, Input, Output};
use crate::event::Field;
use crate::http::body::Reply;
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::log::Level;

/// What the built-in codec says about tokens for a language model.
const DOUBT: &str = "warning: tokens of builtin:mini24; a language model such as Orpheus needs those of its own codec: name \
                     it with --model";

/// The form of the answer.
#[derive(Debug, Clone, Copy)]
enum Form {
    Text(Text),
    Codes,
}

impl Form {
    /// Returns its name, as the parameter `format` takes it.
    fn name(self) -> &'static str {
        match self {
            Self::Text(Text::Orpheus) => "orpheus",
            Self::Text(Text::Ids) => "ids",
            Self::Codes => "codes",
        }
    }
}

pub(super) async fn post(app: &Arc<App>, call: Call) -> std::result::Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let form = query.value("format", "orpheus, ids or codes", |text| match text {
        "orpheus" => Some(Form::Text(Text::Orpheus)),
        "ids" => Some(Form::Text(Text::Ids)),
        "codes" => Some(Form::Codes),
        _ => None,
    })?;
    let form = form.unwrap_or(Form::Text(Text::Orpheus));
    query.finish()?;
    call.record.note(Field::Format, form.name());
    app.check_open()?;
    let decoder = app.decoder()?;
    let full = || {
        let limit = decoder.encoder.slots().limit();
        Failure::busy("full", format!("{limit} other clips are being encoded")).and_close()
    };
    let (input, output) = decoder.encoder.open(()).ok_or_else(full)?;
    if decoder.model.is_builtin() && matches!(form, Form::Text(_)) {
        app.encode_doubt.call_once(|| app.log.line(Level::Warn, DOUBT));
    }
    let writer = Writer { model: Arc::clone(&decoder.model), form };
    let worker = Arc::clone(app);
    let kind = clip::Kind { name: "encode", media_type: writer.media_type() };
    clip::answer(app, call, kind, move |source, texts| {
        let writing = Handle::current().spawn(writer.write(output, texts.clone()));
        let read = read(&worker, source, input);
        let lost = |_| Err(Error::new(ErrorKind::Io, "the clip was lost"));
        let written = Handle::current().block_on(writing).unwrap_or_else(lost);
        // A failure of the engine ends the reading too.
        written.and(read)
    })
    .await
}

/// Reads the clip's frames.
fn read(app: &App, source: Source, input: Input<EncodeEngine>) -> Result<()> {
    let Some(Decoder { model, .. }) = app.decoder.get() else { return Ok(()) };
    let Config { sampling_rate, .. } = *model.config();
    let frame_len = model.config().frame_len();
    let mut stream = Stream::live(source, Target::new(sampling_rate))?;
    let mut waiting: Vec<f32> = Vec::new();
    let push = |samples: &[f32]| {
        Handle::current().block_on(input.push(samples.chunks(frame_len).map(<[f32]>::to_vec).collect()))
    };
    clip::each_block(app, &mut stream, sampling_rate, |samples| {
        waiting.extend_from_slice(samples);
        let n_whole = waiting.len() / frame_len * frame_len;
        push(&waiting[..n_whole])?;
        waiting.drain(..n_whole);
        Ok(())
    })?;
    waiting.resize(waiting.len().next_multiple_of(frame_len), 0.0);
    push(&waiting)?;
    input.finish();
    Ok(())
}

/// Codes to the text of the answer.
struct Writer {
    model: Arc<Model>,
    form: Form,
}

impl Writer {
    fn media_type(&self) -> &'static str {
        match self.form {
            Form::Text(_) => "text/plain; charset=utf-8",
            Form::Codes => "application/json",
        }
    }

    /// Sends the codes that the encoder makes, as they come. Ends without an error if the reading of the clip fails.
    async fn write(self, mut output: Output<EncodeEngine>, texts: Texts) -> Result<()> {
        let Self { model, form } = self;
        let mut all = Codes::empty(model.config());
        let mut start = match form {
            Form::Text(text) => text.start(&model)?,
            Form::Codes => String::new(),
        };
        while let Some(Block { content, is_last, .. }) = output.next().await? {
            match form {
                // A clip without a frame has the start alone.
                Form::Text(text) if is_last || content.n_frames() > 0 => {
                    texts.give(std::mem::take(&mut start) + &text.lines(&content)).await?;
                }
                Form::Text(_) => {}
                Form::Codes => all.append(content.frames())?,
            }
            if is_last && matches!(form, Form::Codes) {
                texts.give(to_json(&model, &all)).await?;
            }
        }
        Ok(())
    }
}
