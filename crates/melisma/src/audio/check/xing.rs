//! The Xing or Info header in the first frame of an MP3 file, and the LAME tag after it: the counts
//! that the encoder recorded.

use std::iter::repeat;

use crate::{Error, Result};

/// Offsets in the LAME tag.
const MUSIC_CRC: usize = 32;
const TAG_CRC: usize = 34;
/// FFmpeg computes the checksum of the tag over this many bytes of the frame, with zeros after the
/// tag, wherever the tag ends.
const FFMPEG_TAGGED: usize = 190;

#[derive(Debug)]
pub(super) struct Header {
    n_frames: Option<u64>,
    n_bytes: Option<u64>,
    /// Checksum of the frames after this one.
    crc: Option<u16>,
}

/// Totals over the frames of a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The length of the first frame, which the other totals exclude.
    head: Option<u64>,
    n_frames: u64,
    n_bytes: u64,
    crc: u16,
}

impl Found {
    pub(super) fn add(&mut self, frame: &[u8]) {
        let len = frame.len() as u64;
        if self.head.is_none() {
            self.head = Some(len);
            return;
        }
        self.n_frames += 1;
        self.n_bytes += len;
        self.crc = checksum(self.crc, frame);
    }
}

impl Header {
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let (&second, &fourth) = (frame.get(1)?, frame.get(3)?);
        let side = match (second >> 3 & 3 == 3, fourth >> 6 == 3) {
            (true, false) => 32,
            (true, true) | (false, false) => 17,
            (false, true) => 9,
        };
        let crc = if second & 1 == 0 { 2 } else { 0 };
        let is_header = |at: &usize| {
            let bytes = frame.get(*at..).unwrap_or_default();
            bytes.starts_with(b"Xing") || bytes.starts_with(b"Info")
        };
        let start = [4 + side, 4 + crc + side].into_iter().find(is_header)?;
        let field = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
        let flags = field(start + 4)?;
        // Frames, bytes, a seek table and a quality. Each may be missing.
        let place = |n: usize| {
            let lens = [4, 4, 100, 4].iter().enumerate().take(n);
            start + 8 + lens.filter(|(bit, _)| flags >> bit & 1 != 0).map(|(_, len)| len).sum::<usize>()
        };
        let count = |n: usize| if flags >> n & 1 == 0 { None } else { field(place(n)).map(u64::from) };
        Some(Self { n_frames: count(0), n_bytes: count(1), crc: music_crc(frame, place(4)) })
    }

    /// Checks that all frames are there.
    pub(super) fn compare(&self, found: &Found) -> Result<()> {
        let Some(declared) = self.n_frames else { return Ok(()) };
        match found.n_frames {
            n if n == declared || n + 1 == declared && self.counts_itself(found) => Ok(()),
            n if n < declared => Err(Error::truncated(format!("{declared} MP3 frames are declared, {n} are there"))),
            n => Err(Error::corrupt(format!("{declared} MP3 frames are declared, {n} are there"))),
        }
    }

    /// Returns whether the one extra frame that is declared may be the header's own frame, which
    /// holds no audio: some writers count it. The declared bytes then show that no frame is
    /// missing, whether they include the header or not.
    fn counts_itself(&self, found: &Found) -> bool {
        let with_head = found.n_bytes + found.head.unwrap_or(0);
        self.n_bytes.is_none_or(|declared| declared == found.n_bytes || declared == with_head)
    }

    pub(super) fn compare_checksum(&self, found: &Found) -> Result<()> {
        if self.crc.is_none_or(|crc| crc == found.crc) {
            return Ok(());
        }
        let n = found.n_frames;
        Err(Error::corrupt(format!(
            "the samples of its {n} MP3 frames are damaged: the frames fail the checksum of the file"
        )))
    }
}

/// Returns the checksum of the audio from the LAME tag at `start`, if the tag's own checksum
/// matches.
fn music_crc(frame: &[u8], start: usize) -> Option<u16> {
    let field = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let (music, tag) = (field(start + MUSIC_CRC)?, field(start + TAG_CRC)?);
    let before = checksum(0, &frame[..start + TAG_CRC]);
    let after = frame[start + TAG_CRC + 2..].iter().copied().chain(repeat(0));
    let rest = [0, 0].into_iter().chain(after).take(FFMPEG_TAGGED.saturating_sub(start + TAG_CRC));
    let by_ffmpeg = rest.fold(before, |crc, byte| checksum(crc, &[byte]));
    // Writers that compute no checksum leave zeros.
    (music != 0 && (tag == before || tag == by_ffmpeg)).then_some(music)
}

/// Returns CRC-16 with the polynomial 0x8005, least significant bit first.
fn checksum(crc: u16, bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = table();
    bytes.iter().fold(crc, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

const fn table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xa001 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}
