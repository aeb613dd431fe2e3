//! Reads the time per operator from the profile that ONNX Runtime writes.
//!
//! On the CPU, an operator's time is that of its kernels. GPU providers launch kernels without
//! waiting for them. If the library was built with CUPTI, the file also contains the kernels' own
//! times, and these are used instead.

use std::collections::BTreeMap;

use ort::session::Session;
use serde::Deserialize;

use super::super::Operator;
use super::failed;
use crate::{Error, Result};

#[derive(Deserialize)]
struct Event {
    cat: String,
    name: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: BTreeMap<String, serde_json::Value>,
}

/// Ends the recording and sums everything after the first `n_before` runs.
pub(super) fn read(session: &mut Session, n_before: usize) -> Result<Vec<Operator>> {
    let file = session.end_profiling().map_err(|error| failed(&error))?;
    let text = std::fs::read(&file).map_err(|error| Error::io(&file, error));
    let _ = std::fs::remove_file(&file);
    parse(&text?, n_before)
}

fn parse(text: &[u8], n_before: usize) -> Result<Vec<Operator>> {
    let events: Vec<Event> = serde_json::from_slice(text).map_err(|error| Error::device(error.to_string()))?;
    let runs = events.iter().filter(|event| event.cat == "Session" && event.name == "model_run");
    let mut starts: Vec<f64> = runs.map(|event| event.ts).collect();
    starts.sort_by(f64::total_cmp);
    let Some(&start) = starts.get(n_before) else { return Ok(Vec::new()) };
    let after = |category: &str| {
        let of = |event: &&Event| event.cat == category && event.ts >= start;
        events.iter().filter(of).collect::<Vec<_>>()
    };
    let mut nodes = after("Node");
    nodes.retain(|event| event.name.ends_with("_kernel_time"));
    let kernels = after("Kernel");
    let mut operators = sums(&nodes);
    if !kernels.is_empty() {
        for (name, (seconds, _)) in sums(&kernels) {
            operators.entry(name).or_default().0 = seconds;
        }
    }
    let row = |(name, (seconds, calls))| Operator { name, seconds, calls };
    Ok(operators.into_iter().map(row).collect())
}

/// Returns the seconds and calls by operator.
fn sums(events: &[&Event]) -> BTreeMap<String, (f64, u64)> {
    let mut operators: BTreeMap<String, (f64, u64)> = BTreeMap::new();
    for event in events {
        let operator = event.args.get("op_name").and_then(|name| name.as_str()).unwrap_or("?");
        let total = operators.entry(operator.to_owned()).or_default();
        *total = (total.0 + event.dur * 1e-6, total.1 + 1);
    }
    operators
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(cat: &str, name: &str, [ts, dur]: [u32; 2], operator: &str) -> serde_json::Value {
        serde_json::json!({ "cat": cat, "name": name, "ts": ts, "dur": dur, "args": { "op_name": operator } })
    }

    fn rows(events: &[serde_json::Value], n_before: usize) -> Vec<(String, u64, u64)> {
        let rows = parse(&serde_json::to_vec(events).unwrap(), n_before).unwrap();
        rows.into_iter().map(|row| (row.name, (row.seconds * 1e6).round() as u64, row.calls)).collect()
    }

    #[test]
    fn only_the_runs_that_were_asked_for_count() {
        let run = |at: u32| {
            [
                event("Session", "model_run", [at, 90], ""),
                event("Node", "a_kernel_time", [at, at], "Conv"),
                event("Node", "a_fence_before", [at + 1, 999], "Conv"),
                event("Node", "b_kernel_time", [at + 50, 7], "Relu"),
            ]
        };
        let events: Vec<_> = [100, 200, 300].into_iter().flat_map(run).collect();
        assert_eq!(rows(&events, 1), [("Conv".to_owned(), 500, 2), ("Relu".to_owned(), 14, 2)]);
        assert_eq!(rows(&events, 3), []);
        assert!(parse(b"[{", 0).is_err());
    }

    /// A launch takes microseconds, while its kernel can take much longer.
    #[test]
    fn the_times_of_a_gpus_kernels_replace_those_of_their_launch() {
        let events = [
            event("Session", "model_run", [0, 90], ""),
            event("Node", "a_kernel_time", [1, 3], "Conv"),
            event("Kernel", "implicit_gemm", [2, 500], "Conv"),
            event("Kernel", "reduce", [3, 100], "Conv"),
        ];
        assert_eq!(rows(&events, 0), [("Conv".to_owned(), 600, 1)]);
    }
}
