//! Facts about the machine, read from the operating system.

use std::fs::read_to_string;
use std::net::TcpListener;
use std::path::Path;

use serde::Serialize;

use crate::{Error, Result};

/// The machine's description in `doctor` and benchmark records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Machine {
    /// The operating system.
    pub os: String,
    /// The instruction set architecture.
    pub arch: String,
    /// The processor's product name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Vector extensions of the processor.
    pub features: Vec<String>,
    /// RAM in bytes.
    pub memory_bytes: Option<u64>,
    /// RAM in bytes that is free or reclaimable.
    pub available_bytes: Option<u64>,
    /// The memory limit of this process's control group, in bytes.
    pub control_group_limit_bytes: Option<u64>,
}

impl Machine {
    /// Reads the facts.
    pub fn detect() -> Self {
        let memory = read_to_string("/proc/meminfo").unwrap_or_default();
        let limit = read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
        Self {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu: cpu_model(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
            memory_bytes: kibibytes(&memory, "MemTotal"),
            available_bytes: kibibytes(&memory, "MemAvailable"),
            control_group_limit_bytes: limit.trim().parse().ok(),
        }
    }
}

/// Returns RAM in bytes.
pub fn memory_bytes() -> Option<u64> {
    kibibytes(&read_to_string("/proc/meminfo").ok()?, "MemTotal")
}

/// Returns the memory in bytes that is available to a new process, given the system's free memory,
/// the limit of this process's control group, and its limit on address space (`ulimit -v`).
pub fn free_bytes() -> Option<u64> {
    let text = |path: &str| read_to_string(path).unwrap_or_default();
    let available = kibibytes(&text("/proc/meminfo"), "MemAvailable");
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let left = number(&text("/sys/fs/cgroup/memory.max")).and_then(|limit| {
        let used = number(&text("/sys/fs/cgroup/memory.current"))?;
        let cached = cached(&text("/sys/fs/cgroup/memory.stat")).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(cached)))
    });
    let addresses = address_space(&text("/proc/self/limits"))
        .map(|limit| limit.saturating_sub(kibibytes(&text("/proc/self/status"), "VmSize").unwrap_or(0)));
    [available, left, addresses].into_iter().flatten().min()
}

/// Returns the address space limit in the text of `/proc/self/limits`, if there is one.
fn address_space(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the reclaimable file pages of a control group, from its statistics.
fn cached(statistics: &str) -> Option<u64> {
    statistics.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
}

/// Returns the peak physical memory in bytes of the running process `id`.
pub fn peak_resident_bytes_of(id: u32) -> Option<u64> {
    kibibytes(&read_to_string(format!("/proc/{id}/status")).ok()?, "VmHWM")
}

/// Returns the physical memory in bytes of the running process `id`.
pub fn resident_bytes_of(id: u32) -> Option<u64> {
    kibibytes(&read_to_string(format!("/proc/{id}/status")).ok()?, "VmRSS")
}

/// Lets this process open as many files and connections as the system allows.
///
/// # Errors
/// The system denies the request.
pub fn raise_file_limit() -> Result<()> {
    melisma_kernels::process::raise_file_limit().map_err(|error| Error::io("the limit on open files", error))
}

/// Takes the socket that a service manager opened for this process (`LISTEN_FDS`), if there is one.
///
/// # Errors
/// It is not one socket that listens for TCP connections, or it was taken before.
pub fn passed_listener() -> Result<Option<TcpListener>> {
    melisma_kernels::process::passed_listener().map_err(|error| {
        let hint = "write one `ListenStream=` with a port into the socket's unit";
        Error::io("the service manager's socket (LISTEN_FDS)", error).with_hint(hint)
    })
}

/// Limits this process to `bytes` of private memory; an allocation beyond the limit aborts the
/// process.
///
/// # Errors
/// The system denies the request.
pub fn limit_memory(bytes: u64) -> Result<()> {
    melisma_kernels::process::limit_memory(bytes).map_err(|error| Error::io("the memory limit", error))
}

/// Returns the processor's product name, or the architecture if the name is unknown.
pub fn cpu_model() -> String {
    let text = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    value("model name").or_else(|| value("Model")).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Returns the physical memory of this process in bytes.
pub fn resident_bytes() -> Option<u64> {
    kibibytes(&read_to_string("/proc/self/status").ok()?, "VmRSS")
}

/// Returns the peak physical memory of this process in bytes.
pub fn peak_resident_bytes() -> Option<u64> {
    kibibytes(&read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// Returns the number and total size of the files below `directory`; zeros if it does not exist.
pub fn disk_use(directory: impl AsRef<Path>) -> (u64, u64) {
    let directory = directory.as_ref();
    let Ok(entries) = std::fs::read_dir(directory) else { return (0, 0) };
    entries.flatten().fold((0, 0), |(files, bytes), entry| match entry.metadata() {
        Ok(data) if data.is_dir() => {
            let below = disk_use(entry.path());
            (files + below.0, bytes + below.1)
        }
        Ok(data) if data.is_file() => (files + 1, bytes + data.len()),
        _ => (files, bytes),
    })
}

/// Returns the value of a line `key:  123 kB`, in bytes.
fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<String> {
    macro_rules! detected {
        ($($name:tt),+) => { [$(($name, std::arch::is_x86_feature_detected!($name))),+] };
    }
    let all = detected!(
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
        "avx512fp16"
    );
    all.iter().filter(|(_, present)| *present).map(|(name, _)| (*name).to_owned()).collect()
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<String> {
    macro_rules! detected {
        ($($name:tt),+) => { [$(($name, std::arch::is_aarch64_feature_detected!($name))),+] };
    }
    let all = detected!("neon", "fp16", "dotprod", "bf16", "i8mm", "sve");
    all.iter().filter(|(_, present)| *present).map(|(name, _)| (*name).to_owned()).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<String> {
    Vec::new()
}

/// Returns whether stdout was open when the process started. In the place of a closed one is
/// `/dev/null`.
pub fn had_stdout() -> bool {
    melisma_kernels::process::had_stdout()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_proc_files() {
        let text = "MemTotal:       16303912 kB\nMemFree:  1 kB\nOdd: x kB\n";
        assert_eq!(kibibytes(text, "MemTotal"), Some(16_303_912 * 1024));
        assert_eq!(kibibytes(text, "Mem"), None);
        assert_eq!(kibibytes(text, "Odd"), None);
    }

    #[test]
    fn free_memory_is_some_of_it() {
        let machine = Machine::detect();
        assert!(free_bytes() <= machine.memory_bytes, "{:?}", free_bytes());
        assert_eq!(cached("anon 5\ninactive_file 4096\n"), Some(4096));
        assert!(peak_resident_bytes_of(std::process::id()) >= Some(1 << 20) || machine.memory_bytes.is_none());
    }

    #[test]
    fn counts_files_below_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        std::fs::write(directory.path().join("a/one"), [0; 10]).unwrap();
        std::fs::write(directory.path().join("two"), [0; 5]).unwrap();
        assert_eq!(disk_use(directory.path()), (2, 15));
        assert_eq!(disk_use(directory.path().join("none")), (0, 0));
    }

    #[test]
    fn a_limit_on_address_space_is_read() {
        let limits = |value| {
            format!("Limit   Soft Limit   Hard Limit   Units\nMax address space         {value}   unlimited   bytes\n")
        };
        assert_eq!(address_space(&limits("6144000000")), Some(6_144_000_000));
        assert_eq!(address_space(&limits("unlimited")), None);
    }
}
