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

use crate::app::{App, Decoder, Settings};
use crate::http::accept::{AcceptOptions, accept};
use crate::http::responder::RefusalResponder;
use crate::key;
use crate::live::SynthPool;
use crate::metrics::Metrics;
use crate::route;

/// How often a draining server looks whether its connections have ended.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// A bound server that does not answer yet.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    stop: Stopper,
    threads: usize,
}

/// Makes a server drain: it refuses new requests, finishes the open ones and ends.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: Arc<watch::Sender<bool>>,
}

impl Stopper {
    /// Starts to drain.
    pub fn drain(&self) {
        self.stop.send_replace(true);
    }
}

impl Server {
    /// Binds the port.
    ///
    /// # Errors
    /// The address is in use, the key is invalid, or the address is not a loopback address and the key is missing.
    pub fn bind(mut settings: Settings) -> Result<Self> {
        let Settings { address, threads, .. } = settings;
        settings.guard.key = settings.guard.key.map(|key| key::check("the API key", &key)).transpose()?;
        if !address.ip().is_loopback() && settings.guard.key.is_none() {
            return Err(Error::invalid(format!(
                "{address}: other machines can reach this address, so the server needs a key"
            ))
            .with_hint(Remedy::GiveKey)
            .or_hint("use 127.0.0.1"));
        }
        let failed = |error| Error::io(format!("the address {address}"), error).with_hint("choose another port");
        // One more for work that blocks. Without its threads the runtime panics.
        thread::probe(threads.max(1) + 1)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads.max(1)).enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("the server's threads", error))?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let app = Arc::new(App::new(settings, stopped));
        app.log.start(&app.metrics)?;
        Ok(Self { runtime, listener, address, app, stop: Stopper { stop: Arc::new(stop) }, threads })
    }

    /// Returns the address that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Tells from another thread whether streams are accepted.
    pub fn readiness(&self) -> impl Fn() -> bool + Send + 'static {
        let app = Arc::clone(&self.app);
        move || app.decoder.get().is_some()
    }

    /// Answers requests until the server has drained. `load` makes the decoder meanwhile; until it is
    /// there, `/ready` says so and streams are refused.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn run(self, load: impl FnOnce(&Arc<Metrics>) -> Result<Decoder>) -> Result<()> {
        let Self { runtime, listener, app, stop, threads, .. } = self;
        let shared = Arc::clone(&app);
        let refuse = RefusalResponder::new(move |failure| route::refuse(&shared, failure));
        let (admission, timeouts) = (app.connections.clone(), app.limits.timeouts);
        let options = AcceptOptions { admission, timeouts, stop: app.stop.clone(), refuse };
        let shared = Arc::clone(&app);
        let answer = move |request, connection| route::answer(Arc::clone(&shared), request, connection);
        let accepting = runtime.spawn(accept(listener, options, answer));
        let prepared = prepare(&app, threads, load);
        match prepared {
            Err(_) => stop.drain(),
            Ok(()) => runtime.block_on(async {
                // It ends when the server drains, and never panics.
                let _ = accepting.await;
                while app.connections.in_use() > 0 {
                    sleep(DRAIN_POLL).await;
                }
            }),
        }
        app.log.flush();
        prepared
    }
}

/// Measures the capacity of the server and loads its model.
fn prepare(app: &App, threads: usize, load: impl FnOnce(&Arc<Metrics>) -> Result<Decoder>) -> Result<()> {
    // These are the only calls of `set`.
    let _ = app.synth_pool.set(SynthPool::start(threads, app.limits.listeners)?);
    let _ = app.decoder.set(load(&app.metrics)?);
    Ok(())
}
