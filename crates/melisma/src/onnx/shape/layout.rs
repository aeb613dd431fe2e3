//! Operators that move, repeat or create values.

use super::fact::{Fact, size};
use super::{Call, axis, broadcast, length, one};
use crate::DType;
use crate::onnx::Content;

pub(super) fn outputs(call: &Call<'_>) -> Option<Vec<Fact>> {
    match call.node.op.as_str() {
        "Constant" => one(constant(call)?),
        "Shape" => shape(call),
        "Size" => Fact::new(4, Vec::new()).map(|fact| vec![fact.with(call.input(0).map(|x| vec![x.len() as f64]))]),
        "Cast" | "CastLike" | "IsInf" | "IsNaN" | "Not" | "QuantizeLinear" | "DequantizeLinear" => one(cast(call)?),
        "DynamicQuantizeLinear" => {
            let x = call.input(0)?;
            Some(vec![Fact::new(1, x.shape.clone())?, Fact::new(4, Vec::new())?, Fact::new(1, Vec::new())?])
        }
        "ConstantOfShape" | "RandomNormal" | "RandomUniform" => filled(call),
        "Expand" => {
            let (x, to) = (call.input(0)?, lengths(call.numbers(1)?)?);
            let numbers = x.numbers.as_ref().filter(|numbers| numbers.len() == 1);
            let fact = Fact::new(x.size, broadcast(&x.shape, &to)?)?;
            let numbers = numbers.filter(|_| fact.len() <= 4096).map(|one| vec![one[0]; fact.len() as usize]);
            one(fact.with(numbers))
        }
        "Tile" | "Upsample" => {
            let factors = call.list("repeats", 1).or_else(|| call.numbers(1).map(<[f64]>::to_vec))?;
            scaled(call.input(0)?, &factors)
        }
        "Resize" => resized(call),
        "Pad" => padded(call),
        "Range" => range(call),
        "OneHot" => {
            let (indices, depth) = (call.input(0)?, length(*call.numbers(1)?.first()?)?);
            let mut shape = indices.shape.clone();
            let at = axis(call.int("axis", -1), shape.len() + 1)?;
            shape.insert(at, depth);
            one(Fact::new(call.input(2)?.size, shape)?)
        }
        "Where" => {
            let [condition, a, b] = [call.input(0)?, call.input(1)?, call.input(2)?];
            let shape = broadcast(&broadcast(&condition.shape, &a.shape)?, &b.shape)?;
            one(Fact::new(a.size, shape)?.with(chosen(condition, a, b)))
        }
        "NonZero" => {
            let x = call.input(0)?;
            let n_found = x.numbers.as_ref()?.iter().filter(|x| **x != 0.0).count();
            one(Fact::new(4, vec![x.shape.len() as u64, n_found as u64])?)
        }
        _ => None,
    }
}

fn constant(call: &Call<'_>) -> Option<Fact> {
    let attribute = call.node.attributes.first()?;
    let fact = match &attribute.content {
        Content::Tensor(tensor) => Fact::of_tensor(tensor)?,
        Content::Float(value) => Fact::new(4, Vec::new())?.with(Some(vec![f64::from(*value)])),
        Content::Int(value) => Fact::new(4, Vec::new())?.with(Some(vec![*value as f64])),
        Content::Floats(values) => Fact::list(values.iter().map(|&value| f64::from(value)).collect())?,
        Content::Ints(values) => Fact::list(values.iter().map(|&value| value as f64).collect())?,
        _ => return None,
    };
    Some(Fact { is_constant: true, ..fact })
}

fn shape(call: &Call<'_>) -> Option<Vec<Fact>> {
    let shape = &call.input(0)?.shape;
    let n_axes = shape.len() as i64;
    let bound = |axis: i64| (if axis < 0 { axis.saturating_add(n_axes) } else { axis }).clamp(0, n_axes) as usize;
    let (start, end) = (bound(call.int("start", 0)), bound(call.int("end", n_axes)));
    let axes = shape.get(start..end.max(start))?;
    one(Fact::list(axes.iter().map(|&axis| axis as f64).collect())?)
}

fn cast(call: &Call<'_>) -> Option<Fact> {
    let x = call.input(0)?;
    let to = call.node.attribute("to").and_then(Content::int).and_then(|code| i32::try_from(code).ok());
    let to = to.and_then(|code| DType::from_code(code).ok());
    let bytes = match call.node.op.as_str() {
        "Cast" => size(to?),
        "CastLike" => call.input(1)?.size,
        "QuantizeLinear" => 1,
        _ => 4,
    };
    let whole = |x: f64| if matches!(to, Some(DType::F32 | DType::F64 | DType::F16)) { x } else { x.trunc() };
    let numbers = match call.node.op.as_str() {
        "Cast" if to == Some(DType::Bool) => |x: f64| f64::from(u8::from(x != 0.0)),
        "Cast" => |x: f64| x,
        "Not" => |x: f64| f64::from(u8::from(x == 0.0)),
        _ => return Fact::new(bytes, x.shape.clone()),
    };
    let numbers = x.numbers.as_ref().map(|all| all.iter().map(|&x| whole(numbers(x))).collect());
    Some(Fact::new(bytes, x.shape.clone())?.with(numbers))
}

/// Fills a shape with one value.
fn filled(call: &Call<'_>) -> Option<Vec<Fact>> {
    let shape = match call.ints("shape") {
        Some(ints) => ints.iter().map(|&int| u64::try_from(int).ok()).collect::<Option<Vec<_>>>()?,
        None => lengths(call.numbers(0)?)?,
    };
    let value = match call.node.attribute("value") {
        Some(Content::Tensor(tensor)) => Fact::of_tensor(tensor)?,
        _ => Fact::new(4, vec![1])?.with(Some(vec![0.0])),
    };
    let fact = Fact::new(value.size, shape)?;
    let is_small = fact.len() <= 4096 && call.node.op == "ConstantOfShape";
    let numbers = value.numbers.filter(|one| is_small && one.len() == 1);
    let numbers = numbers.map(|one| vec![one[0]; fact.len() as usize]);
    one(fact.with(numbers))
}

fn scaled(x: &Fact, factors: &[f64]) -> Option<Vec<Fact>> {
    if factors.len() != x.shape.len() {
        return None;
    }
    let axis = |(&axis, &factor): (&u64, &f64)| length((axis as f64 * factor).floor());
    one(Fact::new(x.size, x.shape.iter().zip(factors).map(axis).collect::<Option<_>>()?)?)
}

fn resized(call: &Call<'_>) -> Option<Vec<Fact>> {
    let x = call.input(0)?;
    let given = |index: usize| call.input(index).filter(|fact| fact.len() > 0);
    let at: Vec<usize> = match call.ints("axes") {
        Some(axes) => axes.iter().map(|&at| axis(at, x.shape.len())).collect::<Option<_>>()?,
        None => (0..x.shape.len()).collect(),
    };
    // Before version 11, the scales were the second input.
    let (scales, sizes) = if call.opset < 11 { (given(1), None) } else { (given(2), given(3)) };
    let (scales, sizes) = (scales.and_then(|fact| fact.numbers.as_ref()), sizes.and_then(|fact| fact.numbers.as_ref()));
    let mut shape = x.shape.clone();
    for (index, &at) in at.iter().enumerate() {
        shape[at] = match (scales, sizes) {
            (_, Some(sizes)) => length(*sizes.get(index)?)?,
            (Some(scales), _) => length((shape[at] as f64 * scales.get(index)?).floor())?,
            _ => return None,
        };
    }
    one(Fact::new(x.size, shape)?)
}

fn padded(call: &Call<'_>) -> Option<Vec<Fact>> {
    let (x, pads) = (call.input(0)?, call.list("pads", 1).or_else(|| call.list("paddings", 1))?);
    let n_axes = x.shape.len();
    let at: Vec<usize> = match call.numbers(3) {
        Some(axes) => axes.iter().map(|&at| axis(at as i64, n_axes)).collect::<Option<_>>()?,
        None => (0..n_axes).collect(),
    };
    if pads.len() != 2 * at.len() {
        return None;
    }
    let mut shape = x.shape.clone();
    for (index, &axis) in at.iter().enumerate() {
        shape[axis] = length(shape[axis] as f64 + pads[index] + pads[index + at.len()])?;
    }
    one(Fact::new(x.size, shape)?)
}

fn range(call: &Call<'_>) -> Option<Vec<Fact>> {
    let number = |index: usize| call.numbers(index)?.first().copied();
    let (start, limit, delta) = (number(0)?, number(1)?, number(2)?);
    let len = length(((limit - start) / delta).ceil().max(0.0))?;
    let fact = Fact::new(call.input(0)?.size, vec![len])?;
    let numbers = (len <= 4096).then(|| (0..len).map(|index| start + index as f64 * delta).collect());
    one(fact.with(numbers))
}

fn chosen(condition: &Fact, a: &Fact, b: &Fact) -> Option<Vec<f64>> {
    let (condition, a, b) = (condition.numbers.as_ref()?, a.numbers.as_ref()?, b.numbers.as_ref()?);
    let len = condition.len().max(a.len()).max(b.len());
    let fits = [condition.len(), a.len(), b.len()].iter().all(|&n| n == 1 || n == len);
    let pick = |index: usize| {
        if condition[index % condition.len()] != 0.0 { a[index % a.len()] } else { b[index % b.len()] }
    };
    fits.then(|| (0..len).map(pick).collect())
}

fn lengths(numbers: &[f64]) -> Option<Vec<u64>> {
    numbers.iter().map(|&number| length(number)).collect()
}
