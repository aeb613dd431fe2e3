//! The memory that `melisma mel` needs.

use melisma::Context;
use melisma::audio::{Facts, SampleType};
use melisma::mel::Transform;
use melisma::runtime::device::Device;
use melisma::runtime::memory::{Reservation, Space};
use melisma::{Error, Remedy, Result};

use super::Kind;

/// The most bytes of a picture and its compressed copy.
const PICTURE_BYTES: u64 = 8 << 20;

/// Reserves the peak memory for the spectrograms of `files`.
pub fn reserve(context: &Context, kind: Kind, transform: &Transform, files: &[Facts]) -> Result<Reservation> {
    let config = transform.config();
    let (mut most, mut finished, mut on_device, mut longest) = (0, 0, 0, 0);
    for file in files {
        let n_frames = config.n_frames(file.n_samples as usize)?;
        longest = longest.max(n_frames);
        let n_values = (config.n_mels * n_frames) as u64;
        let values = n_values * config.dtype.bytes() as u64;
        let samples = file.n_samples * if file.element == SampleType::I16 { 2 } else { 4 };
        on_device = on_device.max(samples + values);
        most = most.max(match kind {
            Kind::Npy | Kind::Folder => samples + values,
            // Levels are computed from floats.
            Kind::Picture => values + samples.max(8 * n_values + PICTURE_BYTES),
            Kind::Safetensors => finished + samples + values,
        });
        finished += values;
    }
    if kind == Kind::Safetensors {
        // The file is assembled in memory.
        most = most.max(2 * finished);
    }
    let budget = context.budget();
    let fits = |space: Space, bytes: u64| {
        budget.reserve(space, bytes).map(drop).map_err(|error| {
            let least = bytes.div_ceil(1 << 20) << 20;
            Error::new(error.kind(), error.to_string()).with_hint(Remedy::RaiseMemoryLimit { least: Some(least) })
        })
    };
    // The transform later takes its scratch and its device memory from the same budget.
    fits(Space::Host, most + transform.scratch_bytes(longest))?;
    if matches!(context.device(), Device::Cuda(_)) {
        fits(Space::Device, on_device)?;
    }
    budget.reserve(Space::Host, most)
}
