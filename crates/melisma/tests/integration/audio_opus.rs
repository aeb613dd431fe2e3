//! Opus that `opusenc` has written, beside what `opusdec` made of it.

use std::fs;
use std::path::{Path, PathBuf};

use melisma::audio::{Channel, Clip, Format, Layout, Source, Stream, Target, Writer};
use melisma::{ErrorKind, Result};

use crate::repository;

/// The most that a sample may differ from libopus's, which `opusdec` rounded to 16 bits.
const TOLERANCE: f32 = 4e-5;
/// The same where packets were not sent: the standard leaves open what is heard then, and libopus
/// changed it from 1.3 to 1.4, which ours follows.
const TOLERANCE_AFTER_PAUSES: f32 = 3e-3;
/// Every mode, and what is special about it: names and channels.
const NAMES: [(&str, usize); 10] = [
    ("silk_narrow_60ms", 1),
    ("silk_wide_20ms", 1),
    ("silk_medium_40ms", 2),
    ("hybrid_20ms", 1),
    ("hybrid_stereo_10ms", 2),
    ("celt_20ms", 2),
    ("celt_mono_5ms", 1),
    ("celt_2.5ms", 2),
    ("six", 6),
    ("pauses", 1),
];

fn golden(name: &str) -> PathBuf {
    repository::path("golden/audio").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(golden(name)).unwrap()
}

fn read(path: &Path, channel: Channel) -> Result<Vec<f32>> {
    let mut source = Source::unchanged(path, channel)?;
    assert_eq!(source.facts().sample_rate, 48_000);
    let mut samples = vec![0.0; source.facts().n_samples as usize];
    source.read_f32(0, &mut samples)?;
    Ok(samples)
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".opus").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    file
}

fn open(bytes: &[u8]) -> Result<Vec<f32>> {
    read(written(bytes).path(), Channel::Mix)
}

/// Reads a pipe.
pub fn piped(bytes: &[u8]) -> Result<Vec<f32>> {
    let mut stream = Stream::live(std::io::Cursor::new(bytes.to_vec()), Target::new(48_000))?;
    let mut samples = Vec::new();
    while let block @ [_, ..] = stream.read()? {
        samples.extend_from_slice(block);
    }
    Ok(samples)
}

/// The Ogg pages of a file.
pub fn pages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut pages, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let n = usize::from(rest[26]);
        let len = 27 + n + rest[27..27 + n].iter().map(|&len| usize::from(len)).sum::<usize>();
        pages.push(rest[..len].to_vec());
        rest = &rest[len..];
    }
    pages
}

/// Sets the checksum of a page.
fn seal(page: &mut [u8]) {
    page[22..26].fill(0);
    let crc = page.iter().fold(0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| crc << 1 ^ if crc >> 31 == 0 { 0 } else { 0x04c1_1db7 })
    });
    page[22..26].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn every_mode_gives_the_samples_of_libopus() {
    for (name, n_channels) in NAMES {
        let (ours, theirs) = (golden(&format!("{name}.opus")), golden(&format!("{name}.flac")));
        assert_eq!(Source::unchanged(&ours, Channel::Mix).unwrap().facts().n_channels, n_channels, "{name}");
        for channel in 0..n_channels {
            let found = read(&ours, Channel::One(channel)).unwrap();
            let expected = read(&theirs, Channel::One(channel)).unwrap();
            assert_eq!(found.len(), expected.len(), "{name}");
            let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let tolerance = if name == "pauses" { TOLERANCE_AFTER_PAUSES } else { TOLERANCE };
            assert!(error <= tolerance, "{name}, channel {channel}: {error}");
        }
    }
}

#[test]
fn a_pipe_gives_the_samples_of_a_file() {
    for (name, _) in NAMES {
        let bytes = bytes(&format!("{name}.opus"));
        assert_eq!(piped(&bytes).unwrap(), open(&bytes).unwrap(), "{name}");
    }
}

#[test]
fn what_melisma_writes_is_read_with_its_length() {
    for (rate, n) in [(48_000u32, 48_000usize), (24_000, 7_001), (16_000, 1), (8_000, 12_345), (44_100, 4_410)] {
        for n_channels in [1, 2] {
            let samples: Vec<f32> = (0..n * n_channels).map(|i| (i as f32 * 0.02).sin() * 0.4).collect();
            let clip = Clip { sample_rate: rate, n_channels, samples };
            for is_piped in [false, true] {
                let layout = Layout::new(rate, n_channels);
                let bytes = match is_piped {
                    true => {
                        let mut writer = Writer::piped(Vec::new(), Format::Opus, layout).unwrap();
                        writer.write(&clip.samples).unwrap();
                        writer.finish().unwrap()
                    }
                    false => {
                        let sink = std::io::Cursor::new(Vec::new());
                        let mut writer = Writer::new(sink, Format::Opus, layout).unwrap();
                        writer.write(&clip.samples).unwrap();
                        writer.seal().unwrap().into_inner()
                    }
                };
                let found = open(&bytes).unwrap();
                assert_eq!(found, piped(&bytes).unwrap());
                let expected = (n as f64 * 48_000.0 / f64::from(rate)).ceil();
                assert!((found.len() as f64 - expected).abs() <= 6.0, "{rate}: {} of {expected}", found.len());
            }
        }
    }
}

#[test]
fn streams_that_follow_each_other_are_one_sound() {
    let (one, two) = (bytes("hybrid_20ms.opus"), bytes("celt_mono_5ms.opus"));
    let expected = [open(&one).unwrap(), open(&two).unwrap()].concat();
    let chain = [one, two].concat();
    assert_eq!(open(&chain).unwrap(), expected);
    assert_eq!(piped(&chain).unwrap(), expected);
    let changed = [bytes("hybrid_20ms.opus"), bytes("celt_20ms.opus")].concat();
    let message = "1 channels at 48000 Hz become 2 at 48000 Hz, at sample 14400";
    assert_eq!(open(&changed).unwrap_err().to_string(), message);
    assert_eq!(piped(&changed).unwrap_err().to_string(), message);
    let vorbis = fs::read(repository::path("golden/mel/tone.ogg")).unwrap();
    assert!(open(&[bytes("hybrid_20ms.opus"), vorbis].concat()).unwrap_err().to_string().contains("become 2 at 16000"));
}

#[test]
fn the_gain_of_the_header_is_applied() {
    let plain = bytes("celt_mono_5ms.opus");
    let mut pages = pages(&plain);
    // -6 dB in 1/256 dB, behind the head of the page and the 16 first bytes of the header.
    pages[0][28 + 16..28 + 18].copy_from_slice(&(-6i16 * 256).to_le_bytes());
    seal(&mut pages[0]);
    let (loud, quiet) = (open(&plain).unwrap(), open(&pages.concat()).unwrap());
    let factor = 10f32.powf(-6.0 / 20.0);
    assert!(loud.iter().zip(&quiet).all(|(a, b)| (a * factor - b).abs() < 1e-5));
}

#[test]
fn a_clock_may_start_late() {
    let mut pages = pages(&bytes("silk_wide_20ms.opus"));
    for page in &mut pages[2..] {
        let granule = i64::from_le_bytes(page[6..14].try_into().unwrap()) + 5 * 48_000;
        page[6..14].copy_from_slice(&granule.to_le_bytes());
        seal(page);
    }
    let (late, expected) = (pages.concat(), open(&bytes("silk_wide_20ms.opus")).unwrap());
    // The only page with audio: what is before the clock cannot be told from padding.
    assert!(open(&late).unwrap().starts_with(&expected));
    assert_eq!(piped(&late).unwrap(), open(&late).unwrap());
}

#[test]
fn headers_that_are_not_read_say_why() {
    let plain = bytes("celt_mono_5ms.opus");
    let with = |at: usize, value: u8| {
        let mut pages = pages(&plain);
        pages[0][28 + at] = value;
        seal(&mut pages[0]);
        let error = open(&pages.concat()).unwrap_err().to_string();
        (error, piped(&pages.concat()).unwrap_err().to_string())
    };
    for (at, value, message) in [
        (8, 16, "an Opus header of version 16; versions up to 15 are read"),
        (18, 2, "an Opus file with the channel mapping 2; 0, 1 and 255 are read"),
    ] {
        assert_eq!(with(at, value), (message.to_owned(), message.to_owned()));
    }
    assert_eq!(with(9, 3).0, "an Opus header of 3 channels with the mapping 0");
    let mut pages = pages(&plain);
    let header = b"OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\xff\x01\0\0";
    pages[0].splice(28.., header.iter().copied());
    (pages[0][26], pages[0][27]) = (1, header.len() as u8);
    seal(&mut pages[0]);
    let message = "Opus in Ogg with the channel mapping 255; 0 and 1 are read";
    assert_eq!(open(&pages.concat()).unwrap_err().to_string(), message);
    assert_eq!(piped(&pages.concat()).unwrap_err().to_string(), message);
}

#[test]
fn damage_is_refused_with_its_place() {
    let whole = bytes("celt_2.5ms.opus");
    for cut in (0..whole.len()).step_by(211).chain([whole.len() - 1]) {
        let error = open(&whole[..cut]).unwrap_err();
        assert!(cut < 100 || error.to_string().contains("sample"), "{cut}: {error}");
        assert!(piped(&whole[..cut]).is_err(), "{cut} of a pipe");
    }
    for (turn, at) in (0..whole.len()).step_by(97).enumerate() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (turn % 8);
        assert!(open(&changed).is_err(), "byte {at}");
    }
}

#[test]
fn a_lost_page_is_refused() {
    let sound: Vec<f32> = (0..240_000).map(|i| (i as f32 * 0.01).sin() * 0.3).collect();
    let mut writer = Writer::piped(Vec::new(), Format::Opus, Layout::new(48_000, 1)).unwrap();
    writer.write(&sound).unwrap();
    let all = pages(&writer.finish().unwrap());
    assert_eq!(open(&all.concat()).unwrap().len(), sound.len());
    let mut lost = all.clone();
    lost.remove(3);
    for error in [open(&lost.concat()).unwrap_err(), piped(&lost.concat()).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().starts_with("Ogg pages 3 to 4 are missing, after sample "), "{error}");
    }
    // The clock declares more than the packets hold.
    let mut gap = all;
    for page in &mut gap[3..] {
        let granule = i64::from_le_bytes(page[6..14].try_into().unwrap()) + 960;
        page[6..14].copy_from_slice(&granule.to_le_bytes());
        seal(page);
    }
    for error in [open(&gap.concat()).unwrap_err(), piped(&gap.concat()).unwrap_err()] {
        assert_eq!(error.to_string(), "240960 samples are declared, the sound ends at sample 240000");
    }
}
