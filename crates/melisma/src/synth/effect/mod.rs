//! Effects on a stereo mix, in place.
//!
//! Each gives the same bits for any block size, allocates nothing while it runs, and ends in exact silence: values below
//! -180 dB of full scale become 0.

mod delay;
mod limiter;
mod ramp;
mod reverb;

#[doc(hidden)]
pub use delay::Delay;
pub use delay::DelaySettings;
#[doc(hidden)]
pub use limiter::Limiter;
#[doc(hidden)]
pub use ramp::Ramp;
#[doc(hidden)]
pub use reverb::Reverb;
pub use reverb::ReverbSettings;

use melisma_kernels::signal::delay_network::TINY;

/// Computes `x`, or 0 where it is below -180 dB of full scale. This also avoids denormal numbers, which are slow.
fn flush(x: f32) -> f32 {
    if x.abs() < TINY { 0.0 } else { x }
}

/// Returns both sides, the longer cut to the shorter.
pub(super) fn same_len<'a>(left: &'a mut [f32], right: &'a mut [f32]) -> [&'a mut [f32]; 2] {
    let n = left.len().min(right.len());
    [&mut left[..n], &mut right[..n]]
}

#[cfg(test)]
mod tests;
