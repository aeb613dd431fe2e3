//! SIGINT and SIGTERM: keep what the command says is worth keeping, write the trace, remove partial files, end with
//! 128 + the signal.

use std::sync::{Mutex, PoisonError};

use melisma::runtime::output;
use melisma::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::session::Trace;
use crate::terminal;

/// Keeps what is complete and says where it is; nothing where there is nothing to keep.
type Keep = Box<dyn FnOnce() -> Option<String> + Send>;

static KEEP: Mutex<Option<Keep>> = Mutex::new(None);

/// Calls `keep` when the process is interrupted.
pub fn keep_with(keep: impl FnOnce() -> Option<String> + Send + 'static) {
    *KEEP.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(keep));
}

/// Starts a thread that waits for the signals.
pub fn watch(trace: Trace) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| Error::io("signal handlers", error))?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            if let Err(error) = trace.write() {
                terminal::say(&format!("error: {error}"));
            }
            end(128 + signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Error::io("the thread that waits for signals", error))
}

fn end(code: i32) -> ! {
    let keep = KEEP.lock().unwrap_or_else(PoisonError::into_inner).take();
    let kept = keep.and_then(|keep| keep());
    output::remove_partials();
    let message = kept.map_or_else(|| "interrupted".to_owned(), |kept| format!("interrupted; {kept}"));
    terminal::say(&message);
    let code_byte = u8::try_from(code).unwrap_or(u8::MAX);
    Failure { kind: "interrupted", message: &message, hint: None, code: code_byte }.give();
    std::process::exit(code);
}
