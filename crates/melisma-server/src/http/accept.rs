//! The accept loop: connections within limits of number and time.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::body::Reply;
use super::failure::Failure;
use super::gate::{MAX_HEAD_BYTES, MAX_HEADERS};
use super::idle::Idle;
use super::linger::linger;
use super::presence::{Presence, Progress};
use super::race::{First, race};
use super::refusal::Refuse;
use super::times::Times;
use crate::admission::{Admission, Place};

/// Clients beyond the limit that are told so at a time, and how long that may take.
const MAX_REFUSED: usize = 64;
const REFUSAL: Duration = Duration::from_secs(5);
/// How long the loop rests when the system cannot accept.
const REST: Duration = Duration::from_millis(50);

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
    /// Answers what is no request.
    pub refuse: Refuse,
}

/// Accepts connections until the door is shut, and answers their requests with `answer`.
pub async fn accept<F>(
    listener: TcpListener,
    mut door: Door,
    answer: impl Fn(Request<Incoming>, Connection) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Reply> + Send + 'static,
{
    let refusals = Admission::new(MAX_REFUSED);
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
            (None, Ok(_)) => refuse(socket, &door, refusals.enter()),
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
    let Door { times, mut stop, refuse, .. } = door;
    // It only costs latency.
    let _ = socket.set_nodelay(true);
    let socket = Idle::new(socket, times.idle, refuse.clone(), Arc::clone(&connection.place));
    let (line, progress) = (socket.line(), Progress::default());
    let service = service_fn(|request: Request<Incoming>| {
        progress.ask(request.version());
        let answered = answer(request, connection.clone());
        async {
            let reply = answered.await;
            progress.answer();
            if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
                line.gate().open();
            }
            Ok::<_, Infallible>(reply)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(times.header);
    // The largest head fits, with a byte to spare: hyper takes a full buffer for one that is too large.
    builder.max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD_BYTES + 1).half_close(true);
    let presence = Presence { line: Arc::clone(&line), progress: &progress, times };
    let mut lost = pin!(presence.lost());
    let mut serving = Box::pin(builder.serve_connection(TokioIo::new(socket), service).with_upgrades());
    let served = race(race(serving.as_mut(), lost.as_mut()), shut(&mut stop));
    let ended = match timeout(times.total, served).await {
        Ok(First::A(ended)) => Ok(ended),
        Ok(First::B(())) => {
            serving.as_mut().graceful_shutdown();
            timeout(times.total, race(serving.as_mut(), lost)).await
        }
        Err(late) => Err(late),
    };
    // Whoever leaves or takes too long is not waited for, and hyper itself ends what it has answered.
    let Ok(First::A(Err(error))) = ended else { return };
    if error.is_parse() {
        // hyper refused what the gate let through, and has told the client.
        refuse.bytes(&Failure::invalid("broken_request", "the request is not HTTP/1.1"));
    }
    if error.is_user() {
        // An answer was cut off. The server's half ends with this.
        drop(serving);
        linger(&line).await;
    }
}

/// Waits until the door is shut, also because the server is gone.
async fn shut(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Tells a client that there are too many connections. Without a place to wait for it, the client gets the
/// answer only if it has sent nothing that is lost with the connection.
fn refuse(socket: TcpStream, door: &Door, place: Option<Place>) {
    let failure = Failure::busy("connections", "too many connections").and_close();
    let Some(place) = place else {
        // A client that does not read it sees the connection close.
        let _ = socket.try_write(&door.refuse.bytes(&failure));
        return;
    };
    let mut socket = Idle::new(socket, REFUSAL, door.refuse.clone(), Arc::new(place));
    socket.line().gate().refuse(failure);
    tokio::spawn(async move {
        // Nobody is left to be told.
        let _ = timeout(REFUSAL, socket.shutdown()).await;
    });
}
