//! Clips in memory. `file` reads and writes them with the formats, which use clips themselves.

mod file;

use super::Channel;

/// Audio in memory: interleaved samples with a full scale of -1..=1.
///
/// ```no_run
/// use melisma::Existing;
/// use melisma::audio::Clip;
///
/// let clip = Clip::read("speech.mp3")?;
/// println!("{:.2} s, {} channels", clip.seconds(), clip.n_channels);
/// clip.write("speech.flac", Existing::Refuse)?;
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Clip {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// The number of channels, at least one.
    pub n_channels: usize,
    /// `[T, C]`, interleaved.
    pub samples: Vec<f32>,
}

impl Clip {
    /// Creates a mono clip at `sample_rate` Hz.
    pub fn mono(sample_rate: u32, samples: Vec<f32>) -> Self {
        Self { sample_rate, n_channels: 1, samples }
    }

    /// Returns the number of samples per channel.
    pub fn n_frames(&self) -> usize {
        self.samples.len() / self.n_channels.max(1)
    }

    /// Returns the length in seconds.
    pub fn seconds(&self) -> f64 {
        self.n_frames() as f64 / f64::from(self.sample_rate.max(1))
    }

    /// Returns the mean of all channels, `[T]`.
    pub fn downmix(&self) -> Vec<f32> {
        Channel::Mix.pick(&self.samples, self.n_channels).collect()
    }
}

/// The rate and the channels of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Channels, interleaved.
    pub n_channels: usize,
}

impl Layout {
    /// Returns `n_channels` channels at `sample_rate` Hz.
    pub fn new(sample_rate: u32, n_channels: usize) -> Self {
        Self { sample_rate, n_channels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downmix_is_the_mean() {
        let clip = Clip { sample_rate: 8000, n_channels: 2, samples: vec![1.0, 0.0, -0.5, 0.5] };
        assert_eq!(clip.downmix(), [0.5, 0.0]);
        assert_eq!(clip.n_frames(), 2);
        assert_eq!(clip.seconds(), 2.0 / 8000.0);
    }
}
