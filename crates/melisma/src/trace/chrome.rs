//! Writes the Chrome trace event format (JSON object form) for Perfetto: complete events in
//! microseconds, threads named by metadata, devices as extra threads after the real ones.

use std::io::{self, Write};

use serde_json::json;

use super::Collector;

/// Device numbers start here, above any thread number.
const FIRST_DEVICE: u64 = 1_000_000_000;

impl Collector {
    /// Writes everything collected so far.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_chrome(&self, out: &mut dyn Write) -> io::Result<()> {
        self.look_at_devices();
        let process = std::process::id();
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        write!(out, "{}", named(process, 0, "process_name", "melisma"))?;
        let mut written = Ok(());
        self.each_shard(|shard| {
            let names = shard.threads.iter().map(|(thread, name)| named(process, *thread, "thread_name", name));
            let calls = shard.events.iter().map(|event| {
                json!({
                    "name": event.name, "ph": "X", "pid": process, "tid": event.thread,
                    "ts": event.start as f64 / 1e3, "dur": event.elapsed as f64 / 1e3, "args": event.args,
                })
            });
            for line in names.chain(calls) {
                if written.is_ok() {
                    written = write!(out, ",\n{line}");
                }
            }
        });
        written?;
        self.write_lanes(process, out)?;
        write!(out, "\n],\"otherData\":{}}}\n", json!({ "dropped_spans": self.dropped() }))
    }

    fn write_lanes(&self, process: u32, out: &mut dyn Write) -> io::Result<()> {
        for ((device, spans), lane) in self.0.lanes.lock().iter().zip(FIRST_DEVICE..) {
            write!(out, ",\n{}", named(process, lane, "thread_name", device))?;
            for span in spans {
                let event = json!({
                    "name": span.name, "ph": "X", "pid": process, "tid": lane,
                    "ts": span.start as f64 / 1e3, "dur": span.elapsed as f64 / 1e3, "args": { "bytes": span.bytes },
                });
                write!(out, ",\n{event}")?;
            }
        }
        Ok(())
    }
}

fn named(process: u32, thread: u64, what: &str, name: &str) -> serde_json::Value {
    json!({ "name": what, "ph": "M", "pid": process, "tid": thread, "args": { "name": name } })
}
