//! Clips from and to files.

use std::io::Cursor;
use std::path::Path;

use super::{Clip, Layout};
use crate::audio::wav::SampleFormat;
use crate::audio::{Channel, Format, Rates, Reads, Source, Target, Writer};
use crate::{Error, ErrorKind, Existing, Result, output};

impl Clip {
    /// Reads all channels of the file `path`, at its own rate.
    ///
    /// # Errors
    /// As [`Source::open`]; `Memory` if its samples do not fit into memory.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut source = Source::unchanged(path, Channel::One(0))?;
        let facts = source.facts().clone();
        let n_channels = facts.n_channels;
        let n_samples = usize::try_from(facts.n_samples).unwrap_or(usize::MAX);
        let (mut samples, mut one) = (Vec::new(), Vec::new());
        zeros(&mut samples, n_samples.saturating_mul(n_channels))?;
        zeros(&mut one, if n_channels > 1 { n_samples } else { 0 })?;
        if n_channels == 1 {
            source.read_f32(0, &mut samples)?;
        } else {
            for index in 0..n_channels {
                if index > 0 {
                    let target =
                        Target { sample_rate: facts.sample_rate, channel: Channel::One(index), rates: Rates::Any };
                    source = Source::reopen(path, target, facts.n_original, Reads::Direct)?;
                }
                source.read_f32(0, &mut one)?;
                let places = samples.iter_mut().skip(index).step_by(n_channels);
                places.zip(&one).for_each(|(place, sample)| *place = *sample);
            }
        }
        Ok(Self { sample_rate: facts.sample_rate, n_channels, samples })
    }

    /// Writes it to the file `path` in the format that the suffix names, with 16 bits where the format stores samples.
    ///
    /// # Errors
    /// As [`Format::of`] and [`Writer::new`], or the file cannot be written, or exists and may not be replaced.
    pub fn write(&self, path: impl AsRef<Path>, existing: Existing) -> Result<()> {
        let path = path.as_ref();
        let format = Format::of(path, SampleFormat::S16)?;
        let bytes = self.encode(format).map_err(|error| error.at(path.display()))?;
        output::write(path, &bytes, existing)
    }

    fn encode(&self, format: Format) -> Result<Vec<u8>> {
        let layout = Layout { sample_rate: self.sample_rate, n_channels: self.n_channels };
        let mut writer = Writer::new(Cursor::new(Vec::new()), format, layout)?;
        writer.write(&self.samples)?;
        Ok(writer.seal()?.into_inner())
    }
}

fn zeros(samples: &mut Vec<f32>, n: usize) -> Result<()> {
    samples
        .try_reserve_exact(n)
        .map_err(|_| Error::new(ErrorKind::Memory, format!("{n} samples do not fit into memory")))?;
    samples.resize(n, 0.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::wav;

    #[test]
    fn all_channels_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clip.wav");
        for n_channels in [1, 2, 3] {
            let samples = (0..300).map(|n| n as f32 / 512.0).collect();
            let clip = Clip { sample_rate: 11_025, n_channels, samples };
            std::fs::write(&path, wav::encode(&clip, SampleFormat::F32).unwrap()).unwrap();
            assert_eq!(Clip::read(&path).unwrap(), clip);
        }
    }

    #[test]
    fn a_file_is_replaced_only_where_that_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clip.wav");
        let clip = |sample| Clip::mono(8000, vec![sample; 80]);
        clip(0.25).write(&path, Existing::Refuse).unwrap();
        assert_eq!(clip(0.5).write(&path, Existing::Refuse).unwrap_err().kind(), ErrorKind::Exists);
        assert_eq!(Clip::read(&path).unwrap(), clip(0.25));
        clip(0.5).write(&path, Existing::Replace).unwrap();
        let half = Clip { sample_rate: 8000, n_channels: 2, samples: vec![0.0; 3] };
        let error = half.write(&path, Existing::Replace).unwrap_err();
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        assert_eq!(Clip::read(&path).unwrap(), clip(0.5));
    }
}
