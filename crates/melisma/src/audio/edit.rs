//! Which of the decoded samples are audio: encoders add silence before and after it, and containers
//! record how much.
//!
//! MP4 records it in an edit list, iTunes in a tag (`iTunSMPB`), and CAF in its packet table.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::{Error, Result};

/// The largest index that is read.
const MAX_INDEX: u64 = 256 << 20;
/// The most entries of an edit list.
const MAX_PARTS: usize = 1000;

/// The parts of the decoded samples that are audio, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edits {
    parts: Vec<Range<u64>>,
    /// The number of samples decoded so far.
    pub(super) at: u64,
}

impl Edits {
    /// Creates the edits of a single part, from `start` to `end`.
    pub(super) fn span(start: u64, end: u64) -> Self {
        Self { parts: std::iter::once(start..end).collect(), at: 0 }
    }

    pub(super) fn all() -> Self {
        Self::span(0, u64::MAX)
    }

    /// Cuts all parts off at `end`.
    pub(super) fn until(mut self, end: u64) -> Self {
        self.parts.iter_mut().for_each(|part| part.end = part.end.min(end));
        self
    }

    /// Returns the ranges among the next `n` samples that are audio.
    pub(super) fn take(&mut self, n: usize) -> impl Iterator<Item = Range<usize>> {
        let from = self.at;
        let to = from.saturating_add(n as u64);
        self.at = to;
        self.parts.iter().filter_map(move |part| {
            let (start, end) = (part.start.max(from), part.end.min(to));
            (start < end).then(|| (start - from) as usize..(end - from) as usize)
        })
    }

    /// Returns the edits of track `track` of an MP4 file, decoded at `sample_rate`.
    pub(super) fn of_mp4(file: &File, track: u32, sample_rate: u32) -> Result<Self> {
        let Some(index) = index(file)? else { return Ok(Self::all()) };
        let listed = list(&index, track, sample_rate)?;
        let starts_at_0 = listed.as_ref().is_none_or(|edits| edits.parts.iter().all(|part| part.start == 0));
        let tagged = if starts_at_0 { tag(&index) } else { None };
        Ok(tagged.or(listed).unwrap_or_else(Self::all))
    }
}

/// Returns the content of the `moov` box.
fn index(file: &File) -> Result<Option<Vec<u8>>> {
    let failed = |error| Error::io("its index", error);
    let len = file.metadata().map_err(failed)?.len();
    let mut at = 0;
    while len.saturating_sub(at) >= 16 {
        let mut head = [0; 16];
        file.read_exact_at(&mut head, at).map_err(failed)?;
        let (skip, size) = match u32::from_be_bytes([head[0], head[1], head[2], head[3]]) {
            0 => (8, len - at),
            1 => (16, u64::from_be_bytes(std::array::from_fn(|i| head[8 + i]))),
            size => (8, u64::from(size)),
        };
        if size < skip || size > len - at {
            return Ok(None);
        }
        if head[4..8] == *b"moov" {
            if size > MAX_INDEX {
                return Err(Error::unsupported(format!("an index of {size} bytes; at most {MAX_INDEX} are read")));
            }
            let mut index = vec![0; (size - skip) as usize];
            file.read_exact_at(&mut index, at + skip).map_err(failed)?;
            return Ok(Some(index));
        }
        at += size;
    }
    Ok(None)
}

/// Returns the names and contents of the boxes in `bytes`; stops at the first invalid box.
fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let name = *bytes.get(4..8)?.first_chunk::<4>()?;
        let (skip, len) = match be32(bytes, 0)? {
            0 => (8, bytes.len()),
            1 => (16, usize::try_from(be64(bytes, 8)?).ok()?),
            len => (8, len as usize),
        };
        let body = bytes.get(skip..len)?;
        bytes = &bytes[len..];
        Some((name, body))
    })
}

fn find<'a>(bytes: &'a [u8], names: &[&[u8; 4]]) -> Option<&'a [u8]> {
    names.iter().try_fold(bytes, |bytes, name| boxes(bytes).find(|(found, _)| found == *name).map(|(_, body)| body))
}

/// Returns the time scale in `mvhd` or `mdhd`.
fn time_scale(header: &[u8]) -> Option<u32> {
    be32(header, if *header.first()? == 1 { 20 } else { 12 }).filter(|&scale| scale > 0)
}

fn list(index: &[u8], track: u32, sample_rate: u32) -> Result<Option<Edits>> {
    let is_track = |body: &&[u8]| {
        let header = find(body, &[b"tkhd"]);
        header.and_then(|header| be32(header, if *header.first()? == 1 { 20 } else { 12 })) == Some(track)
    };
    let Some(body) = boxes(index).filter(|(name, _)| name == b"trak").map(|(_, body)| body).find(is_track) else {
        return Ok(None);
    };
    let scales = find(index, &[b"mvhd"]).and_then(time_scale).zip(find(body, &[b"mdia", b"mdhd"]).and_then(time_scale));
    let (Some((movie, media)), Some(list)) = (scales, find(body, &[b"edts", b"elst"])) else { return Ok(None) };
    let samples = |time: u64, scale: u32| {
        let scaled = (u128::from(time) * u128::from(sample_rate) + u128::from(scale / 2)) / u128::from(scale);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    let mut parts: Vec<Range<u64>> = Vec::new();
    for (duration, start) in entries(list).take(MAX_PARTS) {
        // -1 is a pause before the audio and not part of it.
        let Ok(start) = u64::try_from(start) else { continue };
        let start = samples(start, media);
        let end = if duration == 0 { u64::MAX } else { start.saturating_add(samples(duration, movie)) };
        if parts.last().is_some_and(|last| start < last.end) {
            return Err(Error::unsupported("an edit list that goes back in the sound")
                .with_hint("convert the file to WAV or FLAC with a program that plays it"));
        }
        parts.push(start..end);
    }
    Ok(if parts.is_empty() { None } else { Some(Edits { parts, at: 0 }) })
}

/// Reads durations in the movie's time scale, and starts in the track's.
fn entries(list: &[u8]) -> impl Iterator<Item = (u64, i64)> {
    let is_long = list.first() == Some(&1);
    let n = be32(list, 4).unwrap_or(0) as usize;
    (0..n).map_while(move |i| match is_long {
        true => Some((be64(list, 8 + 20 * i)?, be64(list, 16 + 20 * i)? as i64)),
        false => Some((be32(list, 8 + 12 * i)?.into(), i64::from(be32(list, 12 + 12 * i)? as i32))),
    })
}

/// Reads the tag: ` 00000000 DELAY PADDING LENGTH ...` in hexadecimal.
fn tag(index: &[u8]) -> Option<Edits> {
    let list = find(index, &[b"udta", b"meta"])?;
    // `meta` starts with a version in MP4, but not in QuickTime.
    let list = find(list.get(4..)?, &[b"ilst"]).or_else(|| find(list, &[b"ilst"]))?;
    let is_tag = |body: &&[u8]| find(body, &[b"name"]).is_some_and(|name| name.ends_with(b"iTunSMPB"));
    let body = boxes(list).filter(|(name, _)| name == b"----").map(|(_, body)| body).find(is_tag)?;
    let text = std::str::from_utf8(find(body, &[b"data"])?.get(8..)?).ok()?;
    let mut numbers = text.split_whitespace().map(|text| u64::from_str_radix(text, 16));
    let (_, delay, _, len) =
        (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    (len > 0).then(|| Edits::span(delay, delay.saturating_add(len)))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_be_bytes)
}

/// Returns the error for audio that ends before its declared end.
pub(super) fn too_short(declared: u64, there: u64) -> Error {
    Error::truncated(format!("{declared} samples are declared, the sound ends at sample {there}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32 + 8).to_be_bytes()[..], name, body].concat()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Returns an index with a track 7 at 44.1 kHz, in a movie with a time scale of milliseconds.
    fn moov(edits: &[[u32; 2]], tag: &str) -> Vec<u8> {
        let list: Vec<u32> =
            [0, edits.len() as u32].into_iter().chain(edits.iter().flat_map(|&[a, b]| [a, b, 1 << 16])).collect();
        let track = [
            boxed(b"tkhd", &words(&[0, 0, 0, 7])),
            boxed(b"edts", &boxed(b"elst", &words(&list))),
            boxed(b"mdia", &boxed(b"mdhd", &words(&[0, 0, 0, 44_100]))),
        ];
        let item = [boxed(b"name", b"\0\0\0\0iTunSMPB"), boxed(b"data", &[&[0; 8], tag.as_bytes()].concat())].concat();
        let meta = [vec![0; 4], boxed(b"ilst", &boxed(b"----", &item))].concat();
        [
            boxed(b"mvhd", &words(&[0, 0, 0, 1000])),
            boxed(b"trak", &track.concat()),
            boxed(b"udta", &boxed(b"meta", &meta)),
        ]
        .concat()
    }

    fn read(moov: &[u8]) -> Result<Edits> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [boxed(b"ftyp", b"M4A "), boxed(b"mdat", &[1; 99]), boxed(b"moov", moov)].concat())
            .unwrap();
        Edits::of_mp4(&File::open(file.path()).unwrap(), 7, 44_100)
    }

    #[test]
    fn edit_lists_and_tags() {
        let none = "no numbers";
        assert_eq!(read(&moov(&[[100, 1024]], none)).unwrap(), Edits::span(1024, 1024 + 4410));
        // 35 ms are 1543.5 samples.
        assert_eq!(read(&moov(&[[35, 1024]], none)).unwrap(), Edits::span(1024, 1024 + 1544));
        assert_eq!(read(&moov(&[[0, 2112]], none)).unwrap(), Edits::span(2112, u64::MAX));
        assert_eq!(read(&moov(&[[5, u32::MAX], [100, 0]], none)).unwrap(), Edits::span(0, 4410));
        assert_eq!(read(&moov(&[], none)).unwrap(), Edits::all());
        let tag = " 00000000 00000840 000001CA 0000000000003F31 00000000";
        assert_eq!(read(&moov(&[], tag)).unwrap(), Edits::span(0x840, 0x840 + 0x3f31));
        assert_eq!(read(&moov(&[[100, 0]], tag)).unwrap(), Edits::span(0x840, 0x840 + 0x3f31));
        assert_eq!(read(&moov(&[[100, 1024]], tag)).unwrap(), Edits::span(1024, 1024 + 4410));
        let two = Edits { parts: vec![10..10 + 4410, 9000..u64::MAX], at: 0 };
        assert_eq!(read(&moov(&[[100, 10], [0, 9000]], none)).unwrap(), two);
        assert!(read(&moov(&[[100, 9000], [100, 0]], none)).is_err());
    }

    #[test]
    fn any_cut_is_survived() {
        let whole = moov(&[[100, 1024], [0, 9000]], " 00000000 00000840 000001CA 0000000000003F31");
        for len in 0..whole.len() {
            let _ = read(&whole[..len]);
        }
    }

    #[test]
    fn parts_are_taken_across_blocks() {
        let mut edits = Edits { parts: vec![3..5, 8..20], at: 0 };
        let mut take = || edits.take(4).map(|part| (part.start, part.end)).collect::<Vec<_>>();
        assert_eq!([take(), take(), take()], [[(3, 4)], [(0, 1)], [(0, 4)]]);
    }
}
