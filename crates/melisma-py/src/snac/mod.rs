//! `melisma.snac`: codec tokens to audio and back.

mod codec;
mod codes;
mod decoder;
mod encoder;
mod opened;
mod population;
mod stream_decoder;
mod stream_encoder;

pub use codec::PyCodec;
pub use opened::Codec;
pub use population::{populate, validate};
pub use stream_decoder::PyStreamDecoder;
pub use stream_encoder::PyStreamEncoder;

use melisma::snac::Noise;

/// Returns the noise of a seed; no noise without a seed.
fn noise(seed: Option<u64>) -> Noise {
    seed.map_or(Noise::Off, Noise::Seed)
}
