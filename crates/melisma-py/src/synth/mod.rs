//! `melisma.synth`: scores and generated music to audio.

mod clips;
mod live;
mod performance;
mod score;
mod solo;
mod variation;

pub use clips::make_clips;
pub use live::PyStream;
pub use performance::{render, stems};
pub use score::{PyScore, seed, styles};
pub use solo::voices;
pub use variation::preset_yaml;
