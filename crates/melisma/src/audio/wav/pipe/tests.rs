use super::*;
use crate::audio::Clip;
use crate::audio::wav::{SampleFormat, encode};

/// Gives one byte for each read, as a slow pipe does.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.len().min(to.len()).min(1);
        to[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

fn clip() -> Clip {
    Clip { sample_rate: 8000, n_channels: 2, samples: (0..2000).map(|i| i as f32 / 4096.0).collect() }
}

fn file(clip: &Clip) -> Vec<u8> {
    encode(clip, SampleFormat::S16).unwrap()
}

fn all(source: impl Read, channel: Channel, piece: usize) -> Result<(Vec<f32>, Option<String>)> {
    let mut pipe = Pipe::open(source)?;
    let (mut samples, mut to) = (Vec::new(), vec![0.0; piece]);
    loop {
        match pipe.read_mono(channel, &mut to)? {
            0 => return Ok((samples, pipe.header().note.clone())),
            n => samples.extend_from_slice(&to[..n]),
        }
    }
}

/// The size in the data chunk's header, which is the last field before the samples.
fn declare(bytes: &mut [u8], size: u32) {
    bytes[40..44].copy_from_slice(&size.to_le_bytes());
}

#[test]
fn samples_are_the_same_for_every_pace() {
    let (clip, bytes) = (clip(), file(&clip()));
    for piece in [1, 7, 1 << 14] {
        assert_eq!(all(&bytes[..], Channel::Mix, piece).unwrap(), (clip.downmix(), None));
        assert_eq!(all(Slow(&bytes), Channel::Mix, piece).unwrap(), (clip.downmix(), None));
    }
    let right: Vec<f32> = clip.samples.iter().skip(1).step_by(2).copied().collect();
    assert_eq!(all(&bytes[..], Channel::One(1), 99).unwrap().0, right);
}

#[test]
fn placeholder_sizes_are_read_to_the_end() {
    for size in [0, u32::MAX, 0x7fff_f000, 0x7fff_ffff, 0x8000_0000] {
        let mut bytes = file(&clip());
        declare(&mut bytes, size);
        let (samples, note) = all(Slow(&bytes), Channel::Mix, 99).unwrap();
        assert_eq!(samples, clip().downmix(), "{size}");
        assert_eq!(note.unwrap(), "the data size is not in the header; read to the end");
        bytes.truncate(bytes.len() - 3);
        let (samples, note) = all(&bytes[..], Channel::Mix, 99).unwrap();
        assert_eq!((samples.len(), note.unwrap().as_str()), (999, "left out 1 byte after the last whole sample"));
    }
}

#[test]
fn declared_sizes_hold() {
    let mut bytes = file(&clip());
    let error = all(&bytes[..bytes.len() - 3], Channel::Mix, 99).unwrap_err();
    assert_eq!(error.to_string(), "4000 bytes of samples are declared, 3997 are there");
    bytes.extend(b"LIST\x04\0\0\0abcd");
    assert_eq!(all(&bytes[..], Channel::Mix, 99).unwrap(), (clip().downmix(), None));
    let mut empty = file(&Clip { samples: Vec::new(), ..clip() });
    assert_eq!(all(&empty[..], Channel::Mix, 9).unwrap(), (Vec::new(), None));
    declare(&mut empty, 4);
    assert!(all(&empty[..], Channel::Mix, 9).is_err());
}

#[test]
fn long_chunks_before_the_samples_are_skipped() {
    let bytes = file(&clip());
    let list = [&b"LIST"[..], &200_000u32.to_le_bytes(), &[7; 200_000]].concat();
    let bytes = [&bytes[..12], &list, &bytes[12..36], &list, &bytes[36..]].concat();
    assert_eq!(all(&bytes[..], Channel::Mix, 1 << 14).unwrap().0, clip().downmix());
    for len in [0, 3, 11, 12, 40, 63, 64, 65, 100_000, 200_050, 400_050] {
        assert!(all(&bytes[..len], Channel::Mix, 99).is_err(), "{len}");
    }
}
