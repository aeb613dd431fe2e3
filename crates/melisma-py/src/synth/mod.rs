//! `melisma.synth`: scores and generated music to audio.

mod clips;
mod live;
mod performance;
mod score;

pub use clips::make_clips;
pub use live::PyStream;
pub use performance::render;
pub use score::{PyScore, styles};
