//! The accept loop: connections within limits of number and time.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::body::Reply;
use super::disconnect::{DisconnectProbe, Progress};
use super::failure::Failure;
use super::gate::{MAX_HEAD_BYTES, MAX_HEADERS};
use super::linger::linger;
use super::race::{First, race};
use super::responder::RefusalResponder;
use super::socket::Socket;
use super::timeouts::ConnectionTimeouts;
use crate::admission::{Admission, Permit};

/// Most clients that are told at one time that there are too many, and the time limit for that.
const MAX_REFUSED: usize = 64;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed `accept`.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The connection of a request.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The server's address, as the client sees it.
    pub local: SocketAddr,
    /// The address of the client.
    pub client: IpAddr,
    /// Counts the connection against the limit until it is dropped.
    pub permit: Arc<Permit>,
}

/// Options that all connections share.
#[derive(Debug, Clone)]
pub struct AcceptOptions {
    /// Limits the number of connections.
    pub admission: Admission,
    /// Time limits of each connection.
    pub timeouts: ConnectionTimeouts,
    /// Becomes true when no further connection is accepted.
    pub stop: watch::Receiver<bool>,
    /// Becomes true when connections end after their current request.
    pub drain: watch::Receiver<bool>,
    /// Answers clients whose bytes are not a valid request.
    pub refuse: RefusalResponder,
}

/// Accepts connections until `stop` is true, and answers their requests with `answer`.
pub async fn accept<F>(
    listener: TcpListener,
    mut options: AcceptOptions,
    answer: impl Fn(Request<Incoming>, Connection) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Reply> + Send + 'static,
{
    let refusals = Admission::new(MAX_REFUSED);
    loop {
        let (socket, client) = match race(stopped(&mut options.stop), listener.accept()).await {
            First::A(()) => return,
            First::B(Ok((socket, client))) => (socket, client.ip()),
            First::B(Err(_)) => {
                sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let options = AcceptOptions { refuse: options.refuse.to(client), ..options.clone() };
        match (options.admission.try_acquire(), socket.local_addr()) {
            (Some(permit), Ok(local)) => {
                let connection = Connection { local, client, permit: Arc::new(permit) };
                tokio::spawn(serve(socket, connection, options, answer.clone()));
            }
            (None, Ok(_)) => refuse(socket, &options, refusals.try_acquire()),
            (_, Err(_)) => {}
        }
    }
}

/// Answers the requests of one connection.
async fn serve<F: Future<Output = Reply>>(
    socket: TcpStream,
    connection: Connection,
    options: AcceptOptions,
    answer: impl Fn(Request<Incoming>, Connection) -> F,
) {
    let AcceptOptions { timeouts, stop, mut drain, refuse, .. } = options;
    // It only costs latency.
    let _ = socket.set_nodelay(true);
    let socket = Socket::new(socket, timeouts.idle, refuse.clone(), Arc::clone(&connection.permit));
    let (state, progress) = (socket.state(), Progress::default());
    let service = service_fn(|request: Request<Incoming>| {
        progress.request_arrived(request.version());
        let answered = answer(request, connection.clone());
        async {
            let mut reply = answered.await;
            progress.response_begins();
            if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
                state.gate().open();
            } else if *stop.borrow() {
                // The client's next request belongs to another server at the same socket.
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(reply)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(timeouts.header);
    // The largest head fits, with a byte to spare: hyper takes a full buffer for one that is too large.
    builder.max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD_BYTES + 1).half_close(true);
    let probe = DisconnectProbe { state: Arc::clone(&state), progress: &progress, timeouts };
    let mut disconnected = pin!(probe.disconnected());
    let mut serving = Box::pin(builder.serve_connection(TokioIo::new(socket), service).with_upgrades());
    let served = race(race(serving.as_mut(), disconnected.as_mut()), stopped(&mut drain));
    let ended = match timeout(timeouts.total, served).await {
        Ok(First::A(ended)) => Ok(ended),
        Ok(First::B(())) => {
            serving.as_mut().graceful_shutdown();
            timeout(timeouts.total, race(serving.as_mut(), disconnected)).await
        }
        Err(late) => Err(late),
    };
    // Clients that left or timed out need nothing more, and hyper ends answered connections itself.
    let Ok(First::A(Err(error))) = ended else { return };
    if error.is_parse() {
        // hyper refused a head that the gate let through, and has answered the client.
        refuse.bytes(&Failure::invalid("broken_request", "the request is not HTTP/1.1"));
    }
    if error.is_user() {
        // An answer was cut off. The server's half ends with this.
        drop(serving);
        linger(&state).await;
    }
}

/// Waits until `stop` is true or its sender is dropped.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Tells a client that there are too many connections. Without a permit the server does not linger, and a
/// client that has already sent bytes may see a reset instead of the answer.
fn refuse(socket: TcpStream, options: &AcceptOptions, permit: Option<Permit>) {
    let failure = Failure::busy("connections", "too many connections").and_close();
    let Some(permit) = permit else {
        // A client that does not read it sees the connection close.
        let _ = socket.try_write(&options.refuse.bytes(&failure));
        return;
    };
    let mut socket = Socket::new(socket, REFUSAL_TIMEOUT, options.refuse.clone(), Arc::new(permit));
    socket.state().gate().refuse(failure);
    tokio::spawn(async move {
        // The client is gone, so an error has no reader.
        let _ = timeout(REFUSAL_TIMEOUT, socket.shutdown()).await;
    });
}
