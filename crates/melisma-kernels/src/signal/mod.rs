//! Signals: spectrograms, synthesiser voices and networks of delay lines.

use crate::device::cuda::Header;

pub mod feedback;
pub mod mel;
pub mod voice;

/// Transforms in registers and the steps between them.
pub(crate) const BUTTERFLY: Header = Header { name: "butterfly.cuh", text: include_str!("butterfly.cuh") };
