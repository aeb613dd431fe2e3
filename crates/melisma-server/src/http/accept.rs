//! The accept loop: connections within limits of number and time.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::body::Reply;
use super::failure::Failure;
use super::idle::Idle;
use super::presence::{Presence, Progress};
use super::race::{First, race};
use crate::admission::{Admission, Place};

/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// The most bytes of a request's headers.
const MAX_HEADER_BYTES: usize = 32 << 10;
/// How long the loop rests when the system cannot accept.
const REST: Duration = Duration::from_millis(50);

/// How long connections may take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From one answer, or the start, to the next request's last header.
    pub header: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// In all.
    pub total: Duration,
}

/// Where a request came in.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The server's address, as the client sees it.
    pub local: SocketAddr,
    /// The connection's place; whoever takes the connection over holds it.
    pub place: Arc<Place>,
}

/// What all connections share.
#[derive(Debug, Clone)]
pub struct Door {
    /// The places for connections.
    pub admission: Admission,
    /// Their limits.
    pub times: Times,
    /// Becomes true when no further request is accepted.
    pub stop: watch::Receiver<bool>,
}

/// Accepts connections until the door is shut, and answers their requests with `answer`.
pub async fn accept<F>(
    listener: TcpListener,
    mut door: Door,
    answer: impl Fn(Request<Incoming>, Connection) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Reply> + Send + 'static,
{
    loop {
        let socket = match race(shut(&mut door.stop), listener.accept()).await {
            First::A(()) => return,
            First::B(Ok((socket, _))) => socket,
            First::B(Err(_)) => {
                sleep(REST).await;
                continue;
            }
        };
        match (door.admission.enter(), socket.local_addr()) {
            (Some(place), Ok(local)) => {
                let connection = Connection { local, place: Arc::new(place) };
                tokio::spawn(serve(socket, connection, door.clone(), answer.clone()));
            }
            (None, Ok(_)) => refuse(&socket),
            (_, Err(_)) => {}
        }
    }
}

/// Answers the requests of one connection.
async fn serve<F: Future<Output = Reply>>(
    socket: TcpStream,
    connection: Connection,
    door: Door,
    answer: impl Fn(Request<Incoming>, Connection) -> F,
) {
    let Door { times, mut stop, .. } = door;
    // It only costs latency.
    let _ = socket.set_nodelay(true);
    let progress = Progress::default();
    let service = service_fn(|request: Request<Incoming>| {
        progress.ask(request.version());
        let answered = answer(request, connection.clone());
        async {
            let reply = answered.await;
            progress.answer();
            Ok::<_, Infallible>(reply)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(times.header);
    builder.max_headers(MAX_HEADERS).max_buf_size(MAX_HEADER_BYTES).half_close(true);
    let socket = Idle::new(socket, times.idle);
    let presence = Presence { line: socket.line(), progress: &progress, times };
    let mut lost = pin!(presence.lost());
    let mut serving = pin!(builder.serve_connection(TokioIo::new(socket), service).with_upgrades());
    let served = race(race(serving.as_mut(), lost.as_mut()), shut(&mut stop));
    if let Ok(First::B(())) = timeout(times.total, served).await {
        serving.as_mut().graceful_shutdown();
        // It fails only if the client leaves or takes too long.
        let _ = timeout(times.total, race(serving, lost)).await;
    }
}

/// Waits until the door is shut, also because the server is gone.
async fn shut(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Tells a client that there are too many connections, if its socket takes the answer at once.
fn refuse(socket: &TcpStream) {
    let body = Failure::busy("connections", "too many connections").json().to_string();
    let head = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n";
    let len = body.len();
    let answer = format!("{head}content-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}");
    // A client that does not read it sees the connection close.
    let _ = socket.try_write(answer.as_bytes());
}
