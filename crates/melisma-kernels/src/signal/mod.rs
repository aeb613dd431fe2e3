//! Signals: spectrograms, synthesiser voices and networks of delay lines.

use crate::device::cuda::Header;

pub mod delay_network;
pub mod mel;
pub mod voice;

/// In-register transforms and the twiddles between them.
pub(crate) const BUTTERFLY: Header = Header { name: "butterfly.cuh", text: include_str!("butterfly.cuh") };
