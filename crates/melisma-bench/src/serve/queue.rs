//! Twice as many clients as the server has streams for, each as OpenAI's: it asks for a sentence, hears it to its end
//! and asks for the next one. A refused call is tried again by the rules of OpenAI's client.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::host::Host;
use super::speech::{PACE, Speech, request};
use super::subject::Subject;
use super::{BenchContext, Error, Peer, Result, Row, clients, live_time, quantiles};

/// The seconds that a request may wait for a free stream, the server's default.
const QUEUE_S: u64 = 5;
/// How long the language model speaks one sentence.
const SENTENCE: Duration = Duration::from_millis(3500);
/// First audio is due so long after the queue's limit.
const ALLOWANCE_S: f64 = 0.5;
/// As often a refused call is tried again.
const MAX_RETRIES: u32 = 2;
/// The wait before the first of these, doubled before each, unless the server names one of up to [`MAX_RETRY_AFTER`].
const BACK_OFF: Duration = Duration::from_millis(500);
const MAX_RETRY_AFTER: u64 = 60;

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    model_rows(context, &Subject::full_size(context.device)?)
}

/// Measures the built-in model alone.
pub(super) fn builtin_rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    model_rows(context, &Subject::builtin()?)
}

fn model_rows(context: BenchContext<'_>, subject: &Subject) -> Result<Vec<Row>> {
    let (runtime, time) = (clients()?, live_time()?);
    let speech = Arc::new(Speech::new(subject, context, SENTENCE.min(time).mul_f64(PACE))?);
    let stand_in = speech.stand_in()?;
    let host = Host::queueing(context, &subject.source, &stand_in.url(), QUEUE_S)?;
    let (address, n_clients) = (host.address, 2 * host.capacity()?);
    let end = Instant::now() + time;
    let calls: Vec<Call> = runtime.block_on(async {
        let talk = |speech: Arc<Speech>| async move {
            let mut calls = Vec::new();
            while Instant::now() < end {
                calls.push(call(address, &speech.expected).await);
            }
            calls
        };
        let talking: Vec<_> = (0..n_clients).map(|_| tokio::spawn(talk(Arc::clone(&speech)))).collect();
        let mut calls = Vec::new();
        for client in talking {
            calls.extend(client.await.map_err(|error| Error::io("a client", io::Error::other(error)))?);
        }
        Ok::<_, Error>(calls)
    })?;
    let name = format!("serve/queue/{}", subject.label);
    let n = calls.len() as u64;
    let share = |what: &str, is_so: &dyn Fn(&Call) -> bool| {
        let share = 100.0 * calls.iter().filter(|call| is_so(call)).count() as f64 / n.max(1) as f64;
        Row { n, ..Row::single(format!("{name}, {what}"), "%", share) }
    };
    let mut rows = vec![
        Row::single(format!("{name}, half of the clients"), "streams", n_clients as f64 / 2.0),
        share("whole answers", &|call| call.is_whole),
        share("without a retry", &|call| call.n_tries == 1),
    ];
    let heard: Vec<f64> = calls.iter().filter_map(|call| call.first_audio_s).collect();
    if !heard.is_empty() {
        let limit =
            Peer { name: "the queue and half a second".to_owned(), median: 1e3 * (QUEUE_S as f64 + ALLOWANCE_S) };
        let first = quantiles(&format!("{name}, first audio"), &heard, &[("p50", 0.5), ("p99", 0.99), ("max", 1.0)]);
        rows.extend(first.into_iter().map(|row| Row { peers: vec![limit.clone()], ..row }));
    }
    Ok(rows)
}

/// What one call of a client came to.
#[derive(Debug, Default)]
struct Call {
    /// Seconds from the first try to the first audio.
    first_audio_s: Option<f64>,
    is_whole: bool,
    n_tries: u32,
}

/// Asks for a sentence, and again if the server refuses.
async fn call(address: SocketAddr, expected: &[u8]) -> Call {
    let start = Instant::now();
    let mut call = Call::default();
    loop {
        call.n_tries += 1;
        let retry_after = match ask(address).await {
            Ok(Answer::Speech { first, bytes }) => {
                call.first_audio_s = Some((first - start).as_secs_f64());
                call.is_whole = bytes == expected;
                return call;
            }
            Ok(Answer::Refused { retry_after }) => retry_after,
            Err(_) => None,
        };
        if call.n_tries > MAX_RETRIES {
            return call;
        }
        sleep(retry_after.unwrap_or(BACK_OFF * (1 << (call.n_tries - 1)))).await;
    }
}

enum Answer {
    Speech { first: Instant, bytes: Vec<u8> },
    Refused { retry_after: Option<Duration> },
}

async fn ask(address: SocketAddr) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request(address, "pcm").as_bytes()).await?;
    let (mut bytes, mut head, mut first) = (Vec::new(), None, None);
    loop {
        let n = stream.read_buf(&mut bytes).await?;
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").filter(|_| head.is_none());
        if let Some(end) = end {
            let rest = bytes.split_off(end + 4);
            head = Some(String::from_utf8_lossy(&std::mem::replace(&mut bytes, rest)).to_lowercase());
        }
        if head.is_some() && !bytes.is_empty() {
            first.get_or_insert_with(Instant::now);
        }
        if n == 0 {
            break;
        }
    }
    let head = head.ok_or(io::ErrorKind::UnexpectedEof)?;
    let retry_after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")?.trim().parse().ok());
    let retry_after = retry_after.filter(|seconds| (1..=MAX_RETRY_AFTER).contains(seconds)).map(Duration::from_secs);
    match (head.split(' ').nth(1), first) {
        (Some("200"), Some(first)) => Ok(Answer::Speech { first, bytes }),
        _ => Ok(Answer::Refused { retry_after }),
    }
}
