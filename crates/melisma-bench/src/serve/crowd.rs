//! Connections that do nothing, and connections that send one byte a second, beside live streams.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::decode::{Load, load};
use super::host::Host;
use super::report::Report;
use super::script::{Script, Split};
use super::stream::Refused;
use super::subject::Subject;
use super::{BenchContext, Peer, Result, Row, clients, live_time};

const N_IDLE: u32 = 1000;
const N_SLOW: u32 = 1000;
const N_STREAMS: u32 = 4;
/// The time between two bytes.
const PACE: Duration = Duration::from_secs(1);
/// The time over which connections are spread.
const SPREAD: Duration = Duration::from_secs(2);
const HEAD: &[u8] = b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\nx-padding: ";

/// Measures the 99th percentile of live streams with all these connections, beside that without.
pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let (runtime, subject) = (clients()?, Subject::builtin()?);
    let script = Arc::new(Script::new(&subject, context, Split::Token, live_time()?)?);
    let host = Host::start(context, &subject.source)?;
    let streams = || load(&runtime, &host, &script, Load { n_clients: N_STREAMS, refused: Refused::Leaves });
    let alone = Report::new(&script, &streams()?);
    let crowd = Crowd::gather(&runtime, host.address);
    let beside = Report::new(&script, &streams()?);
    drop(crowd);
    let name = format!("serve/connections, {N_STREAMS} streams beside {N_IDLE} idle and {N_SLOW} slow ones");
    let peers = vec![Peer { name: "alone".to_owned(), median: 1e3 * alone.p99() }];
    let n = beside.latencies.len() as u64;
    let p99 = Row { n, peers, ..Row::single(format!("{name}, p99"), "ms", 1e3 * beside.p99()) };
    Ok(vec![p99, beside.accepted(&name), beside.deadlines_kept(&name)])
}

/// Connections that are opened again whenever the server closes them, until this is dropped.
struct Crowd {
    tasks: Vec<AbortHandle>,
}

impl Crowd {
    fn gather(runtime: &Runtime, address: SocketAddr) -> Self {
        let n_all = N_IDLE + N_SLOW;
        let start = |index: u32| {
            let wait = SPREAD * index / n_all;
            let member = async move {
                sleep(wait).await;
                match index % 2 {
                    0 => forever(address, idle).await,
                    _ => forever(address, slow).await,
                }
            };
            runtime.spawn(member).abort_handle()
        };
        let tasks = (0..n_all).map(start).collect();
        std::thread::sleep(SPREAD + PACE);
        Self { tasks }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn forever(address: SocketAddr, behave: impl AsyncFn(TcpStream) -> io::Result<()>) -> Infallible {
    loop {
        if let Ok(stream) = TcpStream::connect(address).await {
            // However the connection ends, the next one follows.
            let _ = behave(stream).await;
        }
        sleep(PACE).await;
    }
}

/// Waits until the server closes the connection.
async fn idle(mut stream: TcpStream) -> io::Result<()> {
    stream.read_u8().await.map(drop)
}

/// Sends a request that never ends.
async fn slow(mut stream: TcpStream) -> io::Result<()> {
    for byte in HEAD.iter().chain(std::iter::repeat(&b'x')) {
        stream.write_all(&[*byte]).await?;
        sleep(PACE).await;
    }
    Ok(())
}
