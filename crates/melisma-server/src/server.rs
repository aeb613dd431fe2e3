//! The server from the bound port to the last answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use melisma::runtime::thread;
use melisma::{Error, Remedy, Result};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::app::{App, Decoder, Listen, Settings};
use crate::http::accept::{AcceptOptions, accept, stopped};
use crate::http::responder::RefusalResponder;
use crate::live::SynthPool;
use crate::log::Level;
use crate::metrics::Metrics;
use crate::stopper::Stopper;
use crate::upstream::Upstream;
use crate::{route, upstream};

/// From the last connection that a server accepts at a shared socket to the end of its idle connections: what it has
/// accepted by then is answered, because nobody else can.
const HANDOVER: Duration = Duration::from_secs(1);
/// How often a draining server looks whether its connections have ended.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// A bound server that does not answer yet.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    /// Whether other servers may accept connections at the same socket.
    is_shared: bool,
    address: SocketAddr,
    app: Arc<App>,
    drain: watch::Sender<bool>,
    threads: usize,
}

impl Server {
    /// Binds the port, or takes the socket.
    ///
    /// # Errors
    /// The address is in use, or it is not a loopback address and no key is set.
    pub fn bind(mut settings: Settings) -> Result<Self> {
        let threads = settings.threads;
        // One more for work that blocks. Without its threads the runtime panics.
        thread::probe(threads.max(1) + 1)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads.max(1)).enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("the server's threads", error))?;
        let address = match &settings.listen {
            Listen::Address(address) => *address,
            Listen::Socket(socket) => {
                socket.local_addr().map_err(|error| Error::io("the socket to listen at", error))?
            }
        };
        if !address.ip().is_loopback() && settings.guard.keys.count() == 0 {
            return Err(Error::invalid(format!(
                "{address}: other machines can reach this address, so the server needs a key"
            ))
            .with_hint(Remedy::GiveKey)
            .or_hint("use 127.0.0.1"));
        }
        let failed = |error| {
            Error::io(format!("the address {address}"), error).with_hint("choose another port; 0 takes a free one")
        };
        let (listener, is_shared) = match std::mem::replace(&mut settings.listen, Listen::Address(address)) {
            Listen::Address(address) => (runtime.block_on(TcpListener::bind(address)).map_err(failed)?, false),
            Listen::Socket(socket) => {
                let _inside = runtime.enter();
                socket.set_nonblocking(true).map_err(failed)?;
                (TcpListener::from_std(socket).map_err(failed)?, true)
            }
        };
        let address = listener.local_addr().map_err(failed)?;
        let (drain, draining) = watch::channel(false);
        let app = Arc::new(App::new(settings, draining));
        app.log.start(&app.metrics)?;
        Ok(Self { runtime, listener, is_shared, address, app, drain, threads })
    }

    /// Returns the address that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.app.metrics)
    }

    /// Returns the language model behind speech.
    pub fn upstream(&self) -> Option<Arc<Upstream>> {
        self.app.upstream.clone()
    }

    /// Tells from another thread whether streams are accepted.
    pub fn readiness(&self) -> impl Fn() -> bool + Send + 'static {
        let app = Arc::clone(&self.app);
        move || app.decoder.get().is_some()
    }

    /// Answers requests until the server has drained. `load` makes the decoder meanwhile, and gives up if the stopper says
    /// so; until the decoder is there, `/ready` says so and streams are refused. At a shared socket connections wait
    /// instead, for this server or another one.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn run(self, load: impl FnOnce(&Arc<Metrics>, &Stopper) -> Result<Decoder>) -> Result<()> {
        let Self { runtime, listener, is_shared, app, drain, threads, .. } = self;
        let shared = Arc::clone(&app);
        let refuse = RefusalResponder::new(move |failure, client| route::refuse(&shared, failure, client));
        let (admission, timeouts) = (app.connections.clone(), app.limits.timeouts);
        let stop = app.stopper.subscribe();
        let options = AcceptOptions { admission, timeouts, stop: stop.clone(), drain: app.stop.clone(), refuse };
        runtime.spawn(drain_after(stop, if is_shared { HANDOVER } else { Duration::ZERO }, drain));
        let shared = Arc::clone(&app);
        let answer = move |request, connection| route::answer(Arc::clone(&shared), request, connection);
        let mut accepting = Some(accept(listener, options, answer));
        let early = accepting.take_if(|_| !is_shared).map(|accepting| runtime.spawn(accepting));
        if let Some(upstream) = &app.upstream {
            runtime.spawn(upstream::watch(Arc::clone(upstream), app.log.clone()));
        }
        let prepared = prepare(&app, threads, load);
        let accepting = early.or_else(|| accepting.filter(|_| prepared.is_ok()).map(|late| runtime.spawn(late)));
        if let (Ok(()), Some(accepting)) = (&prepared, accepting) {
            runtime.block_on(async {
                // It ends when the server drains, and never panics.
                let _ = accepting.await;
                while app.connections.in_use() > 0 {
                    sleep(DRAIN_POLL).await;
                }
            });
        }
        app.log.flush();
        prepared
    }
}

/// Ends the connections some time after the server stopped to accept new ones.
async fn drain_after(mut stop: watch::Receiver<bool>, time: Duration, drain: watch::Sender<bool>) {
    stopped(&mut stop).await;
    sleep(time).await;
    drain.send_replace(true);
}

/// Measures the capacity of the server and loads its model. If the server is asked to stop, this ends early.
fn prepare(app: &App, threads: usize, load: impl FnOnce(&Arc<Metrics>, &Stopper) -> Result<Decoder>) -> Result<()> {
    let stopper = &app.stopper;
    if stopper.is_draining() {
        return Ok(());
    }
    // These are the only calls of `set`.
    let _ = app.synth_pool.set(SynthPool::start(threads, app.limits.listeners)?);
    let decoder = match load(&app.metrics, stopper) {
        Err(_) if stopper.is_draining() => return Ok(()),
        loaded => loaded?,
    };
    let ready = format!("ready on {}: {}", decoder.device, decoder.batcher.capacity());
    stopper.unless_draining(|| app.log.line(Level::Info, &ready));
    let _ = app.decoder.set(decoder);
    Ok(())
}
