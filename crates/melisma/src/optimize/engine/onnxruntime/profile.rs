//! Where the time goes, operator by operator, as ONNX Runtime itself tells.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::super::{Operator, Options, Port};
use super::{failed, flags, given, profiling};
use crate::optimize::onnx::Model;
use crate::optimize::value::Value;
use crate::{Error, Result};

#[derive(Deserialize)]
struct Event {
    cat: String,
    name: String,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: BTreeMap<String, serde_json::Value>,
}

/// Seconds and calls of each operator in one run on the CPU. `folder` is for a file that the library writes.
///
/// # Errors
/// The library is not there or fails.
pub fn operators(model: &Model, options: &Options, inputs: &[Value], folder: &Path) -> Result<Vec<Operator>> {
    const RUNS: u64 = 3;
    let mut session = profiling(model, options, folder)?;
    let ports = Port::inputs(model)?;
    let truths: Vec<Vec<bool>> = inputs.iter().map(flags).collect();
    for _ in 0..RUNS {
        let named = ports.iter().zip(inputs).zip(&truths);
        let named = named.map(|((port, value), flags)| Ok((port.name.as_str(), given(value, flags)?)));
        session.run(named.collect::<Result<Vec<_>>>()?).map_err(|error| failed(&error))?;
    }
    let file = session.end_profiling().map_err(|error| failed(&error))?;
    let text = std::fs::read(&file).map_err(|error| Error::io(&file, error));
    let _ = std::fs::remove_file(&file);
    let events: Vec<Event> = serde_json::from_slice(&text?).map_err(|error| Error::device(error.to_string()))?;
    let mut operators: BTreeMap<String, (f64, u64)> = BTreeMap::new();
    for event in events.iter().filter(|event| event.cat == "Node" && event.name.ends_with("_kernel_time")) {
        let operator = event.args.get("op_name").and_then(|name| name.as_str()).unwrap_or("?");
        let total = operators.entry(operator.to_owned()).or_default();
        *total = (total.0 + event.dur * 1e-6, total.1 + 1);
    }
    let row = |(name, (seconds, calls)): (String, (f64, u64))| Operator {
        name,
        seconds: seconds / RUNS as f64,
        calls: calls / RUNS,
    };
    Ok(operators.into_iter().map(row).collect())
}
