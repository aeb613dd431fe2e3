//! Computes constants in the embedded engine before a model runs.

use super::build;
use crate::engine::{Engine, Options};
use crate::format::Value;
use crate::onnx::Model;
use crate::onnx::shape::constant_bytes;

/// The output of a one-node model whose inputs are all initializers; `None` if the engine rejects
/// it, or if its output may exceed `most_bytes`.
pub fn evaluate(model: &Model, most_bytes: u64) -> Option<Value> {
    // Checked before computing: a few bytes of a model can request any amount of memory.
    constant_bytes(model).filter(|bytes| *bytes <= most_bytes)?;
    let value = build(model, &Options::default()).ok()?.run(&[]).ok()?.pop()?;
    (value.bytes().len() as u64 <= most_bytes).then_some(value)
}
