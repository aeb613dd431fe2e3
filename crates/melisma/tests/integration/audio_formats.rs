//! Files that libsndfile and FFmpeg have written: the same tone in every format.

use std::path::PathBuf;

use melisma::audio::{Reads, SampleType, Source, Target};

use crate::repository;

const N: usize = 6400;

fn golden(name: &str) -> PathBuf {
    repository::path("golden/mel").join(name)
}

/// 440 Hz under a Hann window.
fn tone(i: usize) -> f32 {
    let window = 0.5 - 0.5 * (std::f64::consts::TAU * i as f64 / (N - 1) as f64).cos();
    (0.4 * window * (std::f64::consts::TAU * 440.0 * i as f64 / 16_000.0).sin()) as f32
}

fn all(source: &mut Source) -> Vec<f32> {
    let mut samples = vec![0.0; source.facts().n_samples as usize];
    source.read_f32(0, &mut samples).unwrap();
    samples
}

#[test]
fn every_format_gives_the_tone() {
    // Name, channels, the factor of the mean, and the largest error of a sample.
    let cases = [
        ("tone.flac", 2, 0.75, 3e-5),
        ("tone.ogg", 2, 0.75, 0.03),
        ("tone.mp3", 1, 1.0, 0.03),
        ("tone_alaw.wav", 1, 1.0, 0.01),
        ("tone_mulaw.wav", 1, 1.0, 0.01),
        ("tone.w64", 1, 1.0, 1e-6),
        ("tone_rf64.wav", 1, 1.0, 1e-6),
        ("tone_be.wav", 1, 1.0, 3.1e-5),
        ("tone_ext.wav", 2, 0.75, 1e-6),
        ("tone_f64.wav", 1, 1.0, 1e-6),
        ("tone_u8.wav", 1, 1.0, 8e-3),
        ("tone.aiff", 1, 1.0, 3.1e-5),
        ("tone.m4a", 1, 1.0, 0.03),
        ("tone_alac.m4a", 1, 1.0, 3.1e-5),
        ("tone_lame.mp3", 1, 1.0, 0.03),
        ("tone_late.ogg", 2, 0.75, 0.03),
        ("tone_late_flac.ogg", 1, 1.0, 3.1e-5),
    ];
    for (name, n_channels, factor, tolerance) in cases {
        let mut source =
            Source::open(golden(name), Target::new(16_000)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let facts = source.facts().clone();
        assert_eq!((facts.n_channels, facts.sample_rate, &facts.note), (n_channels, 16_000, &None), "{name}");
        let samples = all(&mut source);
        assert!((N..N + 2400).contains(&samples.len()), "{name}: {} samples", samples.len());
        for (i, &found) in samples.iter().enumerate().take(N) {
            let expected = factor * tone(i);
            assert!((found - expected).abs() <= tolerance, "{name}[{i}]: {found}, not {expected}");
        }
    }
}

#[test]
fn parts_are_those_of_the_whole_in_any_order() {
    for name in ["tone.flac", "tone.mp3", "tone_mulaw.wav"] {
        for rate in [16_000, 22_050, 8_000] {
            let mut source = Source::open(golden(name), Target::new(rate)).unwrap();
            let whole = all(&mut source);
            let n_original = source.facts().n_original;
            let mut again = Source::reopen(golden(name), Target::new(rate), n_original, Reads::Direct).unwrap();
            assert_eq!(again.facts(), source.facts());
            for (first, n) in [(1000, 500), (1200, 700), (10, 100), (2000, 1), (whole.len() - 300, 300)] {
                let mut part = vec![0.0; n];
                again.read_f32(first as u64, &mut part).unwrap();
                assert_eq!(part, whole[first..first + n], "{name} at {rate} Hz, {n} from {first}");
            }
            assert!(again.read_f32(whole.len() as u64, &mut [0.0; 2]).is_err());
        }
    }
}

#[test]
fn integers_stay_integers() {
    let mut source = Source::open(golden("tone_be.wav"), Target::new(16_000)).unwrap();
    assert_eq!(source.facts().element, SampleType::I16);
    let mut integers = vec![0i16; N];
    source.read_i16(0, &mut integers).unwrap();
    let floats = all(&mut source);
    assert!(integers.iter().zip(&floats).all(|(&a, &b)| f32::from(a) / 32_768.0 == b));
    assert_eq!(Source::open(golden("tone_be.wav"), Target::new(8000)).unwrap().facts().element, SampleType::F32);
}

#[test]
fn cut_and_changed_files_are_errors_not_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    for name in ["tone.flac", "tone.ogg", "tone.mp3", "tone.aiff", "tone.w64", "tone_ext.wav"] {
        let whole = std::fs::read(golden(name)).unwrap();
        for cut in [0, 1, 11, 12, 40, 100, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            if let Ok(mut source) = Source::open(&path, Target::new(16_000)) {
                assert!(source.facts().n_samples as usize <= 2 * N);
                let mut samples = vec![0.0; source.facts().n_samples as usize];
                let _ = source.read_f32(0, &mut samples);
            }
        }
        for at in (0..whole.len()).step_by(1 + whole.len() / 60) {
            let mut changed = whole.clone();
            changed[at] ^= 0x5a;
            std::fs::write(&path, &changed).unwrap();
            let _ = Source::open(&path, Target::new(16_000));
        }
    }
}

#[test]
fn what_encoders_added_is_left_out() {
    for name in ["tone.flac", "tone.ogg", "tone.m4a", "tone_alac.m4a", "tone_lame.mp3", "tone.aiff"] {
        assert_eq!(Source::open(golden(name), Target::new(16_000)).unwrap().facts().n_samples, N as u64, "{name}");
    }
}

#[test]
fn streams_that_follow_each_other_are_one_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.ogg");
    let once = std::fs::read(golden("tone.ogg")).unwrap();
    std::fs::write(&path, [&once[..], &once].concat()).unwrap();
    let samples = all(&mut Source::open(&path, Target::new(16_000)).unwrap());
    assert_eq!(samples.len(), 2 * N);
    assert_eq!(samples[..N], samples[N..]);
}

/// The clocks of these begin at 5 seconds, as in the recording of a stream.
#[test]
fn a_clock_may_start_late() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.ogg");
    for name in ["tone_late.ogg", "tone_late_flac.ogg"] {
        let samples = all(&mut Source::open(golden(name), Target::new(16_000)).unwrap());
        assert_eq!(samples.len(), N, "{name}");
        let once = std::fs::read(golden(name)).unwrap();
        std::fs::write(&path, [&once[..], &once].concat()).unwrap();
        assert_eq!(
            all(&mut Source::open(&path, Target::new(16_000)).unwrap()),
            [&samples[..], &samples].concat(),
            "{name}"
        );
    }
}

/// Where the frames of an MP3 file at 16 kHz begin.
fn frames_of_mp3(bytes: &[u8]) -> Vec<usize> {
    const BIT_RATES: [usize; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    let mut at = match bytes {
        [b'I', b'D', b'3', _, _, _, _, _, high, low, ..] => 10 + (usize::from(*high) << 7 | usize::from(*low)),
        _ => 0,
    };
    let mut starts = Vec::new();
    while at + 4 <= bytes.len() {
        starts.push(at);
        at += 72_000 * BIT_RATES[usize::from(bytes[at + 2] >> 4)] / 16_000 + usize::from(bytes[at + 2] >> 1 & 1);
    }
    starts
}

#[test]
fn an_mp3_file_without_one_frame_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.mp3");
    for name in ["tone.mp3", "tone_lame.mp3"] {
        let whole = std::fs::read(golden(name)).unwrap();
        let mut starts = frames_of_mp3(&whole);
        starts.push(whole.len());
        for frame in starts[1..].windows(2) {
            std::fs::write(&path, [&whole[..frame[0]], &whole[frame[1]..]].concat()).unwrap();
            let error = Source::open(&path, Target::new(16_000)).unwrap_err().to_string();
            assert!(error.contains("MP3 frames are declared"), "{name}: {error}");
        }
    }
}

/// Without a header the length of a file whose bit rate varies is not known before its end.
#[test]
fn no_mp3_frame_is_cut_off_for_lack_of_a_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.mp3");
    // 8 kbit/s after frames of 64 kbit/s, which hold no sound.
    let frame = |head: u8, len: usize| [&[0xff, 0xf3, head, 0xc0][..], &vec![0; len - 4]].concat();
    let bytes = [frame(0x88, 288).repeat(20), frame(0x18, 36).repeat(40)].concat();
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(Source::open(&path, Target::new(16_000)).unwrap().facts().n_samples, 60 * 576);
}

#[test]
fn flipped_bits_in_mp3_frames_are_noticed() {
    for name in ["tone.mp3", "tone_lame.mp3"] {
        let whole = std::fs::read(golden(name)).unwrap();
        let first = frames_of_mp3(&whole)[1];
        flips_are_noticed(name, (0..200).map(|i| first + i * (whole.len() - first) / 200));
    }
}

#[test]
fn tags_around_mp3_frames_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.mp3");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Source::open(&path, Target::new(16_000)).map(|mut source| all(&mut source))
    };
    for name in ["tone.mp3", "tone_lame.mp3"] {
        let whole = std::fs::read(golden(name)).unwrap();
        let expected = open(&whole).unwrap();
        let (id3v1, ape) = ([&b"TAG"[..], &[b' '; 125]].concat(), [&b"APETAGEX"[..], &[0; 24]].concat());
        assert_eq!(open(&[&whole[..], &id3v1].concat()).unwrap(), expected);
        assert_eq!(open(&[&whole[..], &ape, &id3v1].concat()).unwrap(), expected);
        assert_eq!(open(&[b"ID3\x04\0\0\0\0\0\x05hello", &whole[..]].concat()).unwrap(), expected);
        // mp3gain changes the loudness of the frames, and says so.
        let mut changed = whole.clone();
        let last = changed.len() - 9;
        changed[last] ^= 1;
        open(&changed).unwrap_err();
        open(&[&changed[..], b"APETAGEX", &[0; 24], b"MP3GAIN_MINMAX\x00089,179"].concat()).unwrap();
    }
}

/// Flips a bit at each of `places`: every file must be refused, or give the same samples.
fn flips_are_noticed(name: &str, places: impl Iterator<Item = usize>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let whole = std::fs::read(golden(name)).unwrap();
    let expected = all(&mut Source::open(golden(name), Target::new(16_000)).unwrap());
    let mut n_refused = 0;
    for (turn, at) in places.enumerate() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (turn % 8);
        std::fs::write(&path, &changed).unwrap();
        match Source::open(&path, Target::new(16_000)) {
            Err(error) => {
                n_refused += 1;
                let message = error.to_string();
                assert!(at < 100 || message.contains("sample"), "{name}, byte {at}: {message}");
            }
            Ok(mut source) => assert!(all(&mut source) == expected, "{name}: byte {at} changes samples unnoticed"),
        }
    }
    assert!(n_refused > 100, "{name}: {n_refused} refused");
}

/// The first byte after the metadata of a FLAC file.
fn frames_of_flac(bytes: &[u8]) -> usize {
    let mut at = 4;
    loop {
        let is_last = bytes[at] & 0x80 != 0;
        at += 4 + u32::from_be_bytes([0, bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        if is_last {
            return at;
        }
    }
}

#[test]
fn flipped_bits_in_flac_frames_are_noticed() {
    let bytes = std::fs::read(golden("tone.flac")).unwrap();
    let first = frames_of_flac(&bytes);
    flips_are_noticed("tone.flac", (0..200).map(|i| first + i * (bytes.len() - first) / 200));
}

#[test]
fn flipped_bits_in_ogg_pages_are_noticed() {
    let len = std::fs::metadata(golden("tone.ogg")).unwrap().len() as usize;
    flips_are_noticed("tone.ogg", (0..200).map(|i| i * len / 200));
}

#[test]
fn a_file_that_lost_its_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    for name in ["tone.flac", "tone.ogg", "tone.mp3", "tone_lame.mp3", "tone_alac.m4a", "tone.aiff"] {
        let whole = std::fs::read(golden(name)).unwrap();
        for part in [2, 3, 5] {
            std::fs::write(&path, &whole[..whole.len() - whole.len() / part]).unwrap();
            assert!(Source::open(&path, Target::new(16_000)).is_err(), "{name} without 1/{part}");
        }
    }
}

#[test]
#[ignore = "extended: every byte of two files"]
fn every_flipped_byte_is_noticed() {
    let bytes = std::fs::read(golden("tone.flac")).unwrap();
    flips_are_noticed("tone.flac", frames_of_flac(&bytes)..bytes.len());
    let len = std::fs::metadata(golden("tone.ogg")).unwrap().len() as usize;
    flips_are_noticed("tone.ogg", 0..len);
}
