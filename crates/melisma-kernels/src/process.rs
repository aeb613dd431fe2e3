//! What the system allows this process, and what it was started with.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Makes every allocation that would exceed `bytes` of private memory fail from now on. Memory that
/// is only reserved and mapped files do not count.
///
/// # Errors
/// The system refuses.
pub fn limit_memory(bytes: u64) -> Result<()> {
    change(libc::RLIMIT_DATA, |most| most.min(bytes))
}

/// Lets this process open as many files and connections as the system allows.
///
/// # Errors
/// The system refuses.
pub fn raise_file_limit() -> Result<()> {
    change(libc::RLIMIT_NOFILE, |most| most)
}

/// Opens `path` for reading. If it is a pipe, does not wait for its writer.
///
/// # Errors
/// Those of [`File::open`].
pub fn open_without_waiting(path: &Path) -> Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// The number of the first file that a service manager passes on.
const FIRST_PASSED: libc::c_int = 3;

/// Takes the socket that a service manager opened for this process, as systemd describes it by `LISTEN_PID` and
/// `LISTEN_FDS`. Returns `None` if there is none, or if it is meant for another process.
///
/// # Errors
/// There is more than one, it was taken before, or it is not a socket that listens for TCP connections.
pub fn passed_listener() -> Result<Option<TcpListener>> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let wrong = |message: String| Error::new(ErrorKind::InvalidInput, message);
    let is_ours = std::env::var("LISTEN_PID").is_ok_and(|pid| pid.parse() == Ok(std::process::id()));
    let passed = std::env::var_os("LISTEN_FDS").filter(|_| is_ours).unwrap_or_default();
    match passed.to_str().unwrap_or("?") {
        "" | "0" => return Ok(None),
        "1" => {}
        n if n.parse::<u32>().is_ok() => return Err(wrong(format!("{n} sockets were passed on; at most one"))),
        _ => return Err(wrong("not a number".to_owned())),
    }
    let (mut is_listening, mut len) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the call writes at most `len` bytes to our own variable, and fails if the file is not a socket.
    let asked = unsafe {
        let to = (&raw mut is_listening).cast();
        libc::getsockopt(FIRST_PASSED, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, to, &raw mut len)
    };
    if asked != 0 {
        return Err(Error::last_os_error());
    }
    if is_listening == 0 {
        return Err(wrong("the socket does not listen".to_owned()));
    }
    if IS_TAKEN.swap(true, Relaxed) {
        return Err(wrong("the socket is in use".to_owned()));
    }
    // SAFETY: the call only sets a flag of an open file: no child process inherits the socket.
    if unsafe { libc::fcntl(FIRST_PASSED, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the file is an open socket, and it is this process's: the service manager opened it before the process
    // started, so nothing here owns it, and `IS_TAKEN` lets it be taken only once.
    let listener = unsafe { TcpListener::from_raw_fd(FIRST_PASSED) };
    // A socket of another family has no such address.
    listener.local_addr()?;
    Ok(Some(listener))
}

static HAD_STDOUT: AtomicBool = AtomicBool::new(true);

/// Returns whether stdout was open when the process started. Rust's runtime puts `/dev/null` in the place of a closed
/// one, which would take everything without an error.
pub fn had_stdout() -> bool {
    HAD_STDOUT.load(Relaxed)
}

#[cfg(all(target_os = "linux", not(miri)))]
extern "C" fn look_at_stdout() {
    // SAFETY: the call only looks up a number.
    let is_open = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
    HAD_STDOUT.store(is_open, Relaxed);
}

// SAFETY: the section holds functions without arguments that the loader calls before `main`, and so
// before the runtime. This one needs nothing of the runtime.
#[cfg(all(target_os = "linux", not(miri)))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look_at_stdout;

#[cfg(target_os = "linux")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_os = "linux"))]
type Resource = libc::c_int;

/// Sets the limit on `resource` to `choose` of the highest that is allowed.
fn change(resource: Resource, choose: impl FnOnce(u64) -> u64) -> Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours, and is written by the call.
    if unsafe { libc::getrlimit(resource, &raw mut limit) } != 0 {
        return Err(Error::last_os_error());
    }
    limit.rlim_cur = choose(limit.rlim_max);
    // SAFETY: the structure is only read.
    if unsafe { libc::setrlimit(resource, &raw const limit) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(name: &str) -> [u64; 2] {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let mut values = line.split_whitespace().map(|value| value.parse().unwrap_or(u64::MAX));
        [values.next().unwrap(), values.next().unwrap()]
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no system calls")]
    fn memory_is_limited_to_what_was_said_and_to_what_is_allowed() {
        const FAR_AWAY: u64 = 1 << 50;
        let [_, most] = limits("Max data size");
        limit_memory(FAR_AWAY).unwrap();
        assert_eq!(limits("Max data size"), [FAR_AWAY.min(most), most]);
        limit_memory(u64::MAX).unwrap();
        assert_eq!(limits("Max data size"), [most, most]);
    }
}
