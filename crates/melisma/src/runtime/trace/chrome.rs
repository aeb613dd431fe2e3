//! The Chrome trace event format (JSON object form), as Perfetto reads it: complete events in microseconds, threads
//! named by metadata, devices as threads of their own after the real ones.

use std::io::{self, Write};

use serde_json::json;

use super::collector::lock;
use super::{Collector, DeviceSpan};

/// Devices are numbered from here, above any number of threads.
const FIRST_DEVICE: u64 = 1_000_000_000;

impl Collector {
    /// Writes everything collected so far.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_chrome(&self, out: &mut dyn Write) -> io::Result<()> {
        let process = std::process::id();
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        write!(out, "{}", named(process, 0, "process_name", "melisma"))?;
        for (thread, name) in lock(&self.0.threads).iter() {
            write!(out, ",\n{}", named(process, *thread, "thread_name", name))?;
        }
        let mut written = Ok(());
        self.each_shard(|shard| {
            for event in &shard.events {
                let line = json!({
                    "name": event.name, "ph": "X", "pid": process, "tid": event.thread,
                    "ts": event.start as f64 / 1e3, "dur": event.elapsed as f64 / 1e3, "args": event.args,
                });
                if written.is_ok() {
                    written = write!(out, ",\n{line}");
                }
            }
        });
        written?;
        self.write_device_spans(process, out)?;
        write!(out, "\n],\"otherData\":{}}}\n", json!({ "dropped_spans": self.dropped() }))
    }

    fn write_device_spans(&self, process: u32, out: &mut dyn Write) -> io::Result<()> {
        let mut devices: Vec<String> = Vec::new();
        for DeviceSpan { name, device, start_seconds, seconds, bytes } in lock(&self.0.device).iter() {
            let known = devices.iter().position(|known| known == device);
            let lane = FIRST_DEVICE + known.unwrap_or(devices.len()) as u64;
            if known.is_none() {
                devices.push(device.clone());
                write!(out, ",\n{}", named(process, lane, "thread_name", device))?;
            }
            let event = json!({
                "name": name, "ph": "X", "pid": process, "tid": lane,
                "ts": start_seconds * 1e6, "dur": seconds * 1e6, "args": { "bytes": bytes },
            });
            write!(out, ",\n{event}")?;
        }
        Ok(())
    }
}

fn named(process: u32, thread: u64, what: &str, name: &str) -> serde_json::Value {
    json!({ "name": what, "ph": "M", "pid": process, "tid": thread, "args": { "name": name } })
}
