use super::*;
use crate::ErrorKind;
use crate::audio::{Channel, Clip};

fn ramp(n: usize, n_channels: usize) -> Clip {
    let samples = (0..n * n_channels).map(|i| (i as f32 / (n * n_channels) as f32) * 1.9 - 0.95).collect();
    Clip { sample_rate: 24_000, n_channels, samples }
}

#[test]
fn every_format_comes_back() {
    for format in [
        SampleFormat::U8,
        SampleFormat::S16,
        SampleFormat::S24,
        SampleFormat::S32,
        SampleFormat::F32,
        SampleFormat::F64,
    ] {
        for (n, n_channels) in [(0, 1), (1, 1), (101, 1), (77, 2), (5, 7)] {
            let clip = ramp(n, n_channels);
            let bytes = encode(&clip, format).unwrap();
            let wav = decode(&bytes).unwrap();
            assert_eq!((wav.format, wav.n_channels, wav.n_frames(), &wav.note), (format, n_channels, n, &None));
            let back = wav.to_clip();
            let step = if format.is_float() { 0.0 } else { 0.5_f32.powi(8 * format.bytes() as i32) };
            for (a, b) in clip.samples.iter().zip(&back.samples) {
                assert!((a - b).abs() <= step + 1e-7, "{format:?}: {a} came back as {b}");
            }
            assert_eq!(encode(&back, format).unwrap(), bytes, "{format:?}: the second file differs");
        }
    }
}

#[test]
fn a_rate_that_is_not_read_is_not_written() {
    for rate in [0, 3_072_001, u32::MAX] {
        let refused = Writer::new(Vec::new(), rate, 1, SampleFormat::S16).unwrap_err().to_string();
        assert!(refused.contains(&format!("{rate} Hz; 1 to 3072000")), "{refused}");
    }
}

#[test]
fn rounds_to_even_and_clips() {
    let samples = vec![0.5 / 32_768.0, 1.5 / 32_768.0, 2.0, -2.0, f32::NAN, f32::INFINITY];
    let bytes = encode(&Clip::mono(8000, samples), SampleFormat::S16).unwrap();
    let stored: Vec<i16> = bytes[44..].as_chunks().0.iter().map(|&b| i16::from_le_bytes(b)).collect();
    assert_eq!(stored, [0, 2, 32_767, -32_768, 0, 32_767]);
}

#[test]
fn a_pipe_has_unknown_sizes_and_reads_back() {
    let mut writer = Writer::new(Vec::new(), 24_000, 1, SampleFormat::S16).unwrap();
    writer.write(&[0.25; 10]).unwrap();
    let bytes = writer.finish().unwrap();
    assert_eq!(&bytes[4..8], [0xFF; 4]);
    assert_eq!(&bytes[40..44], [0xFF; 4]);
    let wav = decode(&bytes).unwrap();
    assert_eq!(wav.n_frames(), 10);
    assert!(wav.note.unwrap().contains("data size"));
}

#[test]
fn every_truncation_is_an_error_or_a_note() {
    for format in [SampleFormat::S16, SampleFormat::F32] {
        let bytes = encode(&ramp(9, 2), format).unwrap();
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]).unwrap_err().kind(), ErrorKind::Truncated, "cut at {len}");
        }
    }
}

#[test]
fn no_changed_byte_panics() {
    let bytes = encode(&ramp(9, 2), SampleFormat::F32).unwrap();
    for at in 0..bytes.len().min(64) {
        for value in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = value;
            if let Ok(wav) = decode(&changed) {
                assert!(wav.to_clip().samples.len() <= changed.len());
            }
        }
    }
}

#[test]
fn absurd_headers_are_refused() {
    let good = encode(&ramp(9, 1), SampleFormat::S16).unwrap();
    let with = |at: usize, value: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        decode(&bytes).unwrap_err()
    };
    assert!(with(24, &[0; 4]).to_string().contains("0 Hz"));
    assert!(with(22, &[0; 2]).to_string().contains("0 channels"));
    assert_eq!(with(22, &[0xFF, 0xFF]).kind(), ErrorKind::Unsupported);
    assert_eq!(with(20, &[2, 0]).kind(), ErrorKind::Unsupported);
    assert!(with(32, &[3, 0]).to_string().contains("blocks of 3 bytes"));
    assert_eq!(with(40, &[0xFE, 0xFF, 0xFF, 0xFF]).kind(), ErrorKind::Truncated);
    assert_eq!(with(0, b"OggS").kind(), ErrorKind::Corrupt);
}

#[test]
fn extensible_and_rf64_are_read() {
    let mut fmt =
        vec![0xFE, 0xFF, 1, 0, 0xC0, 0x5D, 0, 0, 0x80, 0xBB, 0, 0, 2, 0, 16, 0, 22, 0, 16, 0, 4, 0, 0, 0, 1, 0];
    fmt.resize(40, 0);
    let mut bytes = b"RF64\xFF\xFF\xFF\xFFWAVEds64".to_vec();
    bytes.extend_from_slice(&28_u32.to_le_bytes());
    for value in [0_u64, 4, 2] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(b"fmt ");
    bytes.extend_from_slice(&40_u32.to_le_bytes());
    bytes.extend_from_slice(&fmt);
    bytes.extend_from_slice(b"data\xFF\xFF\xFF\xFF\x00\x40\x00\xC0junk");
    let wav = decode(&bytes).unwrap();
    assert_eq!((wav.sample_rate, wav.to_clip().samples), (24_000, vec![0.5, -0.5]));
}

#[test]
fn long_files_become_rf64() {
    for format in [SampleFormat::U8, SampleFormat::S16, SampleFormat::S24, SampleFormat::F32] {
        for n in [601, 3_000_001] {
            let clip = ramp(n, 1);
            let mut writer = Writer::new(std::io::Cursor::new(Vec::new()), clip.sample_rate, 1, format).unwrap();
            writer.write(&clip.samples).unwrap();
            let bytes = writer.seal_below(600).unwrap().into_inner();
            let short = encode(&clip, format).unwrap();
            assert_eq!((&bytes[..4], &bytes[8..16], bytes.len()), (&b"RF64"[..], &b"WAVEds64"[..], short.len() + 36));
            let size = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
            assert_eq!(size(20), bytes.len() as u64 - 8);
            assert_eq!((size(28), size(36)), ((n * format.bytes()) as u64, n as u64));
            let wav = decode(&bytes).unwrap();
            assert_eq!((wav.n_frames(), &wav.note), (n, &None));
            assert_eq!(wav.to_clip(), decode(&short).unwrap().to_clip());
        }
    }
}

#[test]
#[ignore = "extended: writes 4.1 GB"]
fn a_file_beyond_4_gib_has_its_sizes() {
    use crate::output::{Existing, OutputFile};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.wav");
    let sink = OutputFile::create(&path, Existing::Refuse).unwrap();
    let mut writer = Writer::new(sink, 48_000, 1, SampleFormat::F64).unwrap();
    let block: Vec<f32> = (0..1 << 20).map(|i| (i as f32 * 0.01).sin()).collect();
    let n_blocks = 513;
    (0..n_blocks).for_each(|_| writer.write(&block).unwrap());
    writer.seal().unwrap().commit().unwrap();
    let mut file = File::open(&path).unwrap();
    assert_eq!((file.header().n_frames(), &file.header().note), (n_blocks << 20, &None));
    let mut last = vec![0.0; block.len()];
    for index in [0, 256, n_blocks - 1] {
        file.read_mono(Channel::Mix, index << 20, &mut last).unwrap();
        assert!(last == block, "block {index}");
    }
}
