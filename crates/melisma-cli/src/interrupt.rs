//! SIGINT, SIGTERM and SIGHUP: save what the command wants to keep, write the trace, remove partial
//! files, and exit with 128 + the signal number.

use std::sync::{Mutex, PoisonError};

use melisma::output;
use melisma::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::terminal;
use crate::trace_file::TraceFile;

/// Saves what is complete and says where it is, or returns `None` if there is nothing to save.
type Keep = Box<dyn FnOnce() -> Option<String> + Send>;

/// Lets a command finish its work.
type Drain = Box<dyn FnOnce() + Send>;

static KEEP: Mutex<Option<Keep>> = Mutex::new(None);
static DRAIN: Mutex<Option<Drain>> = Mutex::new(None);

/// Calls `keep` when the process is interrupted.
pub fn keep_with(keep: impl FnOnce() -> Option<String> + Send + 'static) {
    *KEEP.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(keep));
}

/// Calls `drain` at the first signal; only the second interrupts the process, or a SIGHUP.
pub fn drain_with(drain: impl FnOnce() + Send + 'static) {
    *DRAIN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(drain));
}

/// Starts a thread that waits for the signals.
pub fn watch(trace: TraceFile) -> Result<()> {
    let hangup = (!ignores_hangup()).then_some(SIGHUP);
    let watched = [SIGINT, SIGTERM].into_iter().chain(hangup);
    let mut signals = Signals::new(watched).map_err(|error| Error::io("signal handlers", error))?;
    let wait = move || {
        for signal in signals.forever() {
            let drain = DRAIN.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(drain) = drain.filter(|_| signal != SIGHUP) {
                drain();
                continue;
            }
            if let Err(error) = trace.write() {
                terminal::say(&format!("error: {error}"));
            }
            end(128 + signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Error::io("the thread that waits for signals", error))
}

/// Whether the parent process ignores SIGHUP, as `nohup` does, so that the process outlives the
/// terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
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
