//! The first frame of an MP3 stream whose length is known before its samples: silence that holds a Xing header with the
//! number of frames, and a LAME tag with the samples to leave out at both ends.
//!
//! The number of bytes, the seek table and the checksum of the frames are known at the end only: the header's flags say
//! that they are missing, and a checksum of 0 that there is none.

use rusty_mp3::encode::lametag::{ENCODER_DELAY, crc16, frames_for, padding_for};

/// Samples per channel of a frame of MPEG-1.
const FRAME_LEN: usize = 1152;
/// The header has a number of frames, and nothing else.
const FRAMES_ONLY: u32 = 1;
/// Readers believe a tag of `LAME`.
const ENCODER: &[u8; 9] = b"LAMErusty";
/// The average bit rate was chosen.
const AVERAGE_RATE: u8 = 2;
/// The rate of the samples and the channels, in the LAME tag of the encoder's own first frame.
const SETTINGS: std::ops::Range<usize> = 144..148;
/// The most samples that the number of frames can tell.
pub(super) const MAX_SAMPLES: u64 = (u32::MAX as u64 - 1) * FRAME_LEN as u64;

/// Returns the encoder's own first frame, completed for `n_samples` per channel at the file's rate, at most
/// [`MAX_SAMPLES`]; `None` if it has no header.
pub(super) fn first_frame(frame: &[u8], n_samples: u64) -> Option<Vec<u8>> {
    let start = frame.windows(4).position(|bytes| bytes == b"Xing")?;
    let n_frames = u32::try_from(frames_for(n_samples, ENCODER_DELAY, FRAME_LEN)).ok()?;
    // Each takes 12 bits: the padding is less than two frames.
    let trimmed = (ENCODER_DELAY as u32) << 12 | padding_for(n_samples, ENCODER_DELAY, FRAME_LEN) as u32;
    let mut head = frame[..start + 4].to_vec();
    head.extend(FRAMES_ONLY.to_be_bytes());
    head.extend(n_frames.to_be_bytes());
    head.extend(ENCODER);
    head.push(AVERAGE_RATE);
    // No lowpass, gain, flags or bit rate.
    head.extend([0; 11]);
    head.extend(&trimmed.to_be_bytes()[1..]);
    head.extend(frame[start..].get(SETTINGS)?);
    // No length in bytes, and no checksum of the frames.
    head.extend([0; 6]);
    head.extend(crc16(0, &head).to_be_bytes());
    head.resize(frame.len(), 0);
    Some(head)
}
