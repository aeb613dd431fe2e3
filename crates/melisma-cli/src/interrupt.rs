//! SIGINT and SIGTERM: write the trace, remove partial files, end with 128 + the signal.

use melisma::runtime::output;
use melisma::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::session::Trace;

/// Starts a thread that waits for the signals.
pub fn watch(trace: Trace) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| Error::io("signal handlers", error))?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            if let Err(error) = trace.write() {
                eprintln!("error: {error}");
            }
            output::remove_partials();
            eprintln!("interrupted");
            std::process::exit(128 + signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Error::io("the thread that waits for signals", error))
}
