//! Converts the graph's convolutions for our kernel.

use melisma_kernels::conv::{Conv, Curve, Plan};
use melisma_kernels::{Budget, Device};

use super::scope::Scope;
use crate::format::Value;
use crate::onnx::{Node, Tensor};
use crate::{DType, Result};

/// Builds kernels on a device within a budget.
pub(super) struct Maker<'a> {
    pub device: &'a Device,
    pub budget: &'a Budget,
}

/// Returns whether our kernel can run a node.
pub(super) fn is_window(node: &Node, scope: &Scope<'_>) -> bool {
    shape(node, scope).is_some()
}

/// Pairs are (rows, columns); a signal has one row.
struct Shape<'m> {
    weight: &'m Tensor,
    bias: Option<&'m Tensor>,
    channels: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    pads: [[usize; 2]; 2],
}

fn shape<'m>(node: &Node, scope: &Scope<'m>) -> Option<Shape<'m>> {
    let is_float = |tensor: &&Tensor| [DType::F32.code(), DType::F16.code()].contains(&tensor.dtype);
    let x = node.inputs.first().filter(|name| scope.initializer(name).is_none() && !name.is_empty());
    if !node.is("Conv") || x.is_none() || node.outputs.len() != 1 || node.outputs[0].is_empty() {
        return None;
    }
    let weight = scope.initializer(node.inputs.get(1)?).filter(is_float)?;
    let bias = match node.inputs.get(2).filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => Some(scope.initializer(name).filter(is_float).filter(|bias| bias.shape == weight.shape[..1])?),
    };
    let (channels, kernel) = match *weight.shape.as_slice() {
        [n_out, n_in, taps] => ([n_in, n_out], [1, taps]),
        [n_out, n_in, rows, columns] => ([n_in, n_out], [rows, columns]),
        _ => return None,
    };
    let n_axes = weight.shape.len() - 2;
    let list = |name: &str, or: usize, len: usize| -> Option<Vec<usize>> {
        match node.attribute(name) {
            None => Some(vec![or; len]),
            Some(value) => {
                let list =
                    value.ints()?.iter().map(|&value| usize::try_from(value).ok()).collect::<Option<Vec<_>>>()?;
                (list.len() == len).then_some(list)
            }
        }
    };
    let pair = |list: &[usize], one: usize| [if n_axes == 1 { one } else { list[0] }, list[n_axes - 1]];
    let padding = node.attribute("auto_pad").and_then(|value| value.text()).unwrap_or("NOTSET");
    let pads = if padding == "VALID" { vec![0; 2 * n_axes] } else { list("pads", 0, 2 * n_axes)? };
    let is_dense = node.attribute("group").is_none_or(|group| group.int() == Some(1));
    let has_its_taps = pair(&list("kernel_shape", 0, n_axes)?, 1) == kernel || node.attribute("kernel_shape").is_none();
    let has_all = channels.iter().chain(&kernel).all(|&len| len > 0);
    if !is_dense || !has_its_taps || !has_all || !matches!(padding, "NOTSET" | "VALID") {
        return None;
    }
    Some(Shape {
        weight,
        bias,
        channels,
        kernel,
        strides: pair(&list("strides", 1, n_axes)?, 1),
        dilations: pair(&list("dilations", 1, n_axes)?, 1),
        pads: [pair(&pads[..n_axes], 0), pair(&pads[n_axes..], 0)],
    })
}

impl Maker<'_> {
    /// Returns the kernel for a node; `None` if the embedded engine has to run it.
    pub(super) fn plan(&self, node: &Node, scope: &Scope<'_>, curve: Curve) -> Result<Option<Plan>> {
        let Some(shape) = shape(node, scope) else { return Ok(None) };
        let weight = floats(shape.weight)?;
        let bias = shape.bias.map_or_else(|| Ok(vec![0.0; shape.channels[1]]), floats)?;
        let layer = Conv {
            n_in: shape.channels[0],
            n_out: shape.channels[1],
            kernel: shape.kernel,
            strides: shape.strides,
            dilations: shape.dilations,
            before: shape.pads[0],
            after: shape.pads[1],
            weight: &weight,
            bias: &bias,
            curve,
        };
        layer.plan(self.device, self.budget).map(Some).map_err(|error| error.at(node.label()))
    }
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>> {
    let value: Value = tensor.value()?;
    match value.dtype() {
        DType::F16 => Ok(value.as_slice::<half::f16>()?.iter().map(|half| half.to_f32()).collect()),
        _ => Ok(value.as_slice::<f32>()?.to_vec()),
    }
}
