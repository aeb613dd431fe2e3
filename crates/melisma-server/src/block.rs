//! Binary blocks of samples: `{u64 position, u32 samples, u32 flags, samples}`, little-endian.

use melisma::audio::wav::SampleFormat;
use serde_json::{Value, json};

use crate::audio::Layout;
use crate::http::failure::Failure;
use crate::http::query::Query;

/// The last block. Bit 0, a gap before the block, is never set: streams have no gaps.
const LAST: u32 = 2;
/// Samples are 32-bit floats, else 16-bit integers.
const FLOATS: u32 = 4;

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Index of its first sample.
    pub position: u64,
    /// Samples per channel.
    pub n_samples: usize,
    /// Whether the stream ends with it.
    pub is_last: bool,
}

impl Head {
    /// Returns the block with its samples, which are encoded already.
    pub fn with(self, format: SampleFormat, samples: &[u8]) -> Vec<u8> {
        let last = if self.is_last { LAST } else { 0 };
        let floats = if format.is_float() { FLOATS } else { 0 };
        let mut bytes = Vec::with_capacity(16 + samples.len());
        bytes.extend_from_slice(&self.position.to_le_bytes());
        bytes.extend_from_slice(&(self.n_samples as u32).to_le_bytes());
        bytes.extend_from_slice(&(last | floats).to_le_bytes());
        bytes.extend_from_slice(samples);
        bytes
    }
}

/// Returns the parameter `sample_format`: 16-bit integers unless floats are asked for.
///
/// # Errors
/// It is neither.
pub fn sample_format(query: &mut Query) -> Result<SampleFormat, Failure> {
    let format = query.value("sample_format", "s16 or f32", |text| match text {
        "s16" => Some(SampleFormat::S16),
        "f32" => Some(SampleFormat::F32),
        _ => None,
    })?;
    Ok(format.unwrap_or_default())
}

/// Returns the message before the first block.
pub fn start(format: SampleFormat, layout: Layout) -> Value {
    json!({
        "type": "start",
        "sample_rate_hz": layout.sample_rate,
        "channels": layout.n_channels,
        "sample_format": if format.is_float() { "f32" } else { "s16" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_laid_out_as_documented() {
        let head = Head { position: 0x0102, n_samples: 2, is_last: true };
        let expected = [2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 9, 9, 8, 8];
        assert_eq!(head.with(SampleFormat::S16, &[9, 9, 8, 8]), expected);
        assert_eq!(head.with(SampleFormat::F32, &[])[12], 6);
    }
}
