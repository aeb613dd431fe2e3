//! Our own engines on our own kernels: [`chain`] for chains of one-dimensional convolutions,
//! [`mixed`] for other graphs.

pub mod chain;
pub mod mixed;

use melisma_kernels::Device;

use super::{EngineName, Options};
use crate::Result;
use crate::onnx::Model;

/// Returns which of our engines fits `model`: the chain if it takes the model, since its
/// activations stay in the cache.
pub fn fitting(model: &Model) -> EngineName {
    if chain::takes(model) { chain::NAME } else { mixed::NAME }
}

/// Returns the CPU with the number of threads in the options.
fn device(options: &Options) -> Result<Device> {
    let mut device = Device::cpu()?;
    if let Device::Cpu(cpu) = &mut device {
        cpu.threads = options.threads.max(1);
    }
    Ok(device)
}
