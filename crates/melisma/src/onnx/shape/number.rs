//! Small values from which shapes are computed.

use super::Call;
use super::fact::Fact;

pub(super) fn unary(op: &str, x: &Fact) -> Option<Vec<f64>> {
    let function: fn(f64) -> f64 = match op {
        "Abs" => f64::abs,
        "Ceil" => f64::ceil,
        "Floor" => f64::floor,
        "Identity" => |x| x,
        "Neg" => |x| -x,
        "Round" => f64::round_ties_even,
        "Sqrt" => f64::sqrt,
        _ => return None,
    };
    Some(x.numbers.as_ref()?.iter().map(|&x| function(x)).collect())
}

/// Combines two lists of equal length, or a list and a single number.
pub(super) fn together(call: &Call<'_>) -> Option<Vec<f64>> {
    let [Some(a), Some(b)] = call.inputs.as_slice() else { return None };
    let is_whole = [a, b].iter().all(|fact| fact.numbers.iter().flatten().all(|x| x.fract() == 0.0));
    let truth = |holds: bool| f64::from(u8::from(holds));
    let combine = |a: f64, b: f64| -> Option<f64> {
        Some(match call.node.op.as_str() {
            "Add" | "Sum" => a + b,
            "Sub" => a - b,
            "Mul" => a * b,
            "Div" if is_whole => (a / b).trunc(),
            "Div" => a / b,
            "Mod" => a - b * (a / b).floor(),
            "Pow" => a.powf(b),
            "Max" => a.max(b),
            "Min" => a.min(b),
            "Equal" => truth(a == b),
            "Greater" => truth(a > b),
            "GreaterOrEqual" => truth(a >= b),
            "Less" => truth(a < b),
            "LessOrEqual" => truth(a <= b),
            "And" => truth(a != 0.0 && b != 0.0),
            "Or" => truth(a != 0.0 || b != 0.0),
            "Xor" => truth((a != 0.0) != (b != 0.0)),
            _ => return None,
        })
    };
    let (a, b) = (a.numbers.as_ref()?, b.numbers.as_ref()?);
    let len = match (a.len(), b.len()) {
        (1, len) | (len, 1) => len,
        (a, b) if a == b => a,
        _ => return None,
    };
    (0..len).map(|index| combine(a[index % a.len()], b[index % b.len()]).filter(|x| !x.is_nan())).collect()
}

/// Reduces all elements of a value to one.
pub(super) fn reduced(op: &str, x: &Fact) -> Option<f64> {
    let numbers = x.numbers.as_ref()?.iter().copied();
    match op {
        "ReduceSum" => Some(numbers.sum()),
        "ReduceProd" => Some(numbers.product()),
        "ReduceMax" => numbers.reduce(f64::max),
        "ReduceMin" => numbers.reduce(f64::min),
        _ => None,
    }
}
