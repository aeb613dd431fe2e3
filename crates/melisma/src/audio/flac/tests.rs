use super::*;
use crate::audio::{Source, Target};
use crate::random::Lcg32;

/// Decodes with another project's decoder.
fn decode(bytes: &[u8], sample_rate: u32) -> (Vec<f32>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.flac");
    std::fs::write(&path, bytes).unwrap();
    let mut source = Source::open(&path, Target::new(sample_rate)).unwrap();
    let facts = source.facts().clone();
    let mut samples = vec![0.0; facts.n_samples as usize];
    source.read_f32(0, &mut samples).unwrap();
    (samples, facts.n_channels)
}

fn noise(n: usize, size: f32) -> Vec<f32> {
    let mut random = Lcg32::new(7);
    std::iter::repeat_with(|| size * random.signed()).take(n).collect()
}

fn sounds() -> Vec<(&'static str, Vec<f32>)> {
    let tone = |hz: f32| (0..10_000).map(|i| 0.7 * (i as f32 * hz * std::f32::consts::TAU / 48_000.0).sin()).collect();
    vec![
        ("noise", noise(9000, 1.0)),
        ("quiet noise", noise(9000, 1e-4)),
        ("tone", tone(440.0)),
        ("high tone", tone(11_000.0)),
        ("silence", vec![0.0; 5000]),
        ("full scale", (0..5000).map(|i| if i % 3 == 0 { 1.5 } else { -1.5 }).collect()),
        ("one", vec![0.25]),
        ("a few", noise(5, 0.5)),
        ("a block and one", noise(BLOCK + 1, 0.5)),
        ("a click", (0..5000).map(|i| if i == 2500 { 1.0 } else { 0.0 }).collect()),
        ("no numbers", vec![f32::NAN, f32::INFINITY, 0.5, f32::NEG_INFINITY]),
    ]
}

fn rounded(samples: &[f32], depth: Depth) -> Vec<f32> {
    let scale = (1u32 << (depth.bits() - 1)) as f32;
    samples.iter().map(|&sample| depth.integer(sample) as f32 / scale).collect()
}

#[test]
fn another_decoder_reads_the_same_bits() {
    for depth in [Depth::S16, Depth::S24] {
        for (name, samples) in sounds() {
            let bytes = encode(&Clip::mono(48_000, samples.clone()), depth).unwrap();
            let (found, n_channels) = decode(&bytes, 48_000);
            assert_eq!(n_channels, 1);
            assert!(found == rounded(&samples, depth), "{name} {depth:?}");
        }
    }
}

/// The decoder returns the mean of left and right, so one channel is silent, or both are the same.
#[test]
fn stereo_in_all_its_ways() {
    for depth in [Depth::S16, Depth::S24] {
        for (name, samples) in sounds() {
            let exact = rounded(&samples, depth);
            for [left, right] in [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.5], [0.5, 1.0]] {
                let frames: Vec<f32> = exact.iter().flat_map(|&x| [left * x, right * x]).collect();
                let both = rounded(&frames, depth);
                let clip = Clip { sample_rate: 44_100, n_channels: 2, samples: frames };
                let (found, n_channels) = decode(&encode(&clip, depth).unwrap(), 44_100);
                assert_eq!(n_channels, 2);
                let mean: Vec<f32> = both.chunks(2).map(|pair| (pair[0] + pair[1]) * 0.5).collect();
                assert!(found == mean, "{name} {depth:?} {left} {right}");
            }
        }
    }
}

#[test]
fn music_becomes_smaller() {
    let tone: Vec<f32> = (0..96_000u32)
        .map(|i| {
            (1..9u32)
                .map(|k| ((i * k * 7 % 48_000) as f32 * std::f32::consts::TAU / 1000.0).sin() / k as f32)
                .sum::<f32>()
                * 0.2
        })
        .collect();
    let bytes = encode(&Clip::mono(48_000, tone), Depth::S16).unwrap();
    assert!(bytes.len() < 96_000, "{}", bytes.len());
}

#[test]
fn frames_name_their_rate() {
    let samples = noise(BLOCK + 5, 0.5);
    for (sample_rate, code) in
        [(8_000, 4), (24_000, 7), (44_100, 9), (96_000, 11), (12_000, 12), (11_025, 13), (384_000, 14), (65_537, 0)]
    {
        let bytes = encode(&Clip::mono(sample_rate, samples.clone()), Depth::S16).unwrap();
        assert_eq!(bytes[HEAD + 2] & 15, code, "{sample_rate} Hz");
        assert!(decode(&bytes, sample_rate).0 == rounded(&samples, Depth::S16), "{sample_rate} Hz");
    }
}

#[test]
fn wrong_formats_are_refused() {
    for (rate, channels) in [(0, 1), (1_000_000, 1), (48_000, 0), (48_000, 9)] {
        assert!(Writer::new(Cursor::new(Vec::new()), rate, channels, Depth::S16).is_err());
    }
}

#[test]
fn numbers_in_the_manner_of_utf8() {
    for (value, expected) in [
        (0x7f, &[0x7f][..]),
        (0x80, &[0xc2, 0x80]),
        (0x7ff, &[0xdf, 0xbf]),
        (0x800, &[0xe0, 0xa0, 0x80]),
        (0x1_0000, &[0xf0, 0x90, 0x80, 0x80]),
        (0x7fff_ffff, &[0xfd, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf]),
    ] {
        let mut bits = Bits::default();
        bits.put_coded(value);
        assert_eq!(bits.bytes(), expected);
    }
}
