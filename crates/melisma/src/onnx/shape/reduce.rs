//! Operators that reduce many values to one.

use super::fact::Fact;
use super::{Call, axis, number, one};

pub(super) fn outputs(call: &Call<'_>) -> Option<Vec<Fact>> {
    if !(call.node.op.starts_with("Reduce") || matches!(call.node.op.as_str(), "ArgMax" | "ArgMin")) {
        return None;
    }
    let x = call.input(0)?;
    let op = call.node.op.as_str();
    let n_axes = x.shape.len();
    let is_arg = op.starts_with("Arg");
    let given = match (is_arg, call.input(1)) {
        (true, _) => Some(vec![call.int("axis", 0) as f64]),
        // Axes are given, but their values are unknown.
        (false, Some(axes)) if axes.numbers.is_none() => return None,
        (false, _) => call.list("axes", 1),
    };
    let given = given.filter(|axes| !axes.is_empty());
    if given.is_none() && call.int("noop_with_empty_axes", 0) != 0 {
        return one(Fact::new(x.size, x.shape.clone())?);
    }
    let gone: Vec<usize> = match &given {
        Some(axes) => axes.iter().map(|&at| axis(at as i64, n_axes)).collect::<Option<_>>()?,
        None => (0..n_axes).collect(),
    };
    let keeps = call.int("keepdims", 1) != 0;
    let shape = x.shape.iter().enumerate().filter_map(|(at, &len)| match (gone.contains(&at), keeps) {
        (false, _) => Some(len),
        (true, true) => Some(1),
        (true, false) => None,
    });
    let fact = Fact::new(if is_arg { 4 } else { x.size }, shape.collect())?;
    let whole = (fact.len() == 1).then(|| number::reduced(op, x)).flatten();
    one(fact.with(whole.map(|number| vec![number])))
}
