//! Streams of one channel from files and pipes: every format, rate and pace gives the samples of
//! [`Source`].

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use melisma::audio::{Channel, Clip, Rates, Source, Stream, Target, wav};
use melisma::{ErrorKind, Result};

use crate::repository;

const NAMES: [&str; 13] = [
    "tone.flac",
    "tone.ogg",
    "tone.mp3",
    "tone_lame.mp3",
    "tone_late.ogg",
    "tone_late_flac.ogg",
    "tone_mulaw.wav",
    "tone.w64",
    "tone_rf64.wav",
    "tone_be.wav",
    "tone_ext.wav",
    "tone_f64.wav",
    "tone.aiff",
];

fn golden(name: &str) -> PathBuf {
    repository::path("golden/mel").join(name)
}

/// A pipe whose reads return a few bytes each.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = to.len().min(333);
        self.0.read(&mut to[..n])
    }
}

fn pipe(bytes: Vec<u8>, target: Target) -> Result<Stream> {
    Stream::live(Slow(Cursor::new(bytes)), target)
}

fn all(mut stream: Stream) -> Result<(Vec<f32>, Vec<String>)> {
    let mut samples = Vec::new();
    loop {
        let read = stream.read()?;
        if read.is_empty() {
            assert_eq!(stream.n_read(), samples.len() as u64);
            assert!(stream.n_samples().is_none_or(|n| n == samples.len() as u64));
            return Ok((samples, stream.notes()));
        }
        samples.extend_from_slice(read);
    }
}

fn read_all(path: &Path, target: Target) -> Vec<f32> {
    let mut source = Source::open(path, target).unwrap();
    let mut samples = vec![0.0; source.facts().n_samples as usize];
    source.read_f32(0, &mut samples).unwrap();
    samples
}

fn wav(sample_rate: u32, n_channels: usize, samples: Vec<f32>) -> Vec<u8> {
    wav::encode(&Clip { sample_rate, n_channels, samples }, wav::SampleFormat::F32).unwrap()
}

#[test]
fn files_and_pipes_give_the_samples_of_a_source() {
    for name in NAMES {
        for rate in [16_000, 24_000, 8_000] {
            let expected = read_all(&golden(name), Target::new(rate));
            let (samples, notes) = all(Stream::open(golden(name), Target::new(rate)).unwrap()).unwrap();
            assert_eq!(samples, expected, "{name} at {rate} Hz");
            let is_noted = notes.iter().any(|note| *note == format!("resampled from 16000 Hz to {rate} Hz"));
            assert_eq!(is_noted, rate != 16_000, "{name}: {notes:?}");
            let stream = pipe(fs::read(golden(name)).unwrap(), Target::new(rate))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(all(stream).unwrap().0, expected, "{name} at {rate} Hz from a pipe");
        }
    }
}

#[test]
fn m4a_needs_a_file() {
    assert_eq!(all(Stream::open(golden("tone.m4a"), Target::new(16_000)).unwrap()).unwrap().0.len(), 6400);
    let error = pipe(fs::read(golden("tone.m4a")).unwrap(), Target::new(16_000)).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Unsupported, "M4A is not read from a pipe"));
}

#[test]
fn every_channel_can_be_read() {
    let frames: Vec<f32> = (0..800).map(|i| (i / 8) as f32 / 256.0 + (i % 8) as f32 / 1024.0).collect();
    let bytes = wav(24_000, 8, frames.clone());
    for index in 0..8 {
        let target = Target::new(24_000).with_channel(Channel::One(index));
        let (samples, notes) = all(pipe(bytes.clone(), target).unwrap()).unwrap();
        let expected: Vec<f32> = frames.iter().skip(index).step_by(8).copied().collect();
        assert_eq!(samples, expected);
        assert_eq!(notes, [format!("only channel {} of 8 was read", index + 1)]);
    }
    assert_eq!(
        all(pipe(bytes.clone(), Target::new(24_000)).unwrap()).unwrap().1,
        ["8 channels were mixed down to one"]
    );
    let target = Target::new(24_000).with_channel(Channel::One(8));
    let error = pipe(bytes, target).unwrap_err();
    assert_eq!(error.to_string(), "channel 9 is not there: the recording has 8 channels");
    // The right channel of these files is half the left one.
    for name in ["tone.flac", "tone.ogg", "tone_ext.wav"] {
        let of = |channel| read_all(&golden(name), Target::new(24_000).with_channel(channel));
        let (left, right, mix) = (of(Channel::One(0)), of(Channel::One(1)), of(Channel::Mix));
        let peak = |samples: &[f32]| samples.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
        assert!((peak(&right) / peak(&left) - 0.5).abs() < 0.05, "{name}");
        assert!((peak(&mix) / peak(&left) - 0.75).abs() < 0.05, "{name}");
        let error = Source::open(golden(name), Target::new(24_000).with_channel(Channel::One(2))).unwrap_err();
        assert_eq!(error.to_string(), "channel 3 is not there: the recording has 2 channels", "{name}");
    }
}

#[test]
fn rates_that_recordings_do_not_have_are_refused() {
    let target = Target::new(24_000).with_rates(Rates::Recorded);
    for (rate, is_read) in
        [(1, false), (999, false), (1000, true), (768_000, true), (768_001, false), (3_072_000, false)]
    {
        let stream = pipe(wav(rate, 1, vec![0.1; 100]), target);
        match stream {
            Ok(stream) => assert_eq!(all(stream).unwrap().0.len(), (100 * 24_000usize).div_ceil(rate as usize)),
            Err(error) => {
                let expected = format!("a sample rate of {rate} Hz; 1000 to 768000 are read");
                assert_eq!((is_read, error.to_string()), (false, expected));
            }
        }
    }
}

#[test]
fn samples_that_are_not_numbers_are_named() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut samples = vec![0.0; 40_000];
        samples[30_001] = bad;
        for rate in [24_000, 16_000] {
            let error = all(pipe(wav(16_000, 1, samples.clone()), Target::new(rate)).unwrap()).unwrap_err();
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Corrupt, format!("sample 30001 is {bad}")));
        }
    }
}

#[test]
fn clipped_audio_is_noted() {
    let mut samples = vec![0.5; 40_000];
    samples[100..102].fill(1.0);
    assert_eq!(all(pipe(wav(24_000, 1, samples.clone()), Target::new(24_000)).unwrap()).unwrap().1, [""; 0]);
    samples[16_382..16_387].fill(-1.2);
    samples[20_000..20_003].fill(1.0);
    let notes = all(pipe(wav(24_000, 1, samples), Target::new(24_000)).unwrap()).unwrap().1;
    assert_eq!(notes, ["clipped: 8 samples at full scale in 2 runs, the first at sample 16382"]);
}

#[test]
fn short_and_empty_inputs() {
    for n in [0, 1, 2] {
        let bytes = wav(16_000, 1, vec![0.25; n]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.wav");
        fs::write(&path, &bytes).unwrap();
        for stream in [Stream::open(&path, Target::new(48_000)).unwrap(), pipe(bytes, Target::new(48_000)).unwrap()] {
            assert_eq!(all(stream).unwrap().0.len(), 3 * n);
        }
    }
    assert_eq!(pipe(Vec::new(), Target::new(24_000)).unwrap_err().to_string(), "the pipe is empty");
    assert!(pipe(b"neither this nor that, but long enough".to_vec(), Target::new(24_000)).is_err());
}
