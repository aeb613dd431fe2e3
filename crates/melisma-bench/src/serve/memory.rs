//! The server's memory after few and after many short requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use melisma::ErrorKind;
use melisma::snac::tokens::to_orpheus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::sleep;

use super::host::Host;
use super::subject::Subject;
use super::{BenchContext, Error, Peer, Result, Row, clients, codes, setting};

const FEW: u64 = 1000;
const MANY: u64 = 10_000;
const N_FRAMES: usize = 2;
/// Requests at a time.
const N_CLIENTS: u64 = 4;
/// A slow device admits fewer; the rest come back.
const FULL: u16 = 503;
const RETRY: Duration = Duration::from_millis(5);
/// Connections end and buffers return before the memory is read.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let n_many = setting("MELISMA_BENCH_REQUESTS", FEW + 1..=1_000_000)?.unwrap_or(MANY);
    let (runtime, subject) = (clients()?, Subject::builtin()?);
    let host = Host::start(context, &subject.source)?;
    let tokens = to_orpheus(&subject.model, &codes(subject.model.config(), N_FRAMES)?)?;
    let requests = Arc::new(requests(host.address, &tokens));
    let mebibytes = |n_requests: u64| {
        send(&runtime, host.address, &requests, n_requests)?;
        std::thread::sleep(SETTLE);
        Ok::<_, Error>(host.resident_bytes()? as f64 / f64::from(1 << 20))
    };
    let few = mebibytes(FEW)?;
    let many = mebibytes(n_many - FEW)?;
    let row = Row::single(format!("serve/memory after {n_many} short requests"), "MiB", many);
    Ok(vec![Row { peers: vec![Peer { name: format!("after {FEW}"), median: few }], ..row }])
}

/// Returns a request of each kind, with the status that it must get.
fn requests(address: SocketAddr, tokens: &str) -> [(Vec<u8>, u16); 4] {
    let request = |line: &str, body: &str| {
        let len = body.len();
        format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}")
            .into_bytes()
    };
    [
        (request("POST /v1/decode?format=pcm", tokens), 200),
        (request("GET /v1/status", ""), 200),
        (request("POST /v1/decode?chunk=0", tokens), 400),
        (request("GET /v1/unknown", ""), 404),
    ]
}

fn send(runtime: &Runtime, address: SocketAddr, requests: &Arc<[(Vec<u8>, u16); 4]>, n_requests: u64) -> Result<()> {
    let client = |client: u64| {
        let requests = Arc::clone(requests);
        runtime.spawn(async move {
            for index in (client..n_requests).step_by(N_CLIENTS as usize) {
                // Every client sends every kind.
                let (request, expected) = &requests[(index / N_CLIENTS) as usize % requests.len()];
                let asked =
                    || async { ask(address, request).await.map_err(|error| Error::io("a short request", error)) };
                let mut status = asked().await?;
                while status == FULL {
                    sleep(RETRY).await;
                    status = asked().await?;
                }
                if status != *expected {
                    return Err(Error::new(
                        ErrorKind::Check,
                        format!("a short request got {status} instead of {expected}"),
                    ));
                }
            }
            Ok(())
        })
    };
    let sending: Vec<_> = (0..N_CLIENTS).map(client).collect();
    for client in sending {
        runtime.block_on(client).map_err(|error| Error::io("a client", io::Error::other(error)))??;
    }
    Ok(())
}

/// Returns the status of the answer.
async fn ask(address: SocketAddr, request: &[u8]) -> io::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    status.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
