//! `WS /v1/decode`: messages of tokens in, blocks of samples out.

use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use melisma::audio::wav::SampleFormat;
use melisma::lock::Mutex;
use melisma::snac::tokens::Ledger;
use serde_json::Value;

use super::Call;
use super::intake::{Choice, Intake, record};
use super::player::seconds;
use super::session::{Fault, MessageReceiver, Session};
use crate::app::App;
use crate::audio::{Encoder, Layout};
use crate::batcher::Output;
use crate::block;
use crate::event::Field;
use crate::http::body::Reply;
use crate::http::failure::Failure;
use crate::http::query::Query;
use crate::http::race::{First, race};
use crate::metrics::Stage;
use crate::picture::Picture;
use crate::websocket::{Message, handshake};

/// Opens a stream, and then the WebSocket: a client that is refused sees a plain status. So does a plain
/// request, because browsers do not tell pages why a WebSocket was refused.
pub(super) async fn open(app: &Arc<App>, call: Call) -> Result<Reply, Failure> {
    let mut query = Query::new(call.request.uri().query())?;
    let format = block::sample_format(&mut query)?;
    let has_picture = query.value("picture", "0 or 1", |text| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    })?;
    let choice = Choice::new(&mut query)?;
    query.finish()?;
    call.record.note(Field::Format, format.name());
    let accepted = handshake::accept(&call.request).map_err(|plain| Choice::refusal(app).unwrap_or(plain))?;
    let (intake, output, layout) = choice.open(app).await?;
    call.record.note_time(Field::QueueSeconds);
    let picture = has_picture.filter(|has| *has).map(|_| Picture::at_rate(layout.sample_rate)).transpose()?;
    let app = Arc::clone(app);
    tokio::spawn(async move {
        // Until the upgrade is done, the stream waits in the batcher.
        let Some((session, receiver)) = Session::begin(app, call).await else { return };
        let client = Client { session, layout, format, ledger: Mutex::new(None) };
        let ended = match race(client.listen(receiver, intake), client.play(output, picture)).await {
            First::A(fault) => Err(fault),
            First::B(played) => played,
        };
        client.session.end("decode", ended).await;
    });
    Ok(accepted)
}

/// One client's stream.
struct Client {
    session: Session,
    layout: Layout,
    format: SampleFormat,
    /// The counts of the tokens, once they have ended.
    ledger: Mutex<Option<Ledger>>,
}

impl Client {
    /// Reads tokens until the client ends them, and then only pings and pongs.
    async fn listen(&self, mut receiver: MessageReceiver, intake: Intake) -> Fault {
        let mut intake = Some(intake);
        loop {
            let received = match self.session.next_text(&mut receiver).await {
                Ok(text) => self.take(&text, &mut intake).await,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = received {
                return fault;
            }
        }
    }

    async fn take(&self, text: &str, intake: &mut Option<Intake>) -> Result<(), Fault> {
        let is_end = match control(text) {
            None => false,
            Some(kind) if kind == "end" => true,
            Some(kind) => {
                return Err(Failure::invalid("unknown_message", format!("unknown message type `{kind:.32}`")).into());
            }
        };
        match (intake.take(), is_end) {
            (None, _) => Err(Failure::invalid("after_end", "a message after the end").into()),
            (Some(mut open), false) => {
                let pushed = open.push(text.as_bytes()).await;
                *intake = Some(open);
                pushed.map(|_| ()).map_err(Fault::from)
            }
            (Some(open), true) => {
                let ledger = open.finish().await?;
                *self.ledger.lock() = Some(ledger);
                Ok(())
            }
        }
    }

    async fn play(&self, mut output: Output, mut picture: Option<Picture>) -> Result<(), Fault> {
        let Session { app, record: request, .. } = &self.session;
        let open_stream = app.streams.list(&request.id, "decode");
        self.session.send_json(&block::start(self.format, self.layout)).await?;
        let mut encoder = Encoder::samples(self.format, self.layout)?;
        let (mut position, mut is_whole) = (0, false);
        while let Some(next) = output.next().await? {
            if position == 0 {
                request.first_audio();
            }
            let sending = Instant::now();
            let bytes = encoder.push(&next.content)?;
            let head = block::Head { position, n_samples: next.content.len(), is_last: next.is_last };
            self.session.send(Message::Binary(head.with(self.format, &bytes))).await?;
            app.metrics.stage(Stage::Send, sending.elapsed());
            app.metrics.audio(seconds(next.content.len() as u64, self.layout));
            position += next.content.len() as u64;
            open_stream.sent(seconds(position, self.layout), request.start);
            is_whole = next.is_last;
            let drawn = picture.as_mut().map(|picture| picture.push(&next.content)).transpose()?;
            self.show(drawn.unwrap_or_default()).await?;
        }
        let ledger = *self.ledger.lock();
        let Some(ledger) = ledger.filter(|_| is_whole) else {
            let message = "the stream was lost";
            return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message).into());
        };
        self.show(picture.map(Picture::finish).transpose()?.unwrap_or_default()).await?;
        let mut message = record(app, &request.id, ledger, position);
        message["type"] = "ledger".into();
        self.session.send_json(&message).await
    }

    /// Sends messages of a picture.
    async fn show(&self, messages: Vec<Value>) -> Result<(), Fault> {
        for message in messages {
            self.session.send_json(&message).await?;
        }
        Ok(())
    }
}

/// Returns the type of a message that is not tokens: an object with a text `type`.
fn control(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    value.get("type")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_with_a_type_is_a_control() {
        assert_eq!(control(r#" {"type":"end"}"#).as_deref(), Some("end"));
        for text in ["<custom_token_10>", "[[1],[2]]", "{", r#"{"type":1}"#, r#"{"kind":"end"}"#, "128266"] {
            assert_eq!(control(text), None, "{text}");
        }
    }
}
