//! Operators that reshape values or select some of them.

use super::fact::Fact;
use super::{Call, axis, length, one};

pub(super) fn outputs(call: &Call<'_>) -> Option<Vec<Fact>> {
    let x = call.input(0)?;
    match call.node.op.as_str() {
        "Reshape" => reshaped(call, x),
        "Squeeze" => squeezed(call, x),
        "Unsqueeze" => unsqueezed(call, x),
        "Flatten" => {
            let at = call.int("axis", 1);
            let at = if at == x.shape.len() as i64 { x.shape.len() } else { axis(at, x.shape.len())? };
            let product = |axes: &[u64]| axes.iter().fold(1u64, |product, &axis| product.saturating_mul(axis));
            one(Fact::new(x.size, vec![product(&x.shape[..at]), product(&x.shape[at..])])?)
        }
        "Transpose" => transposed(call, x),
        "Concat" => joined(call),
        "Split" => split(call, x),
        "Slice" => sliced(call, x),
        "Gather" => gathered(call, x),
        "GatherElements" => one(Fact::new(x.size, call.input(1)?.shape.clone())?),
        "GatherND" => {
            let (indices, n_batch) = (call.input(1)?, usize::try_from(call.int("batch_dims", 0)).ok()?);
            let (&n_axes, before) = indices.shape.split_last()?;
            let rest = x.shape.get(n_batch.checked_add(usize::try_from(n_axes).ok()?)?..)?;
            one(Fact::new(x.size, [before, rest].concat())?)
        }
        "DepthToSpace" => {
            let (&[n, c, h, w], block) = (x.shape.as_slice(), u64::try_from(call.int("blocksize", 1)).ok()?) else {
                return None;
            };
            let c = c.checked_div(block.saturating_mul(block))?;
            one(Fact::new(x.size, vec![n, c, h.saturating_mul(block), w.saturating_mul(block)])?)
        }
        "TopK" => {
            let k = call.numbers(1).and_then(|k| k.first().copied()).unwrap_or(call.int("k", -1) as f64);
            let (mut shape, at) = (x.shape.clone(), axis(call.int("axis", -1), x.shape.len())?);
            shape[at] = length(k)?;
            Some(vec![Fact::new(x.size, shape.clone())?, Fact::new(4, shape)?])
        }
        "GridSample" => {
            let grid = &call.input(1)?.shape;
            let inner = grid.get(1..grid.len().checked_sub(1)?)?;
            one(Fact::new(x.size, [x.shape.get(..2)?, inner].concat())?)
        }
        "Multinomial" => one(Fact::new(4, vec![*x.shape.first()?, u64::try_from(call.int("sample_size", 1)).ok()?])?),
        _ => None,
    }
}

fn reshaped(call: &Call<'_>, x: &Fact) -> Option<Vec<Fact>> {
    let to = call.list("shape", 1)?;
    let zero_is_zero = call.int("allowzero", 0) != 0;
    let mut shape = Vec::with_capacity(to.len());
    for (index, &number) in to.iter().enumerate() {
        shape.push(match number {
            -1.0 => 1,
            0.0 if !zero_is_zero => *x.shape.get(index)?,
            number => length(number)?,
        });
    }
    if let Some(open) = to.iter().position(|&number| number == -1.0) {
        let rest = shape.iter().fold(1u64, |product, &axis| product.saturating_mul(axis));
        shape[open] = x.len().checked_div(rest).unwrap_or(0);
    }
    let fact = Fact::new(x.size, shape)?;
    (fact.len() == x.len()).then(|| vec![fact.with(x.numbers.clone())])
}

fn squeezed(call: &Call<'_>, x: &Fact) -> Option<Vec<Fact>> {
    if call.input(1).is_some_and(|axes| axes.numbers.is_none()) {
        return None;
    }
    let shape: Vec<u64> = match call.list("axes", 1) {
        None => x.shape.iter().copied().filter(|&axis| axis != 1).collect(),
        Some(axes) => {
            let gone: Vec<usize> = axes.iter().map(|&at| axis(at as i64, x.shape.len())).collect::<Option<Vec<_>>>()?;
            x.shape.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, &axis)| axis).collect()
        }
    };
    one(Fact::new(x.size, shape)?.with(x.numbers.clone()))
}

fn unsqueezed(call: &Call<'_>, x: &Fact) -> Option<Vec<Fact>> {
    let axes = call.list("axes", 1)?;
    let n_axes = x.shape.len() + axes.len();
    let mut new: Vec<usize> = axes.iter().map(|&at| axis(at as i64, n_axes)).collect::<Option<_>>()?;
    new.sort_unstable();
    let mut shape = x.shape.clone();
    for at in new {
        (at <= shape.len()).then(|| shape.insert(at, 1))?;
    }
    one(Fact::new(x.size, shape)?.with(x.numbers.clone()))
}

fn transposed(call: &Call<'_>, x: &Fact) -> Option<Vec<Fact>> {
    let shape = match call.ints("perm") {
        None => x.shape.iter().rev().copied().collect(),
        Some(order) => order.iter().map(|&at| Some(x.shape[axis(at, x.shape.len())?])).collect::<Option<Vec<_>>>()?,
    };
    let fact = Fact::new(x.size, shape)?;
    let flat = x.numbers.clone().filter(|_| x.shape.len() < 2);
    (fact.len() == x.len()).then(|| vec![fact.with(flat)])
}

fn joined(call: &Call<'_>) -> Option<Vec<Fact>> {
    let first = call.input(0)?;
    let at = axis(call.int("axis", 0), first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[at] = 0;
    for fact in &call.inputs {
        shape[at] = shape[at].saturating_add(*(*fact)?.shape.get(at)?);
    }
    let numbers = (shape.len() == 1).then(|| {
        let all: Option<Vec<&Vec<f64>>> = call.inputs.iter().map(|fact| (*fact)?.numbers.as_ref()).collect();
        all.map(|all| all.into_iter().flatten().copied().collect())
    });
    one(Fact::new(first.size, shape)?.with(numbers.flatten()))
}

fn split(call: &Call<'_>, x: &Fact) -> Option<Vec<Fact>> {
    let at = axis(call.int("axis", 0), x.shape.len())?;
    if call.input(1).is_some_and(|lengths| lengths.numbers.is_none()) {
        return None;
    }
    let lengths: Vec<u64> = match call.list("split", 1) {
        Some(lengths) => lengths.iter().map(|&len| length(len)).collect::<Option<_>>()?,
        None => {
            let n_parts = call.node.outputs.len() as u64;
            let each = x.shape[at].div_ceil(n_parts.max(1));
            (0..n_parts).map(|index| each.min(x.shape[at].saturating_sub(index.saturating_mul(each)))).collect()
        }
    };
    let mut start = 0usize;
    let part = |len: u64| {
        let mut shape = x.shape.clone();
        shape[at] = len;
        let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        let numbers = x.numbers.as_ref().filter(|_| x.shape.len() == 1);
        let numbers = numbers.and_then(|all| all.get(start..end)).map(<[f64]>::to_vec);
        start = end;
        Some(Fact::new(x.size, shape)?.with(numbers))
    };
    lengths.into_iter().map(part).collect()
}

fn sliced(call: &Call<'_>, x: &Fact) -> Option<Vec<Fact>> {
    let (starts, ends) = (call.list("starts", 1)?, call.list("ends", 2)?);
    if [3, 4].iter().any(|&index| call.input(index).is_some_and(|fact| fact.numbers.is_none())) {
        return None;
    }
    let axes = call.list("axes", 3).unwrap_or_else(|| (0..starts.len()).map(|at| at as f64).collect());
    let steps = call.numbers(4).map_or_else(|| vec![1.0; starts.len()], <[f64]>::to_vec);
    let (mut shape, mut numbers) = (x.shape.clone(), x.numbers.clone().filter(|_| x.shape.len() == 1));
    for (index, &at) in axes.iter().enumerate() {
        let at = axis(at as i64, shape.len())?;
        let (len, step) = (shape[at] as f64, *steps.get(index)?);
        let counted = |number: f64| if number < 0.0 { number + len } else { number };
        let (start, end) = (counted(*starts.get(index)?), counted(*ends.get(index)?));
        let (start, end) = match step {
            step if step > 0.0 => (start.clamp(0.0, len), end.clamp(0.0, len)),
            step if step < 0.0 => (start.clamp(-1.0, len - 1.0), end.clamp(-1.0, len)),
            _ => return None,
        };
        let count = ((end - start) / step).ceil().max(0.0);
        shape[at] = count as u64;
        let taken = |all: &Vec<f64>| {
            (0..count as usize).map(|index| all.get((start + index as f64 * step) as usize).copied()).collect()
        };
        numbers = numbers.as_ref().and_then(taken);
    }
    one(Fact::new(x.size, shape)?.with(numbers))
}

fn gathered(call: &Call<'_>, x: &Fact) -> Option<Vec<Fact>> {
    let (indices, at) = (call.input(1)?, axis(call.int("axis", 0), x.shape.len())?);
    let shape = [&x.shape[..at], &indices.shape, &x.shape[at + 1..]].concat();
    let numbers = (x.shape.len() == 1).then(|| -> Option<Vec<f64>> {
        let (all, picked) = (x.numbers.as_ref()?, indices.numbers.as_ref()?);
        let pick = |&index: &f64| all.get(axis(index as i64, all.len())?).copied();
        picked.iter().map(pick).collect()
    });
    one(Fact::new(x.size, shape)?.with(numbers.flatten()))
}
