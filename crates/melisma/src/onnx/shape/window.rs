//! Convolutions and pooling.

use super::fact::Fact;
use super::{Call, one};
use crate::onnx::Content;

pub(super) fn outputs(call: &Call<'_>) -> Option<Vec<Fact>> {
    let x = call.input(0)?;
    let spatial = x.shape.get(2..)?;
    match call.node.op.as_str() {
        "Conv" | "ConvInteger" => {
            let weight = call.input(1)?;
            let shape = windows(call, spatial, weight.shape.get(2..)?)?;
            one(Fact::new(4, [vec![x.shape[0], weight.shape[0]], shape].concat())?)
        }
        "ConvTranspose" => {
            let (weight, shape) = (call.input(1)?, transposed(call, spatial)?);
            let n_out = weight.shape.get(1)?.saturating_mul(groups(call));
            one(Fact::new(4, [vec![x.shape[0], n_out], shape].concat())?)
        }
        "MaxPool" | "AveragePool" => {
            let kernel =
                call.ints("kernel_shape")?.iter().map(|&axis| u64::try_from(axis).ok()).collect::<Option<Vec<_>>>()?;
            let shape = [&x.shape[..2], &windows(call, spatial, &kernel)?].concat();
            Some(vec![Fact::new(x.size, shape.clone())?, Fact::new(4, shape)?])
        }
        "GlobalAveragePool" | "GlobalMaxPool" => {
            one(Fact::new(x.size, [&x.shape[..2], &vec![1; spatial.len()]].concat())?)
        }
        _ => None,
    }
}

/// Returns the bytes of the products of every input position, before they are added into the
/// output.
pub(super) fn scratch_bytes(call: &Call<'_>) -> Option<u64> {
    let (x, weight) = (call.input(0)?, call.input(1)?);
    let product = |axes: &[u64]| axes.iter().fold(1u64, |product, &axis| product.saturating_mul(axis));
    Some(product(weight.shape.get(1..)?).saturating_mul(product(x.shape.get(2..)?)).saturating_mul(4))
}

fn groups(call: &Call<'_>) -> u64 {
    u64::try_from(call.int("group", 1)).unwrap_or(1)
}

/// Returns a list with one number per axis, or the default.
fn per_axis(call: &Call<'_>, name: &str, or: u64, len: usize) -> Option<Vec<u64>> {
    match call.ints(name) {
        None => Some(vec![or; len]),
        Some(ints) if ints.len() == len => ints.iter().map(|&int| u64::try_from(int).ok()).collect(),
        Some(_) => None,
    }
}

/// Returns how the padding is found: `NOTSET` if it is given.
fn rule<'a>(call: &Call<'a>) -> &'a str {
    call.node.attribute("auto_pad").and_then(Content::text).unwrap_or("NOTSET")
}

/// Returns the number of positions from the first tap to the last.
fn reach(kernel: u64, dilation: u64) -> u64 {
    kernel.saturating_sub(1).saturating_mul(dilation).saturating_add(1)
}

fn windows(call: &Call<'_>, spatial: &[u64], kernel: &[u64]) -> Option<Vec<u64>> {
    let n_axes = spatial.len();
    if kernel.len() != n_axes {
        return None;
    }
    let (strides, dilations) = (per_axis(call, "strides", 1, n_axes)?, per_axis(call, "dilations", 1, n_axes)?);
    let pads = per_axis(call, "pads", 0, 2 * n_axes)?;
    let rule = rule(call);
    let rounds_up = call.int("ceil_mode", 0) != 0;
    let len = |at: usize| {
        if rule.starts_with("SAME") {
            return (strides[at] > 0).then(|| spatial[at].div_ceil(strides[at]));
        }
        let pad = if rule == "VALID" { 0 } else { pads[at].saturating_add(pads[at + n_axes]) };
        let reach = reach(kernel[at], dilations[at]);
        let room = spatial[at].saturating_add(pad).checked_sub(reach)?;
        let extra = if rounds_up { strides[at].saturating_sub(1) } else { 0 };
        Some(room.saturating_add(extra).checked_div(strides[at])?.saturating_add(1))
    };
    (0..n_axes).map(len).collect()
}

fn transposed(call: &Call<'_>, spatial: &[u64]) -> Option<Vec<u64>> {
    let n_axes = spatial.len();
    let kernel = call.input(1)?.shape.get(2..).filter(|kernel| kernel.len() == n_axes)?;
    if let Some(shape) = call.ints("output_shape") {
        return shape.iter().map(|&axis| u64::try_from(axis).ok()).collect();
    }
    let (strides, dilations) = (per_axis(call, "strides", 1, n_axes)?, per_axis(call, "dilations", 1, n_axes)?);
    let (pads, extra) = (per_axis(call, "pads", 0, 2 * n_axes)?, per_axis(call, "output_padding", 0, n_axes)?);
    let rule = rule(call);
    let len = |at: usize| {
        if rule.starts_with("SAME") {
            return Some(spatial[at].saturating_mul(strides[at]));
        }
        let reach = reach(kernel[at], dilations[at]);
        let whole = spatial[at].saturating_sub(1).saturating_mul(strides[at]).saturating_add(reach);
        let pad = if rule == "VALID" { 0 } else { pads[at].saturating_add(pads[at + n_axes]) };
        whole.saturating_add(extra[at]).checked_sub(pad)
    };
    (0..n_axes).map(len).collect()
}
