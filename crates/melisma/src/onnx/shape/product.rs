//! Matrix products.

use std::collections::HashMap;

use super::fact::Fact;
use super::{Call, broadcast, one};

pub(super) fn outputs(call: &Call<'_>) -> Option<Vec<Fact>> {
    let a = call.input(0)?;
    match call.node.op.as_str() {
        "MatMul" | "MatMulInteger" => {
            let shape = product(&a.shape, &call.input(1)?.shape)?;
            one(Fact::new(4, shape)?)
        }
        "Gemm" => {
            let b = call.input(1)?;
            let side = |fact: &Fact, flag: &str, index: usize| {
                let is_turned = call.int(flag, 0) != 0;
                fact.shape.get(if is_turned { 1 - index } else { index }).copied()
            };
            one(Fact::new(a.size, vec![side(a, "transA", 0)?, side(b, "transB", 1)?])?)
        }
        "MatMulNBits" => {
            let mut shape = a.shape.clone();
            *shape.last_mut()? = u64::try_from(call.int("N", -1)).ok()?;
            one(Fact::new(a.size, shape)?)
        }
        "Einsum" => einsum(call),
        "Attention" => attention(call),
        "MultiHeadAttention" => {
            let &[batch, len, width] = a.shape.as_slice() else { return None };
            let width = call.input(2).and_then(|values| values.shape.get(2).copied()).unwrap_or(width);
            one(Fact::new(a.size, vec![batch, len, width])?)
        }
        _ => None,
    }
}

/// Returns the bytes of the attention scores, before and after softmax.
pub(super) fn score_bytes(call: &Call<'_>) -> Option<u64> {
    let (q, k) = (call.input(0)?, call.input(1)?);
    let heads = ["q_num_heads", "num_heads"].iter().find_map(|name| u64::try_from(call.int(name, -1)).ok());
    let (batch, heads, queries, keys) = match (q.shape.as_slice(), k.shape.as_slice()) {
        (&[batch, heads, queries, _], &[_, _, keys, _]) => (batch, heads, queries, keys),
        (&[batch, queries, _], &[_, keys, _]) => (batch, heads.unwrap_or(1), queries, keys),
        _ => return None,
    };
    let rows = batch.saturating_mul(heads).saturating_mul(queries);
    Some(rows.saturating_mul(keys).saturating_mul(8))
}

fn product(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let (k, before) = a.split_last()?;
    match (before.split_last(), b) {
        (Some((&m, batch)), [other @ .., _, n]) => Some([broadcast(batch, other)?, vec![m, *n]].concat()),
        (Some(_), [_]) => Some(before.to_vec()),
        (None, [batch @ .., rows, n]) => (rows == k).then(|| [batch, &[*n]].concat()),
        (None, _) => Some(Vec::new()),
        _ => None,
    }
}

/// Infers the shape of `ij,jk->ik`: each letter has the length of its axis.
fn einsum(call: &Call<'_>) -> Option<Vec<Fact>> {
    let equation = call.node.attribute("equation")?.text()?.replace(' ', "");
    let (terms, result) = equation.split_once("->")?;
    if equation.contains('.') {
        return None;
    }
    let mut lengths = HashMap::new();
    for (index, term) in terms.split(',').enumerate() {
        let shape = &call.input(index)?.shape;
        if term.chars().count() != shape.len() {
            return None;
        }
        lengths.extend(term.chars().zip(shape.iter().copied()));
    }
    let shape = result.chars().map(|letter| lengths.get(&letter).copied()).collect::<Option<_>>()?;
    one(Fact::new(call.input(0)?.size, shape)?)
}

/// Infers the shapes of attention, whose heads are a separate axis or part of the last one.
fn attention(call: &Call<'_>) -> Option<Vec<Fact>> {
    let (q, v) = (call.input(0)?, call.input(2)?);
    let shape = match (q.shape.as_slice(), v.shape.as_slice()) {
        (&[batch, heads, len, _], &[_, _, _, width]) => vec![batch, heads, len, width],
        (&[batch, len, _], &[_, _, width]) => {
            let (heads, of_values) = (call.int("q_num_heads", 1), call.int("kv_num_heads", 1));
            let heads = u64::try_from(heads).ok()?;
            let width = width.checked_div(u64::try_from(of_values).ok()?)?.saturating_mul(heads);
            vec![batch, len, width]
        }
        _ => return None,
    };
    // The cached keys and values for the next step grow with the past.
    if call.node.outputs.iter().skip(1).any(|name| !name.is_empty()) {
        return None;
    }
    one(Fact::new(q.size, shape)?)
}
