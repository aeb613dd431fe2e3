//! `/v1/audio/speech` over a stand-in for the language model, which speaks a little faster than its
//! words are played.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use melisma::ErrorKind;
use melisma::audio::{Clip, wav};
use melisma::snac::Noise;
use melisma::snac::tokens::Text;

use super::host::Host;
use super::report::BUFFER;
use super::stand_in::{Ending, Script, StandIn};
use super::subject::Subject;
use super::{BenchContext, Error, Result, Row, codes, frame_time, live_time, quantiles};

/// How much faster than real time the tokens come.
pub(super) const PACE: f64 = 1.2;
const FORMATS: [&str; 5] = ["mp3", "opus", "flac", "wav", "pcm"];
/// Requests for each format.
const ROUNDS: usize = 10;
const N_SPEAKERS: usize = 4;
const POLL: Duration = Duration::from_millis(5);
const MAX_TRIES: usize = 1000;
/// A piece of text has at most 8192 tokens, about 100 seconds.
const LONGEST: Duration = Duration::from_secs(90);

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let subject = Subject::full_size(context.device)?;
    let speech = Speech::new(&subject, context, live_time()?.min(LONGEST))?;
    let stand_in = speech.stand_in()?;
    let host = Host::speaking(context, &subject.source, &stand_in.url())?;
    let name = format!("serve/speech/{}", subject.label);
    let mut rows = Vec::new();
    for format in FORMATS {
        let times: Result<Vec<f64>> =
            (0..ROUNDS).map(|_| first_byte(host.address, &stand_in, &speech, format)).collect();
        let shares = [("p50", 0.5), ("max", 1.0)];
        rows.extend(quantiles(&format!("{name}, first byte of {format}"), &times?, &shares));
    }
    let (share, busy) = host.watched(&format!("{name}, {N_SPEAKERS} speakers"), || speakers(host.address, &speech))?;
    let row = Row::single(format!("{name}, {N_SPEAKERS} speakers, in time for a player"), "%", 100.0 * share);
    rows.extend([Row { n: N_SPEAKERS as u64, ..row }, busy]);
    Ok(rows)
}

/// What the stand-in says, and what it must sound like.
pub(super) struct Speech {
    texts: Vec<String>,
    /// The time from one token to the next.
    pace: Duration,
    /// The token after which the first audio is final.
    needed: usize,
    /// Its samples, as `pcm`.
    pub(super) expected: Vec<u8>,
    sample_rate: u32,
}

impl Speech {
    pub(super) fn new(subject: &Subject, context: BenchContext<'_>, time: Duration) -> Result<Self> {
        let config = subject.model.config();
        let period = frame_time(config);
        let codes = codes(config, (time.as_secs_f64() / period.as_secs_f64()).ceil() as usize)?;
        let lines = Text::Orpheus.lines(codes.frames());
        let texts: Vec<String> =
            lines.split_whitespace().collect::<String>().split_inclusive('>').map(str::to_owned).collect();
        let n_tokens = texts.len() / codes.n_frames().max(1);
        let mut engine = subject.engine(context)?;
        let n_frames = (engine.lag() + 1).div_ceil(config.frame_len());
        let samples = engine.decode(&codes, &Noise::default())?;
        let clip = Clip::mono(config.sampling_rate, samples);
        Ok(Self {
            texts,
            pace: period.div_f64(PACE * n_tokens as f64),
            needed: n_frames * n_tokens - 1,
            expected: wav::encode(&clip, wav::SampleFormat::S16)?.split_off(44),
            sample_rate: config.sampling_rate,
        })
    }

    /// Starts a language model that says it to everybody.
    pub(super) fn stand_in(&self) -> Result<StandIn> {
        let script = Script::Stream { texts: self.texts.clone(), pace: self.pace, ending: Ending::Done };
        StandIn::start(move |_| script.clone()).map_err(|error| Error::io("the stand-in", error))
    }
}

/// Measures seconds from the token that the first audio needs to the answer's first byte of audio.
fn first_byte(address: SocketAddr, stand_in: &StandIn, speech: &Speech, format: &str) -> Result<f64> {
    let lost = |error| Error::io("a speaker", error);
    let is_full =
        |asked: &io::Result<_>| matches!(asked, Err(error) if error.kind() == io::ErrorKind::ConnectionRefused);
    let mut asked = ask(address, format);
    // The place of the request before is free once the server has noticed that its client left.
    for _ in 0..MAX_TRIES {
        if !is_full(&asked) {
            break;
        }
        thread::sleep(POLL);
        asked = ask(address, format);
    }
    let (stream, _, at) = asked.map_err(lost)?;
    drop(stream);
    while stand_in.n_open() > 0 {
        thread::sleep(POLL);
    }
    let asked = stand_in.asked();
    let sent = asked.last().and_then(|asked| asked.sent.get(speech.needed));
    let sent = sent.ok_or_else(|| Error::new(ErrorKind::Check, "audio came before its tokens"))?;
    Ok((at - *sent).as_secs_f64())
}

/// Returns the share of audio that came in time for players that start a little after the first byte. A speaker that
/// is refused has none.
fn speakers(address: SocketAddr, speech: &Speech) -> Result<f64> {
    let heard: Result<Vec<f64>> = thread::scope(|scope| {
        let speaking: Vec<_> = (0..N_SPEAKERS).map(|_| scope.spawn(|| in_time(address, speech))).collect();
        speaking
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Check, "a speaker panicked"))))
            .collect()
    });
    Ok(heard?.iter().sum::<f64>() / N_SPEAKERS as f64)
}

fn in_time(address: SocketAddr, speech: &Speech) -> Result<f64> {
    let lost = |error| Error::io("a speaker", error);
    let (mut stream, mut bytes, first) = match ask(address, "pcm") {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(0.0),
        asked => asked.map_err(lost)?,
    };
    let mut n_in_time = bytes.len();
    loop {
        let position = bytes.len();
        let mut piece = [0; 8192];
        let n = stream.read(&mut piece).map_err(lost)?;
        if n == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..n]);
        let plays = Duration::from_secs_f64((position / 2) as f64 / f64::from(speech.sample_rate));
        n_in_time += if Instant::now() <= first + BUFFER + plays { n } else { 0 };
    }
    match bytes == speech.expected {
        true => Ok(n_in_time as f64 / bytes.len() as f64),
        false => Err(Error::new(ErrorKind::Check, "the speech is not that of the engine")),
    }
}

/// Asks for speech. Returns the connection, the first bytes of audio, and when they came.
fn ask(address: SocketAddr, format: &str) -> io::Result<(TcpStream, Vec<u8>, Instant)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(request(address, format).as_bytes())?;
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 8192];
        let n = stream.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..n]);
        if n == 0 {
            return Err(io::Error::other(String::from_utf8_lossy(&bytes).into_owned()));
        }
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end.filter(|end| bytes.len() > end + 4) {
            let at = Instant::now();
            return match bytes.get(9..12) {
                Some(b"503") => Err(io::ErrorKind::ConnectionRefused.into()),
                Some(b"200") => Ok((stream, bytes.split_off(end + 4), at)),
                _ => Err(io::Error::other(String::from_utf8_lossy(&bytes).into_owned())),
            };
        }
    }
}

/// Returns a request for speech.
pub(super) fn request(address: SocketAddr, format: &str) -> String {
    let body = format!(r#"{{"model":"tts-1","voice":"alloy","input":"Hello.","response_format":"{format}"}}"#);
    // The body of an answer to HTTP/1.0 has no chunks.
    let head = format!("POST /v1/audio/speech HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}
