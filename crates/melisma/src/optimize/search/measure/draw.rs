//! Generated values: floats from a normal distribution, integers that every lookup allows.

use half::{bf16, f16};

use crate::DType;
use crate::format::Value;
use crate::onnx::lookup::Lookup;
use crate::random::SplitMix64;
use crate::{Error, Result};

/// Limit on the elements of a generated input.
const MAX_ELEMENTS: usize = 1 << 28;
/// Integers that nothing looks up are below this: valid for nearly every table and axis.
const FEW: u64 = 2;

/// How the values of an input are drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Range {
    /// From a normal distribution with mean 0 and variance 1.
    Normal,
    /// False and true.
    Flags,
    /// Integers from 0, below `end`.
    Below { end: u64, lookup: Option<String> },
}

impl Range {
    /// Returns the range for elements of type `dtype`.
    pub(super) fn of(dtype: DType, lookup: Option<&Lookup>) -> Self {
        match dtype {
            DType::F32 | DType::F64 | DType::F16 | DType::BF16 => Self::Normal,
            DType::Bool => Self::Flags,
            _ => match lookup {
                Some(Lookup { end, label }) => {
                    Self::Below { end: (*end).min(most(dtype)), lookup: Some(label.clone()) }
                }
                None => Self::Below { end: FEW, lookup: None },
            },
        }
    }

    /// Returns whether it has more values than the narrow range.
    pub(super) fn is_wide(&self) -> bool {
        matches!(self, Self::Below { end, .. } if *end > FEW)
    }

    /// Describes it in a sentence about an input.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Normal => "numbers from a normal distribution".to_owned(),
            Self::Flags => "false and true".to_owned(),
            Self::Below { end, lookup: Some(label) } => format!("integers from 0 to {}, as {label} allows", end - 1),
            Self::Below { end, lookup: None } => {
                format!("integers from 0 to {}, since nothing looks them up", end - 1)
            }
        }
    }

    /// Draws an array.
    ///
    /// # Errors
    /// The array is too large.
    pub(super) fn draw(&self, random: &mut SplitMix64, dtype: DType, shape: &[usize]) -> Result<Value> {
        let n = shape.iter().try_fold(1usize, |n, &axis| n.checked_mul(axis)).filter(|n| *n <= MAX_ELEMENTS);
        if n.is_none() {
            return Err(Error::invalid(format!("shape {shape:?} has more than {MAX_ELEMENTS} elements")));
        }
        let mut value = Value::zeros(dtype, shape)?;
        let end = match self {
            Self::Below { end, .. } => *end,
            Self::Normal | Self::Flags => FEW,
        };
        match dtype {
            DType::F32 => value.as_mut_slice::<f32>()?.fill_with(|| normal(random)),
            DType::F64 => value.as_mut_slice::<f64>()?.fill_with(|| f64::from(normal(random))),
            DType::F16 => value.as_mut_slice::<f16>()?.fill_with(|| f16::from_f32(normal(random))),
            DType::BF16 => value.as_mut_slice::<bf16>()?.fill_with(|| bf16::from_f32(normal(random))),
            _ => value.bytes_mut().chunks_mut(dtype.size()).for_each(|element| {
                let number = (random.bits() % end).to_le_bytes();
                element.copy_from_slice(&number[..element.len()]);
            }),
        }
        Ok(value)
    }
}

/// Returns the largest number of indices that fit the type, at least two.
fn most(dtype: DType) -> u64 {
    let bits = 8 * dtype.size().min(4);
    let is_signed = matches!(dtype, DType::I8 | DType::I16 | DType::I24 | DType::I32 | DType::I64);
    1 << (bits - usize::from(is_signed))
}

/// Draws from a normal distribution, as the sum of twelve uniform numbers: exact, so that it is the
/// same on every machine.
fn normal(random: &mut SplitMix64) -> f32 {
    let quarters = |bits: u64| (0..4).map(move |quarter| i64::from((bits >> (16 * quarter)) as u16));
    let sum: i64 = (0..3).flat_map(|_| quarters(random.bits())).sum();
    // Each of the twelve is a multiple of 2^-16 with the mean 0.5 - 2^-17.
    (2 * sum - 12 * 65_535) as f32 / 131_072.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(seed: u64, n: usize) -> Vec<f32> {
        let value = Range::Normal.draw(&mut SplitMix64::new(seed), DType::F32, &[n]).unwrap();
        value.as_slice::<f32>().unwrap().to_vec()
    }

    #[test]
    fn floats_are_normal_and_the_same_everywhere() {
        let values = floats(7, 20_000);
        let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / 20_000.0;
        let variance = values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / 20_000.0;
        let within_one = values.iter().filter(|x| x.abs() < 1.0).count();
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        assert!((13_200..14_100).contains(&within_one), "{within_one} of 20000 within one deviation");
        assert_eq!(floats(7, 3), values[..3]);
        assert_ne!(floats(8, 3), values[..3]);
        assert!(Range::Normal.draw(&mut SplitMix64::new(1), DType::F32, &[1 << 20, 1 << 20]).is_err());
    }

    #[test]
    fn integers_fill_their_range_in_every_type() {
        let lookup = Lookup { end: 300, label: "node `w` (Gather)".to_owned() };
        let drawn = |dtype: DType| {
            let range = Range::of(dtype, Some(&lookup));
            (range.draw(&mut SplitMix64::new(1), dtype, &[4000]).unwrap(), range)
        };
        let (value, range) = drawn(DType::I64);
        let all = value.as_slice::<i64>().unwrap();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&0), Some(&299)));
        assert_eq!(range.describe(), "integers from 0 to 299, as node `w` (Gather) allows");
        let (value, _) = drawn(DType::I32);
        assert_eq!(value.as_slice::<i32>().unwrap().iter().max(), Some(&299));
        let (value, range) = drawn(DType::I8);
        assert_eq!(value.as_slice::<i8>().unwrap().iter().min(), Some(&0), "never negative");
        assert_eq!(range, Range::Below { end: 128, lookup: Some(lookup.label.clone()) });
        let flags = Range::of(DType::I64, None).draw(&mut SplitMix64::new(1), DType::I64, &[100]).unwrap();
        assert!(flags.as_slice::<i64>().unwrap().iter().all(|x| matches!(x, 0 | 1)));
        let flags = Range::of(DType::Bool, Some(&lookup)).draw(&mut SplitMix64::new(1), DType::Bool, &[64]).unwrap();
        assert!(flags.bytes().iter().all(|x| matches!(x, 0 | 1)) && flags.bytes().contains(&1));
    }
}
