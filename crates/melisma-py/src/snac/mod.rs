//! `melisma.snac`: codec tokens to audio and back.

mod codec;
mod codes;
mod decoder;
mod encoder;
mod population;
mod stream;

pub use codec::{Codec, PyCodec};
pub use encoder::PyStreamEncoder;
pub use population::{populate, validate};
pub use stream::PyStreamDecoder;

use melisma::snac::Noise;

/// Returns the noise of a seed; no noise without a seed.
fn noise(seed: Option<u64>) -> Noise {
    seed.map_or(Noise::Off, Noise::Seed)
}
