//! SIGINT, SIGTERM and SIGHUP: save what the command wants to keep, write the trace, remove partial
//! files, and exit with 128 + the signal number. A server drains first, and a SIGHUP makes it read its files again.

use std::sync::Arc;
use std::time::Duration;

use melisma::lock::Mutex;
use melisma::output;
use melisma::runtime::thread;
use melisma::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::terminal;
use crate::trace_file::TraceFile;

/// Saves what is complete and says where it is, or returns `None` if there is nothing to save.
type SaveFn = Box<dyn FnOnce() -> Option<String> + Send>;

/// Asks a command to finish its work.
type DrainFn = Box<dyn FnOnce() + Send>;

/// Asks a command to read its files again.
type ReloadFn = Box<dyn Fn() + Send>;

/// Time that a server has to end after its second signal.
const END_TIMEOUT: Duration = Duration::from_secs(2);

static ON_INTERRUPT: Mutex<Option<SaveFn>> = Mutex::new(None);
static ON_FIRST_SIGNAL: Mutex<Option<DrainFn>> = Mutex::new(None);
static ON_HANGUP: Mutex<Option<ReloadFn>> = Mutex::new(None);

/// Calls `save` when the process is interrupted.
pub fn on_interrupt(save: impl FnOnce() -> Option<String> + Send + 'static) {
    *ON_INTERRUPT.lock() = Some(Box::new(save));
}

/// Calls `reload` at each SIGHUP, which then does not end the process.
pub fn on_hangup(reload: impl Fn() + Send + 'static) {
    *ON_HANGUP.lock() = Some(Box::new(reload));
}

/// Calls `drain` at the first signal; only the second interrupts the process.
pub fn on_first_signal(drain: impl FnOnce() + Send + 'static) {
    *ON_FIRST_SIGNAL.lock() = Some(Box::new(drain));
}

/// Starts a thread that waits for the signals.
pub fn watch(trace: TraceFile) -> Result<()> {
    let ignored = ignored();
    let watched = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & 1 << (signal - 1) == 0);
    let mut signals = Signals::new(watched).map_err(|error| Error::io("signal handlers", error))?;
    let wait = move || {
        let mut is_served = false;
        for signal in signals.forever() {
            if let Some(reload) = ON_HANGUP.lock().as_ref().filter(|_| signal == SIGHUP) {
                reload();
                continue;
            }
            if let Some(drain) = ON_FIRST_SIGNAL.lock().take() {
                is_served = true;
                drain();
                continue;
            }
            if is_served {
                end_at_last(128 + signal);
            }
            if let Err(error) = trace.write() {
                terminal::say(&format!("error: {error}"));
            }
            end(128 + signal);
        }
    };
    thread::start("signals", wait).map(drop)
}

/// Makes a write beyond the limit on the size of files an error instead of the end of the process.
pub fn survive_large_files() -> Result<()> {
    let handler = signal_hook::flag::register(SIGXFSZ, Arc::default());
    handler.map(drop).map_err(|error| Error::io("signal handlers", error))
}

/// Returns the signals that the parent process ignores, a bit each: a shell ignores SIGINT for jobs in the
/// background, and `nohup` SIGHUP. They stay ignored.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.unwrap_or(0)
}

/// Ends the process after [`END_TIMEOUT`], also if its output blocks.
fn end_at_last(code: i32) {
    // Without the thread, the process ends as soon as it can.
    let _ = thread::start("end", move || {
        std::thread::sleep(END_TIMEOUT);
        signal_hook::low_level::exit(code);
    });
}

fn end(code: i32) -> ! {
    let save = ON_INTERRUPT.lock().take();
    let kept = save.and_then(|save| save());
    output::remove_partials();
    let message = kept.map_or_else(|| "interrupted".to_owned(), |kept| format!("interrupted; {kept}"));
    terminal::say(&message);
    let code_byte = u8::try_from(code).unwrap_or(u8::MAX);
    Failure { kind: "interrupted", message: &message, hint: None, program_bytes: None, code: code_byte }.report();
    std::process::exit(code);
}
