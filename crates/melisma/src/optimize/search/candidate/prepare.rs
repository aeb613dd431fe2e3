//! Prepares the model for a candidate: fixes shapes, folds constants, converts weights to the
//! candidate's format.

use std::path::Path;

use crate::config::precision::Format;
use crate::engine::{Engine, Options, Port, rten};
use crate::format::Value;
use crate::onnx::{Model, pass};
use crate::output::{self, Existing};
use crate::runtime::memory::Budget;
use crate::{Error, ErrorKind, Result, pack};

/// The name of the model file for workers.
pub(in crate::optimize::search) const FILE: &str = "model.onnx";
/// The name of the model file in an entry, with packed weights.
pub(in crate::optimize::search) const PACKED: &str = "model.packed";

/// The parameters for preparing a model.
#[derive(Clone, Copy)]
pub(in crate::optimize::search) struct Aim<'a> {
    /// A value for each input.
    pub(in crate::optimize::search) values: &'a [Value],
    /// The largest error, relative to an output's largest value.
    pub(in crate::optimize::search) tolerance: f64,
    /// CPU threads for measuring sensitivity.
    pub(in crate::optimize::search) threads: usize,
}

/// Returns `model` with weights in `format`. In FP16, sensitive nodes stay in FP32.
pub(in crate::optimize::search) fn prepared(model: &Model, format: Format, aim: Aim<'_>) -> Result<Model> {
    let mut model = exact(model, aim.values)?;
    match format {
        Format::Fp32 => {}
        Format::Fp16 => {
            let options = Options { threads: aim.threads, ..Options::default() };
            let run = |model: &Model| rten::build(model, &options)?.run(aim.values);
            let keep = pass::keep_list(&model, aim.tolerance as f32, &run)?;
            pass::to_half(&mut model, &keep)?;
        }
        Format::Int8 => {
            if pass::to_int8(&mut model)? == 0 {
                return Err(Error::unsupported("no product has constant weights to store in 8 bits"));
            }
        }
        Format::Bf16 => return Err(Error::unsupported("models are not converted to bf16")),
    }
    model.checked()
}

/// Runs the passes that do not change values.
fn exact(model: &Model, values: &[Value]) -> Result<Model> {
    let ports = Port::inputs(model)?;
    let shapes: Vec<_> =
        ports.iter().zip(values).map(|(port, value)| (port.name.clone(), value.shape().to_vec())).collect();
    let mut exact = model.clone();
    let mut folded = model.clone();
    match resolve(&mut folded) {
        Ok(()) => exact = folded,
        // A model that the embedded engine cannot fold stays as it is, for engines that can.
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        Err(error) => return Err(error),
    }
    // Branches for other input sizes do not fit the fixed shapes, and engines that infer shapes
    // reject them.
    if !exact.graph.nodes.iter().any(|node| node.graphs().next().is_some()) {
        pass::fix_shapes(&mut exact, &shapes)?;
    }
    Ok(exact)
}

/// Folds constants and inlines the branches that they decide, until nothing changes.
fn resolve(model: &mut Model) -> Result<()> {
    pass::fold_constants(model, &rten::evaluate)?;
    while pass::inline_branches(model)? > 0 {
        pass::fold_constants(model, &rten::evaluate)?;
    }
    pass::share_initializers(model);
    Ok(())
}

pub(in crate::optimize::search) fn write(model: &Model, folder: &Path) -> Result<()> {
    output::write(&folder.join(FILE), &model.to_bytes()?, Existing::Replace)
}

/// Stores the model in an entry with losslessly compressed weights.
pub(in crate::optimize::search) fn store(model: &Model, folder: &Path, threads: usize, budget: &Budget) -> Result<()> {
    let packed = model.to_packed(&pack::Options { threads, ..pack::Options::new(budget) })?;
    output::write(&folder.join(PACKED), &packed, Existing::Replace)
}

/// Reads the model that [`store`] stored.
pub(in crate::optimize::search) fn cached(folder: &Path, budget: &Budget) -> Result<Model> {
    unpacked(&folder.join(PACKED), budget)
}

/// Reads the model for a worker, from [`write`] or [`store`].
pub(in crate::optimize::search) fn read(path: &Path, budget: &Budget) -> Result<Model> {
    if path.file_name().is_some_and(|name| name == PACKED) { unpacked(path, budget) } else { Model::open(path) }
}

fn unpacked(path: &Path, budget: &Budget) -> Result<Model> {
    let file = std::fs::File::open(path).map_err(|error| Error::io(path.display(), error))?;
    Model::from_packed(&file, budget).map_err(|error| error.at(path.display()))
}
