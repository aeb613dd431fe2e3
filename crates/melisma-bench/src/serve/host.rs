//! A server in a process of its own, on a free port of the loopback address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use melisma::ErrorKind;
use melisma::lock::Mutex;
use melisma::runtime::machine::resident_bytes_of;
use serde_json::Value;

use super::{BenchContext, Device, Error, Result, Row};

/// How long it may take to load and measure a model, and to compile its kernels on a GPU.
const READY: Duration = Duration::from_secs(300);
/// The unit of times in `/proc`, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;
const POLL: Duration = Duration::from_millis(20);
/// Settings of a user's own server.
const FOREIGN: [&str; 10] = [
    "MELISMA_API_KEY",
    "MELISMA_API_KEY_FILE",
    "MELISMA_HOST",
    "MELISMA_MAX_STREAMS",
    "MELISMA_SERVE_QUEUE",
    "MELISMA_SERVE_SPEAKERS",
    "MELISMA_SERVE_STREAMS",
    "MELISMA_UPSTREAM",
    "MELISMA_UPSTREAM_KEY_FILE",
    "MELISMA_VOICE_MODEL",
];

/// A running server, ended on drop.
pub(super) struct Host {
    child: Child,
    pub(super) address: SocketAddr,
    /// The newest line that it wrote.
    said: Arc<Mutex<String>>,
}

impl Host {
    /// Starts a server of `model` on the device to measure, and waits until it is ready. It has no queue, so that
    /// clients are served or refused at once.
    pub(super) fn start(context: BenchContext<'_>, model: &str) -> Result<Self> {
        Self::launch(context, &["--model", model, "--queue", "0s"])
    }

    /// Works like [`Host::start`], with the language model at `upstream`.
    pub(super) fn speaking(context: BenchContext<'_>, model: &str, upstream: &str) -> Result<Self> {
        Self::launch(context, &["--model", model, "--queue", "0s", "--upstream", upstream])
    }

    /// Works like [`Host::speaking`], with a queue of `queue_s` seconds.
    pub(super) fn queueing(context: BenchContext<'_>, model: &str, upstream: &str, queue_s: u64) -> Result<Self> {
        Self::launch(context, &["--model", model, "--queue", &format!("{queue_s}s"), "--upstream", upstream])
    }

    fn launch(context: BenchContext<'_>, args: &[&str]) -> Result<Self> {
        let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
        let mut command = Command::new(&program);
        // The rows are those of a server of tokens, whatever voice the program has.
        command
            .args(["serve", "--voice-model", "none", "--port", "0", "--device", &context.device.to_string()])
            .args(args);
        if let Device::Cpu(cpu) = context.device {
            command.args(["--threads", &cpu.threads.to_string()]);
        }
        for name in FOREIGN {
            command.env_remove(name);
        }
        // A quiet server does not say its address.
        command.env("MELISMA_QUIET", "false");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Error::io(program.display(), error))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or_else(|| failed("its stderr is closed"))?);
        let mut first = String::new();
        // An error is an empty line, which is not an address.
        let _ = lines.read_line(&mut first);
        let address = first.trim().strip_prefix("http://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(first.trim()));
        };
        let said = Arc::new(Mutex::new(first));
        drain(lines, Arc::clone(&said));
        let mut host = Self { child, address, said };
        host.wait()?;
        Ok(host)
    }

    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            if self.get("/ready").is_ok_and(|(status, _)| status == 200) {
                return Ok(());
            }
            if start.elapsed() > READY || !matches!(self.child.try_wait(), Ok(None)) {
                return Err(failed(&self.said.lock()));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns the streams that it admits.
    pub(super) fn capacity(&self) -> Result<usize> {
        let (_, status) = self.get("/v1/status")?;
        let n_streams = status["capacity_streams"].as_u64();
        n_streams.map(|n| n as usize).ok_or_else(|| failed("the status has no capacity"))
    }

    /// Returns its report of how it measured the streams that it keeps up with.
    pub(super) fn measured(&self) -> Result<Value> {
        Ok(self.get("/v1/status")?.1["capacity"].take())
    }

    /// Returns its physical memory at this moment.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        resident_bytes_of(self.child.id()).ok_or_else(|| Error::unsupported("this system does not tell memory"))
    }

    /// Does `work` and returns how busy the server was meanwhile; 100 % is one core.
    pub(super) fn watched<T>(&self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<(T, Row)> {
        let (before, start) = (self.cpu_seconds()?, Instant::now());
        let done = work()?;
        let busy = (self.cpu_seconds()? - before) / start.elapsed().as_secs_f64();
        Ok((done, Row::single(format!("{name}, the server"), "% busy", 100.0 * busy)))
    }

    fn cpu_seconds(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        cpu_seconds(&text).ok_or_else(|| Error::unsupported("this system does not tell CPU times"))
    }

    fn get(&self, path: &str) -> Result<(u16, Value)> {
        let lost = |error| Error::io("the server", error);
        let mut stream = TcpStream::connect(self.address).map_err(lost)?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).map_err(lost)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(lost)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| failed("half an answer"))?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok((status, serde_json::from_str(body).unwrap_or_default()))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns user and system time in the text of `/proc/ID/stat`. The name before them may contain
/// spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// Reads what the server writes, so that it never waits for its log.
fn drain(lines: BufReader<ChildStderr>, said: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in lines.lines().map_while(std::result::Result::ok) {
            *said.lock() = line;
        }
    });
}

fn failed(reason: &str) -> Error {
    Error::new(ErrorKind::Check, format!("the server failed: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_follow_a_name_with_any_characters() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194304 5 0 0 0 250 50 0 0 20 0 3 0 99";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("42 (a) S 1"), None);
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(cpu_seconds(&own).is_some());
    }
}
