//! Signals: spectrograms, synthesiser voices and networks of delay lines.

pub mod feedback;
pub mod mel;
pub mod voice;
