//! The multiply-adds of encoding, and the rate at which the machine could do them.

use melisma::Result;
use melisma::snac::Config;
use melisma_kernels::device::ceiling;
use melisma_kernels::matmul::{self, Matmul};
use melisma_kernels::{Budget, DType, Device, Queue, Tensor};

use super::super::of_times;
use crate::{Plan, measure};

/// Rows and columns of the product that measures a GPU.
const PRODUCT: usize = 4096;

/// Counts multiply-adds of all products and convolutions per latent.
pub(super) fn per_latent(config: &Config) -> f64 {
    let (mut dim, mut steps) = (config.encoder_dim, config.hop_len());
    let mut sum = 7 * dim * steps;
    for rate in &config.encoder_rates {
        sum += 3 * (7 * dim + dim * dim) * steps;
        steps /= rate;
        sum += 2 * dim * dim * 2 * rate * steps;
        dim *= 2;
    }
    if let Some(window) = config.attn_window_size {
        sum += 4 * dim * dim + 2 * window * dim;
    }
    sum += 7 * dim;
    let level = config.codebook_dim * (2 * dim + config.codebook_size);
    sum as f64 + config.vq_strides.iter().map(|&stride| level as f64 / stride as f64).sum::<f64>()
}

/// Returns the multiple of real time at which `device` would encode if it did nothing but multiply and add at its
/// measured peak in FP32.
pub(super) fn realtime(config: &Config, device: &Device) -> Result<f64> {
    let latents_per_second = f64::from(config.sampling_rate) / config.hop_len() as f64;
    Ok(peak(device)? / (2.0 * per_latent(config) * latents_per_second))
}

/// Measures operations per second: of registers on a CPU, of a large product on a GPU.
fn peak(device: &Device) -> Result<f64> {
    if let Device::Cpu(cpu) = device {
        let peaks = (0..5).map(|_| ceiling::flops(cpu.isa)).collect();
        return Ok(of_times(peaks).median * cpu.threads as f64);
    }
    let budget = Budget::unlimited();
    let queue = device.queue(&budget)?;
    let shape = Matmul::new(PRODUCT, PRODUCT, PRODUCT);
    let plan = shape.plan::<f32>(device)?;
    let tensor = || Tensor::new(device, &budget, DType::F32, &[PRODUCT * PRODUCT]);
    let (a, b, mut c) = (tensor()?, tensor()?, tensor()?);
    let mut outcome = Ok(());
    let measured = measure(Plan::default(), || outcome = multiply(&plan, &queue, [&a, &b], &mut c));
    outcome?;
    Ok(shape.flops() / measured.median)
}

fn multiply(plan: &matmul::Plan<f32>, queue: &Queue, [a, b]: [&Tensor; 2], c: &mut Tensor) -> Result<()> {
    plan.run(queue, a.view()?, b.view()?, c.view_mut()?)?;
    queue.synchronize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PyTorch's `FlopCounterMode` counts the same.
    #[test]
    fn latents_of_the_published_models() {
        assert_eq!(per_latent(&Config::snac_24khz()), 51_156_224.0);
        assert_eq!(per_latent(&Config::snac_44khz()), 83_063_808.0);
    }
}
