//! Constants, computed by the embedded engine before a model runs.

use super::build;
use crate::engine::{Engine, Options};
use crate::format::Value;
use crate::onnx::Model;
use crate::onnx::shape::constant_bytes;

/// The output of a model of one node whose inputs are all initialisers; none where the engine does not take it, and where its
/// output is not known beforehand to have at most `most_bytes`.
pub fn evaluate(model: &Model, most_bytes: u64) -> Option<Value> {
    // Known before it is computed: a few bytes of a model can ask for any amount of memory.
    constant_bytes(model).filter(|bytes| *bytes <= most_bytes)?;
    let value = build(model, &Options::default()).ok()?.run(&[]).ok()?.pop()?;
    (value.bytes().len() as u64 <= most_bytes).then_some(value)
}
