//! Audio in Matroska and WebM, as FFmpeg writes it.

use std::fs;
use std::path::{Path, PathBuf};

use melisma::audio::{Channel, Source};
use melisma::{ErrorKind, Result};

use crate::audio_opus::piped;
use crate::repository;

/// The samples of the voice that FFmpeg coded.
const N: usize = 14_400;

fn golden(name: &str) -> PathBuf {
    repository::path("golden/audio").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(golden(name)).unwrap()
}

fn read(path: &Path) -> Result<Vec<f32>> {
    let mut source = Source::unchanged(path, Channel::Mix)?;
    let mut samples = vec![0.0; source.facts().n_samples as usize];
    source.read_f32(0, &mut samples)?;
    Ok(samples)
}

pub fn open(bytes: &[u8]) -> Result<Vec<f32>> {
    let file = tempfile::Builder::new().suffix(".webm").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    read(file.path())
}

/// Returns where `id` begins for the `nth` time.
fn find(bytes: &[u8], id: &[u8], nth: usize) -> usize {
    bytes.windows(id.len()).enumerate().filter(|(_, window)| *window == id).nth(nth).unwrap().0
}

pub const CLUSTER: [u8; 4] = [0x1f, 0x43, 0xb6, 0x75];

#[test]
fn opus_is_that_of_the_ogg_file() {
    for (name, ogg) in [
        ("hybrid_20ms.webm", "hybrid_20ms.opus"),
        ("hybrid_20ms.mka", "hybrid_20ms.opus"),
        ("celt_20ms_live.webm", "celt_20ms.opus"),
        ("celt_20ms.mp4", "celt_20ms.opus"),
    ] {
        let (found, expected) = (read(&golden(name)).unwrap(), read(&golden(ogg)).unwrap());
        assert!(found == expected, "{name}: {} of {} samples", found.len(), expected.len());
        if !name.ends_with("mp4") {
            assert!(piped(&bytes(name)).unwrap() == expected, "{name} from a pipe");
        }
    }
}

#[test]
fn other_codings_are_read() {
    let exact = read(&golden("voice_pcm.mka")).unwrap();
    assert_eq!(exact.len(), N);
    assert!(read(&golden("voice_flac.mka")).unwrap() == exact);
    // FFmpeg names no delay of AAC and MP3, and reads the same lengths.
    for (name, delay, n) in
        [("voice_vorbis.webm", 0, 14_464), ("voice_aac.mka", 1024, 16_384), ("voice_mp3.mka", 1105, 15_505)]
    {
        let found = read(&golden(name)).unwrap();
        assert_eq!(found.len(), n, "{name}");
        let power =
            |samples: &mut dyn Iterator<Item = f32>| samples.map(|sample| f64::from(sample).powi(2)).sum::<f64>();
        let noise = power(&mut exact.iter().zip(&found[delay..]).map(|(a, b)| a - b));
        let db = 10.0 * (power(&mut exact.iter().copied()) / noise).log10();
        assert!(db >= 10.0, "{name}: {db:.1} dB");
        assert!(piped(&bytes(name)).unwrap() == found, "{name} from a pipe");
    }
}

#[test]
fn clusters_may_be_of_unknown_length() {
    let mut live = bytes("hybrid_20ms.webm");
    let expected = open(&live).unwrap();
    let segment = find(&live, &[0x18, 0x53, 0x80, 0x67], 0) + 4;
    live[segment + 1..segment + 8].fill(0xff);
    assert_eq!(open(&live).unwrap(), expected);
    let at = find(&live, &CLUSTER, 0) + 4;
    let width = live[at].leading_zeros() as usize + 1;
    live[at..at + width].fill(0xff);
    live[at] = 0xff >> (width - 1);
    assert_eq!(open(&live).unwrap(), expected);
    assert_eq!(piped(&live).unwrap(), expected);
    let twice = [&live[..], &live].concat();
    assert_eq!(open(&twice).unwrap(), [&expected[..], &expected].concat());
    assert_eq!(piped(&twice).unwrap(), [&expected[..], &expected].concat());
}

#[test]
fn files_that_follow_each_other_are_one_sound() {
    let (one, two) = (bytes("hybrid_20ms.webm"), bytes("hybrid_20ms.mka"));
    let once = open(&one).unwrap();
    assert_eq!(open(&[one.clone(), two].concat()).unwrap(), [&once[..], &once].concat());
    let error = open(&[&one[..], b"more"].concat()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn a_file_that_lost_its_end_is_refused() {
    for name in ["hybrid_20ms.webm", "hybrid_20ms.mka", "voice_vorbis.webm", "voice_flac.mka"] {
        let whole = bytes(name);
        for cut in (0..whole.len()).step_by(whole.len() / 50).chain([whole.len() - 1]) {
            let error = open(&whole[..cut]).unwrap_err();
            assert!(error.kind() == ErrorKind::Truncated || cut < 4, "{name}, {cut}: {error}");
            assert!(piped(&whole[..cut]).is_err(), "{name}, {cut} of a pipe");
        }
    }
    // Without lengths, a live file can end between two blocks only.
    let live = bytes("celt_20ms_live.webm");
    let error = open(&live[..live.len() - 1]).unwrap_err();
    assert!(error.to_string().starts_with("the file ends within the Matroska element at byte "), "{error}");
}

#[test]
fn flipped_bits_are_noticed_where_there_are_checksums() {
    let whole = bytes("hybrid_20ms.mka");
    let expected = open(&whole).unwrap();
    let start = find(&whole, &CLUSTER, 0);
    let mut n_refused = 0;
    for (turn, at) in (start..whole.len()).step_by(7).enumerate() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (turn % 8);
        match open(&changed) {
            Err(_) => n_refused += 1,
            Ok(found) => assert!(found == expected, "byte {at} changes samples unnoticed"),
        }
    }
    assert!(n_refused > 100, "{n_refused} refused");
}

#[test]
fn a_lost_cluster_is_refused() {
    // One cluster per 100 ms: the second one moves two seconds away.
    let live = bytes("celt_20ms_live.webm");
    let second = find(&live, &CLUSTER, 1);
    let time = second + find(&live[second..], &[0xe7], 0);
    assert_eq!(live[time + 1], 0x81, "a time of one byte");
    let widened = [&live[..time], &[0xe7, 0x82, 0x08, 0x34], &live[time + 3..]].concat();
    let error = open(&widened).unwrap_err();
    assert!(error.to_string().starts_with("the clock of the Matroska blocks jumps from 0."), "{error}");
    assert!(error.to_string().contains(" s to 2.1"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("aresample")));
}

#[test]
fn what_is_not_read_is_named() {
    let plain = bytes("hybrid_20ms.webm");
    let with = |from: &[u8], to: &[u8]| {
        let mut changed = plain.clone();
        let at = find(&plain, from, 0);
        changed[at..at + to.len()].copy_from_slice(to);
        open(&changed).unwrap_err().to_string()
    };
    assert_eq!(with(b"A_OPUS", b"A_EAC3"), "its audio coding is not known: `A_EAC3`");
    assert_eq!(with(b"webm", b"film"), "an EBML file of the type `film`");
    assert_eq!(with(&[0x83, 0x81, 2, 0xe1], &[0x83, 0x81, 1, 0xe1]), "it has no audio track");
    assert_eq!(with(b"OpusHead", b"OpusTail"), "an Opus header of 19 bytes; 19 or more are expected");
}
