use super::header::{Coding, Header};
use super::{SampleFormat, sample};
use crate::Result;
use crate::audio::Clip;

/// A WAV file in memory whose header was checked; samples are converted on demand.
#[derive(Debug, Clone)]
pub struct Wav<'a> {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Channels, at least one.
    pub n_channels: usize,
    /// How samples are stored; A-law and mu-law are 16-bit integers once decoded.
    pub format: SampleFormat,
    /// What was wrong with the file and repaired, for the user.
    pub note: Option<String>,
    coding: Coding,
    data: &'a [u8],
}

/// Reads the header of a WAV file.
///
/// # Errors
/// `Corrupt` when the header contradicts itself, `Truncated` when the file ends before its data does, `Unsupported` for
/// other codings and for more than 256 channels. A data size of 0 or 0xFFFFFFFF, as written into pipes, is no error:
/// the data reaches to the end of the file then, and [`Wav::note`] says so.
pub fn read(bytes: &[u8]) -> Result<Wav<'_>> {
    let Header { sample_rate, n_channels, coding, data_at, data_len, note } = Header::read(bytes)?;
    let data = &bytes[data_at as usize..][..data_len as usize];
    Ok(Wav { sample_rate, n_channels, format: coding.format(), note, coding, data })
}

impl Wav<'_> {
    /// Samples per channel.
    pub fn n_frames(&self) -> usize {
        self.data.len() / (self.n_channels * self.coding.bytes())
    }

    /// All samples; a NaN or infinity in the file stays what it is.
    pub fn to_clip(&self) -> Clip {
        let mut samples = vec![0.0; self.data.len() / self.coding.bytes()];
        sample::to_f32(self.coding, self.data, &mut samples);
        Clip { sample_rate: self.sample_rate, n_channels: self.n_channels, samples }
    }
}
