//! `melisma.synth`: scores and generated music to audio.

mod live;
mod performance;
mod score;

pub use live::PyStream;
pub use performance::render;
pub use score::{PyScore, styles};
