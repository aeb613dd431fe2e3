use super::header::{Coding, Header};
use super::{SampleFormat, sample};
use crate::Result;
use crate::audio::Clip;

/// A WAV file in memory with a checked header; samples are converted on demand.
#[derive(Debug, Clone)]
pub struct Wav<'a> {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// The number of channels, at least one.
    pub n_channels: usize,
    /// How samples are stored; A-law and mu-law decode to 16-bit integers.
    pub format: SampleFormat,
    /// A defect of the file that was repaired, in words for the user.
    pub note: Option<String>,
    coding: Coding,
    data: &'a [u8],
}

/// Reads the header of a WAV file.
///
/// # Errors
/// `Corrupt` if the header contradicts itself, `Truncated` if the file ends before its data,
/// `Unsupported` for other encodings and for more than 256 channels. A data size of 0 or
/// 0xFFFFFFFF, which writers into pipes store, is valid: the data then extends to the end of the
/// file, and [`Wav::note`] says so.
pub fn decode(bytes: &[u8]) -> Result<Wav<'_>> {
    let Header { sample_rate, n_channels, coding, data_at, data_len, note } = Header::read(bytes)?;
    let data = &bytes[data_at as usize..][..data_len as usize];
    Ok(Wav { sample_rate, n_channels, format: coding.format(), note, coding, data })
}

impl Wav<'_> {
    /// Returns the number of samples per channel.
    pub fn n_frames(&self) -> usize {
        self.data.len() / (self.n_channels * self.coding.bytes())
    }

    /// Returns all samples; NaN and infinities are preserved.
    pub fn to_clip(&self) -> Clip {
        let mut samples = vec![0.0; self.data.len() / self.coding.bytes()];
        sample::to_f32(self.coding, self.data, &mut samples);
        Clip { sample_rate: self.sample_rate, n_channels: self.n_channels, samples }
    }
}
