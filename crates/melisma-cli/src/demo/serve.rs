//! The step `serve`: a server in this process, asked as a client asks it, and stopped.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use melisma::runtime::thread::start_in;
use melisma::snac::EngineOptions;
use melisma::speak::{Opening, has_builtin};
use melisma::text::table::{Align, Table};
use melisma::text::{count, duration};
use melisma::{Error, ErrorKind, Result, output};
use melisma_server::batcher::{Batcher, Setup, Sizing};
use melisma_server::metrics::Metrics;
use melisma_server::speakers::{self, Decoding, Loading, VoiceModel};
use melisma_server::{Decoder, Guard, Level, Limits, Listen, Log, Server, Settings, Stopper, encoder};

use super::folder::{Folder, SPOKEN};
use super::page::facts;
use super::{Chapter, in_words};
use crate::build;
use crate::codec::{BUILTIN, Codec};
use crate::session::Session;

const STREAMS: usize = 2;
const SECONDS: u32 = 5;
const SPEECH: &[u8] = br#"{"input": "Hello!", "response_format": "wav"}"#;
/// How long a client waits for the server, and for each answer.
const PATIENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(5);

/// What a client asked for.
struct Asked {
    what: &'static str,
    bytes: usize,
    time: Duration,
}

pub fn run(session: &Session, folder: &Folder) -> Result<Chapter> {
    let context = session.context()?;
    let speech = folder.path(SPOKEN);
    let recording = std::fs::read(&speech).map_err(|error| output::failed(&speech, error))?;
    let log = Log::new(Level::Error, |_, _| ());
    let stopper = Stopper::default();
    let settings = Settings {
        listen: Listen::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        guard: Guard::default(),
        limits: Limits::default(),
        log: log.clone(),
        threads: 2,
        upstream: None,
        build: build::info(),
        stopper: stopper.clone(),
    };
    let start = Instant::now();
    let server = Server::bind(settings)?;
    let (address, is_ready, has_ended) = (server.address(), server.readiness(), AtomicBool::new(false));
    let (asked, ready) = thread::scope(|scope| {
        let client = start_in(scope, || {
            let asked = wait(&is_ready, &has_ended).and_then(|()| Ok((start.elapsed(), ask(address, &recording)?)));
            stopper.drain();
            asked
        })?;
        let ran = server.run(|metrics, stopper| load(session, metrics, stopper, log));
        has_ended.store(true, Ordering::Relaxed);
        let asked = client.join().map_err(|_| failed("the client ended early"))?;
        ran.and(asked).map(|(ready, asked)| (asked, ready))
    })?;
    let mut table = Table::new([("request", Align::Left), ("answer", Align::Right), ("time", Align::Right)]);
    for Asked { what, bytes, time } in &asked {
        table.push([(*what).to_owned(), format!("{bytes} bytes"), duration::show(*time)]);
    }
    let total: Duration = asked.iter().map(|asked| asked.time).sum();
    let spoke = if has_builtin() { "spoke a text, " } else { "" };
    let shown = [
        format!(
            "<p>It {spoke}encoded a recording, decoded the tokens and played {SECONDS} s of a preset. Then it \
             finished what was open, and ended. <code>melisma serve</code> starts one that stays, with a page for your browser.</p>\n"
        ),
        facts(&[
            (format!("{:.0} ms", 1e3 * ready.as_secs_f64()), "from the start to ready, with its model"),
            (format!("{:.0} ms", 1e3 * total.as_secs_f64()), &format!("for {}", count(asked.len() as u64, "answer"))),
        ]),
    ];
    Ok(Chapter {
        title: "A server, asked and stopped".to_owned(),
        device: Some(in_words(context.device())),
        shown: shown.concat(),
        folded: table.html(),
    })
}

fn load(session: &Session, metrics: &Arc<Metrics>, stopper: &Stopper, log: Log) -> Result<Decoder> {
    let context = session.context()?;
    let model = Codec::open(session, BUILTIN)?.model;
    let options = EngineOptions::new(STREAMS);
    let setup = Setup {
        queue: context.queue(),
        budget: context.budget(),
        options,
        sizing: Sizing::Pinned,
        metrics: Arc::clone(metrics),
        log: log.clone(),
        stopper: stopper.clone(),
    };
    let batcher = Batcher::start(&model, setup)?;
    let encoder = encoder::start(&model, &context.device().queue(context.budget())?, context.budget(), metrics)?;
    let loading = Loading {
        context,
        codec: &model,
        opening: Opening::default(),
        sizing: melisma_server::Speakers(Some(1)),
        decoding: Decoding::like(&batcher, options, metrics, stopper),
        log,
    };
    let speakers = speakers::open_all(VoiceModel::builtin().as_slice(), loading)?;
    Ok(Decoder { model, batcher, encoder, speakers, device: context.device().clone() })
}

fn wait(is_ready: &impl Fn() -> bool, has_ended: &AtomicBool) -> Result<()> {
    let start = Instant::now();
    while !is_ready() {
        if has_ended.load(Ordering::Relaxed) || start.elapsed() > PATIENCE {
            return Err(failed("it was not ready"));
        }
        thread::sleep(TICK);
    }
    Ok(())
}

/// Sends a text, the recording, its tokens, and a wish for music.
fn ask(address: SocketAddr, recording: &[u8]) -> Result<Vec<Asked>> {
    let mut asked = Vec::new();
    let mut ask = |what, line: &str, body: &[u8]| {
        let start = Instant::now();
        let answer = answer(address, line, body).map_err(|error| Error::io("the server", error))?;
        let at = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
        let (head, body) = answer.split_at(at);
        if !head.starts_with(b"HTTP/1.0 200") && !head.starts_with(b"HTTP/1.1 200") {
            return Err(failed(&format!(
                "{line}: {}",
                String::from_utf8_lossy(head).lines().next().unwrap_or_default()
            )));
        }
        let body = body.get(4..).unwrap_or_default().to_vec();
        asked.push(Asked { what, bytes: body.len(), time: start.elapsed() });
        Ok(body)
    };
    if has_builtin() {
        ask("a text, for speech", "POST /v1/audio/speech", SPEECH)?;
    }
    let tokens = ask("the recording, for tokens", "POST /v1/encode", recording)?;
    ask("the tokens, for audio", "POST /v1/decode", &tokens)?;
    ask("a preset, for music", &format!("GET /v1/synth.wav?preset=sleep&seconds={SECONDS}"), &[])?;
    Ok(asked)
}

/// Returns the answer to one request, its head included. HTTP/1.0 has no chunks.
fn answer(address: SocketAddr, line: &str, body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let kind = if body.starts_with(b"{") { "content-type: application/json\r\n" } else { "" };
    let head = format!("{line} HTTP/1.0\r\nhost: {address}\r\n{kind}content-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn failed(why: &str) -> Error {
    Error::new(ErrorKind::Check, format!("serve: {why}"))
}
