//! Checks that the device computes correctly: a small product and a conversion, compared with f64.

use melisma_kernels::matmul::Matmul;
use melisma_kernels::{Budget, Queue, Tensor, convert};

use crate::{Error, ErrorKind, Remedy, Result};

/// The results of the check.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SelfCheck {
    /// Rows, columns and steps of the product.
    pub size: usize,
    /// The largest difference from the f64 product, relative to the largest value.
    pub matmul_error: f64,
    /// Samples that survived the conversion from 16 bits to float and back unchanged.
    pub samples: usize,
}

/// The largest error that rounding alone explains, for sums of 192 products of f32.
const TOLERANCE: f64 = 192.0 * f32::EPSILON as f64;

impl SelfCheck {
    /// Runs both checks on `queue`.
    ///
    /// # Errors
    /// [`ErrorKind::Check`] if a result is wrong; other kinds if the device fails or `budget` is
    /// exceeded.
    pub fn run(queue: &Queue, budget: &Budget) -> Result<Self> {
        let _span = tracing::info_span!("self_check").entered();
        let check = Self { size: 192, matmul_error: product_error(queue, budget, 192)?, samples: 1 << 16 };
        round_trip(queue, budget)?;
        if check.matmul_error > TOLERANCE {
            let message = format!("{}: matmul is off by {:e}, more than rounding", queue.device(), check.matmul_error);
            let error = Error::new(ErrorKind::Check, message).with_hint("update the driver");
            return Err(error.or_hint(Remedy::use_device(&["cpu"])));
        }
        Ok(check)
    }
}

fn product_error(queue: &Queue, budget: &Budget, n: usize) -> Result<f64> {
    let value = |index: usize| (index * 7919 % 2003) as f32 / 2003.0 - 0.5;
    let a: Vec<f32> = (0..n * n).map(value).collect();
    let b: Vec<f32> = (0..n * n).map(|index| value(index + 5)).collect();
    let on_device = |values: &[f32]| Tensor::from_slice(budget, values, &[n, n])?.to(queue, budget);
    let (a_dev, b_dev, mut c_dev) = (on_device(&a)?, on_device(&b)?, on_device(&a)?);
    let plan = Matmul::new(n, n, n).plan::<f32>(&queue.device())?;
    plan.run(queue, a_dev.view()?, b_dev.view()?, c_dev.view_mut()?)?;
    let c = c_dev.to_vec::<f32>(queue)?;
    let (mut error, mut largest) = (0f64, 0f64);
    for (index, &found) in c.iter().enumerate() {
        let (row, column) = (index / n, index % n);
        let product = |k: usize| f64::from(a[row * n + k]) * f64::from(b[k * n + column]);
        let expected: f64 = (0..n).map(product).sum();
        error = error.max((f64::from(found) - expected).abs());
        largest = largest.max(expected.abs());
    }
    Ok(error / largest)
}

fn round_trip(queue: &Queue, budget: &Budget) -> Result<()> {
    let samples: Vec<i16> = (i16::MIN..=i16::MAX).collect();
    let mut on_device = Tensor::from_slice(budget, &samples, &[samples.len()])?.to(queue, budget)?;
    let mut floats = Tensor::new(&queue.device(), budget, melisma_kernels::DType::F32, &[samples.len()])?;
    convert::plan::<i16, f32>(&queue.device(), samples.len())?.run(queue, on_device.view()?, floats.view_mut()?)?;
    convert::plan::<f32, i16>(&queue.device(), samples.len())?.run(queue, floats.view()?, on_device.view_mut()?)?;
    if on_device.to_vec::<i16>(queue)? == samples {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Check,
        format!("{}: 16-bit samples do not survive a conversion to float", queue.device()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::device::Device;

    #[test]
    fn the_cpu_computes_what_it_should() {
        let budget = Budget::unlimited();
        let queue = Device::cpu().unwrap().queue(&budget).unwrap();
        let check = SelfCheck::run(&queue, &budget).unwrap();
        assert!(check.matmul_error > 0.0 && check.matmul_error < TOLERANCE, "{check:?}");
    }
}
