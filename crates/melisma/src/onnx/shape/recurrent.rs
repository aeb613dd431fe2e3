//! Recurrent layers and Fourier transforms.

use super::fact::Fact;
use super::{Call, axis, length};

pub(super) fn outputs(call: &Call<'_>) -> Option<Vec<Fact>> {
    match call.node.op.as_str() {
        "LSTM" | "GRU" | "DynamicQuantizeLSTM" => recurrent(call),
        "DFT" => {
            let x = call.input(0)?;
            let mut shape = x.shape.clone();
            let n_axes = shape.len();
            let at = match call.numbers(2) {
                Some(number) => axis(*number.first()? as i64, n_axes)?,
                None => axis(call.int("axis", 1), n_axes)?,
            };
            if let Some(fact) = call.input(1) {
                shape[at] = length(*fact.numbers.as_ref()?.first()?)?;
            }
            if call.int("onesided", 0) != 0 {
                shape[at] = shape[at] / 2 + 1;
            }
            *shape.last_mut()? = 2;
            Some(vec![Fact::new(x.size, shape)?])
        }
        "STFT" => {
            let (x, step) = (call.input(0)?, *call.numbers(1)?.first()?);
            let frame = match (call.input(2), call.numbers(3)) {
                (_, Some(len)) => length(*len.first()?)?,
                (Some(window), None) => window.len(),
                (None, None) => return None,
            };
            let n_frames = x.shape.get(1)?.checked_sub(frame)?.checked_div(length(step)?)?.saturating_add(1);
            let n_bins = if call.int("onesided", 1) != 0 { frame / 2 + 1 } else { frame };
            Some(vec![Fact::new(x.size, vec![x.shape[0], n_frames, n_bins, 2])?])
        }
        _ => None,
    }
}

/// Computes Y and the states after the last step.
fn recurrent(call: &Call<'_>) -> Option<Vec<Fact>> {
    let (&[steps, batch, _], hidden) = (call.input(0)?.shape.as_slice(), hidden(call)?) else { return None };
    let directions = directions(call);
    let state = Fact::new(4, vec![directions, batch, hidden])?;
    Some(vec![Fact::new(4, vec![steps, directions, batch, hidden])?, state.clone(), state])
}

/// Returns the bytes of the gates of one direction for all steps.
pub(super) fn gate_bytes(call: &Call<'_>) -> Option<u64> {
    let &[steps, batch, _] = call.input(0)?.shape.as_slice() else { return None };
    Some(steps.saturating_mul(batch).saturating_mul(hidden(call)?).saturating_mul(4 * 4))
}

fn hidden(call: &Call<'_>) -> Option<u64> {
    u64::try_from(call.int("hidden_size", -1)).ok().or_else(|| call.input(2)?.shape.get(2).copied())
}

fn directions(call: &Call<'_>) -> u64 {
    let direction = call.node.attribute("direction").and_then(|value| value.text());
    if direction == Some("bidirectional") { 2 } else { 1 }
}
