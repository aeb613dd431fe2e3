//! The obvious function of two numbers.

use super::Operation;

pub(super) fn apply(operation: Operation, y: f32, x: f32) -> f32 {
    match operation {
        Operation::Add => y + x,
        Operation::Subtract => y - x,
        Operation::Multiply => y * x,
        Operation::Divide => y / x,
        Operation::Maximum | Operation::Minimum if y.is_nan() || x.is_nan() => f32::NAN,
        Operation::Maximum if x > y => x,
        Operation::Minimum if x < y => x,
        Operation::Maximum | Operation::Minimum => y,
    }
}
