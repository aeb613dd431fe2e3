//! Effects on a stereo mix, in place.
//!
//! Each is the same bits for any size of blocks, allocates nothing while it runs, and comes to exact silence: what falls below
//! -180 dB of full scale is taken for nothing.

mod delay;
mod interpolate;
mod limiter;
mod ramp;
mod reverb;

pub use delay::{Delay, DelaySettings};
pub(crate) use interpolate::{HALF, Interpolator};
pub use limiter::Limiter;
pub use ramp::Ramp;
pub use reverb::{Reverb, ReverbSettings};

use melisma_kernels::signal::feedback::TINY;

/// `x`, or nothing where it is next to nothing. Also keeps numbers away that processors are slow with.
fn flush(x: f32) -> f32 {
    if x.abs() < TINY { 0.0 } else { x }
}

#[cfg(test)]
mod tests;
