//! Error of outputs against the FP32 reference.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::format::Value;
use crate::{DType, Error, ErrorKind, Result};

/// The error of outputs against their reference, over all outputs and input sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accuracy {
    /// The largest absolute difference.
    pub max_abs: f64,
    /// The largest difference in an output, relative to that output's largest value.
    pub relative: f64,
    /// The smallest cosine similarity between an output and its reference; 1 if both are zero.
    pub cosine: f64,
}

impl Accuracy {
    /// No difference at all.
    pub const EXACT: Self = Self { max_abs: 0.0, relative: 0.0, cosine: 1.0 };

    /// Returns the worse of the two in each figure.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            max_abs: self.max_abs.max(other.max_abs),
            relative: self.relative.max(other.relative),
            cosine: self.cosine.min(other.cosine),
        }
    }
}

/// Compares each output with its reference. NaN or an infinity on one side only counts as an
/// infinite difference.
///
/// # Errors
/// [`ErrorKind::Check`] if the number of outputs or their shapes differ.
pub fn compare(outputs: &[Value], reference: &[Value]) -> Result<Accuracy> {
    if outputs.len() != reference.len() {
        return Err(Error::new(
            ErrorKind::Check,
            format!("{} outputs, the reference has {}", outputs.len(), reference.len()),
        ));
    }
    let mut worst = Accuracy::EXACT;
    for (output, reference) in outputs.iter().zip(reference) {
        if output.shape() != reference.shape() {
            let message = format!("an output of shape {:?}, the reference has {:?}", output.shape(), reference.shape());
            return Err(Error::new(ErrorKind::Check, message));
        }
        worst = worst.and(distance(&floats(output)?, &floats(reference)?));
    }
    Ok(worst)
}

fn distance(values: &[f32], reference: &[f32]) -> Accuracy {
    let (mut max_abs, mut largest) = (0.0_f64, 0.0_f64);
    let (mut product, mut squares) = (0.0, [0.0; 2]);
    for (&value, &reference) in values.iter().zip(reference) {
        if value.to_bits() == reference.to_bits() || (value.is_nan() && reference.is_nan()) {
            if !value.is_finite() {
                continue;
            }
        } else if !value.is_finite() || !reference.is_finite() {
            return Accuracy { max_abs: f64::INFINITY, relative: f64::INFINITY, cosine: 0.0 };
        }
        let (value, reference) = (f64::from(value), f64::from(reference));
        max_abs = max_abs.max((value - reference).abs());
        largest = largest.max(reference.abs());
        product += value * reference;
        squares = [squares[0] + value * value, squares[1] + reference * reference];
    }
    let relative = if max_abs == 0.0 { 0.0 } else { max_abs / largest.max(f64::MIN_POSITIVE) };
    let norm = (squares[0] * squares[1]).sqrt();
    let cosine = if norm > 0.0 { product / norm } else { f64::from(u8::from(max_abs == 0.0)) };
    Accuracy { max_abs, relative, cosine }
}

/// Converts the elements to `f32`, rounding where necessary.
///
/// # Errors
/// Never for the existing types.
pub(in crate::optimize::search) fn floats(value: &Value) -> Result<Vec<f32>> {
    macro_rules! widened {
        ($type:ty, $widen:expr) => {
            value.as_slice::<$type>()?.iter().map(|&x| ($widen)(x)).collect()
        };
    }
    Ok(match value.dtype() {
        DType::F32 => value.as_slice::<f32>()?.to_vec(),
        DType::F64 => widened!(f64, |x| x as f32),
        DType::F16 => widened!(f16, f16::to_f32),
        DType::BF16 => widened!(bf16, bf16::to_f32),
        DType::I8 => widened!(i8, f32::from),
        DType::I16 => widened!(i16, f32::from),
        DType::I32 => widened!(i32, |x| x as f32),
        DType::I64 => widened!(i64, |x| x as f32),
        DType::U16 => widened!(u16, f32::from),
        DType::U32 => widened!(u32, |x| x as f32),
        DType::U64 => widened!(u64, |x| x as f32),
        DType::U8 | DType::Bool | DType::I24 => value.bytes().iter().map(|&x| f32::from(x)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(values: &[f32]) -> Value {
        Value::from_slice(values, &[values.len()]).unwrap()
    }

    #[test]
    fn agrees_with_the_definitions() {
        let (a, b) = ([1.0f32, -2.0, 3.5, 0.25], [1.1f32, -2.0, 3.0, 0.25]);
        let found = compare(&[value(&a)], &[value(&b)]).unwrap();
        let pairs = || a.iter().zip(&b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
        let dot: f64 = pairs().map(|(a, b)| a * b).sum();
        let norms: f64 =
            pairs().map(|(a, _)| a * a).sum::<f64>().sqrt() * pairs().map(|(_, b)| b * b).sum::<f64>().sqrt();
        assert_eq!((found.max_abs, found.relative), (0.5, 0.5 / 3.0));
        assert!((found.cosine - dot / norms).abs() < 1e-15);
        assert_eq!(compare(&[value(&a)], &[value(&a)]).unwrap().max_abs, 0.0);
        let zeros = compare(&[value(&[0.0])], &[value(&[0.0])]).unwrap();
        assert_eq!(zeros, Accuracy::EXACT);
    }

    #[test]
    fn what_is_no_number_is_never_near() {
        let nan = compare(&[value(&[f32::NAN, 1.0])], &[value(&[0.0, 1.0])]).unwrap();
        assert!(nan.max_abs.is_infinite() && nan.relative.is_infinite());
        let both = compare(&[value(&[f32::NAN, 1.0])], &[value(&[f32::NAN, 1.0])]).unwrap();
        assert_eq!(both.max_abs, 0.0);
        assert!(compare(&[value(&[1.0])], &[value(&[1.0, 2.0])]).is_err());
        assert!(compare(&[], &[value(&[1.0])]).is_err());
    }
}
