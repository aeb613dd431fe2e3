//! Checks MP3 and AAC in ADTS: frames state their length and follow each other without a gap.

use std::io::Read;

use super::is_tail;
use super::window::{BLOCK, Window};
use super::xing::{Found, Header};
use crate::{Error, Result};

/// Bit rates in kbit/s, of MPEG 1, and of MPEG 2 and 2.5.
const BIT_RATES: [[usize; 15]; 2] = [
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];
const SAMPLE_RATES: [usize; 3] = [44_100, 48_000, 32_000];
const ADTS_HEAD: usize = 7;
/// The prefix of mp3gain's field names in an APE tag.
const MP3GAIN: &[u8] = b"MP3GAIN_";

#[derive(Debug, Clone, Copy)]
struct Frame {
    len: usize,
    n_samples: u64,
    /// The properties that all frames of a file share.
    kind: (u8, usize),
}

/// Reads a frame of MPEG layer III. Frames with a free bit rate do not state their length and are
/// not supported.
fn mp3(bytes: &[u8]) -> Option<Frame> {
    let &[0xff, second, third, ..] = bytes else { return None };
    let (version, layer) = (second >> 3 & 3, second >> 1 & 3);
    if second >> 5 != 7 || version == 1 || layer != 1 {
        return None;
    }
    let is_1 = version == 3;
    let rate = *SAMPLE_RATES.get(usize::from(third >> 2 & 3))? >> [2, 0, 1, 0][usize::from(version)];
    let bit_rate = *BIT_RATES[usize::from(!is_1)].get(usize::from(third >> 4))?;
    let len = (if is_1 { 144_000 } else { 72_000 }) * bit_rate / rate + usize::from(third >> 1 & 1);
    (bit_rate > 0).then_some(Frame { len, n_samples: if is_1 { 1152 } else { 576 }, kind: (version, rate) })
}

fn adts(bytes: &[u8]) -> Option<Frame> {
    let &[0xff, second, third, a, b, c, last, ..] = bytes else { return None };
    let len = usize::from(a & 3) << 11 | usize::from(b) << 3 | usize::from(c >> 5);
    let is_frame = second & 0xf6 == 0xf0 && len >= ADTS_HEAD;
    let kind = (second & 8, usize::from(third >> 2 & 0x0f));
    is_frame.then_some(Frame { len, n_samples: 1024 * (u64::from(last & 3) + 1), kind })
}

pub(super) fn whole_adts(window: &mut Window<impl Read>) -> Result<()> {
    walk(window, adts, |_| {}).map(|_| ())
}

pub(super) fn whole_mp3(window: &mut Window<impl Read>) -> Result<()> {
    pass_zeros(window)?;
    let first = window.look(4).ok().and_then(mp3).map_or(0, |frame| frame.len);
    let head = window.look(first)?;
    let header = Header::of(&head[..first.min(head.len())]);
    let mut found = Found::default();
    walk(window, mp3, |frame| found.add(frame))?;
    let Some(header) = header else { return Ok(()) };
    // mp3gain changes the frames but not the checksum.
    let is_regained = window.look(BLOCK)?.windows(MP3GAIN.len()).any(|bytes| bytes == MP3GAIN);
    header.compare(&found)?;
    if is_regained { Ok(()) } else { header.compare_checksum(&found) }
}

/// Walks the frames and passes each one to `visit`; returns the number of frames.
fn walk<R: Read>(
    window: &mut Window<R>,
    frame: impl Fn(&[u8]) -> Option<Frame>,
    mut visit: impl FnMut(&[u8]),
) -> Result<u64> {
    pass_zeros(window)?;
    let (mut n_frames, mut sample, mut kind) = (0, 0, None);
    loop {
        let bytes = window.look(ADTS_HEAD)?;
        if bytes.is_empty() {
            return Ok(n_frames);
        }
        let is_tag = bytes.starts_with(b"ID3");
        let Some(frame) = frame(bytes).filter(|frame| kind.is_none_or(|kind| kind == frame.kind)) else {
            if is_tag {
                window.pass_id3()?;
                continue;
            }
            let at = window.position();
            if n_frames > 0 && is_tail(window)? {
                return Ok(n_frames);
            }
            return Err(Error::corrupt(format!("no frame begins at byte {at}, at sample {sample}")));
        };
        let Some(bytes) = window.look(frame.len)?.get(..frame.len) else {
            return Err(Error::truncated(format!("the file ends within the frame at sample {sample}")));
        };
        visit(bytes);
        window.pass(frame.len);
        kind = Some(frame.kind);
        n_frames += 1;
        sample += frame.n_samples;
    }
}

/// Skips zeros that taggers leave before the first frame.
fn pass_zeros(window: &mut Window<impl Read>) -> Result<()> {
    loop {
        let bytes = window.look(1 << 12)?;
        let n = bytes.iter().take_while(|&&byte| byte == 0).count();
        if n == 0 {
            return Ok(());
        }
        window.pass(n);
    }
}
