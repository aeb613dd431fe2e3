//! `melisma.snac`: codec tokens to audio and back.

mod codes;
mod decoder;
mod encoder;
mod model;
mod population;
mod stream;

pub use decoder::PyDecoder;
pub use encoder::{PyEncoder, PyStreamEncoder};
pub use model::Codec;
pub use population::populate;
pub use stream::PyStreamDecoder;
