//! One stream of one or two channels.

use opus_pure::packet::{frame_count, samples_48k};
use opus_pure::{OpusDecoder, Repacketizer, Result};

use super::RATE;

/// The longest frame that says that nothing was sent: what was heard before goes on instead.
const SILENT_LEN: usize = 1;

/// The decoder of a stream.
pub(super) struct Stream {
    decoder: OpusDecoder,
    frames: Repacketizer,
    frame: Vec<u8>,
}

impl Stream {
    pub(super) fn new(n_channels: usize, gain_q8: i32) -> Result<Self> {
        let mut decoder = OpusDecoder::new(RATE as i32, n_channels)?;
        decoder.gain_q8 = gain_q8;
        Ok(Self { decoder, frames: Repacketizer::new(), frame: Vec::new() })
    }

    pub(super) fn reset(&mut self) -> Result<()> {
        self.decoder.reset_state()
    }

    /// Decodes `packet` of `n` samples per channel to `samples`, interleaved, and returns their number.
    ///
    /// libopus conceals a frame of one byte or none as a lost one. `opus-pure` would decode it, and its
    /// state would differ until long after, so each frame is decoded alone here.
    pub(super) fn decode(&mut self, packet: &[u8], n: usize, samples: &mut [f32]) -> Result<usize> {
        let n_frames = frame_count(packet)?;
        if n_frames == 1 && packet.len() > 2 + SILENT_LEN {
            return self.decoder.decode(packet, n, samples);
        }
        self.frames.clear();
        self.frames.cat(packet)?;
        let (n_frames, mut n_done) = (self.frames.nb_frames(), 0);
        let n_channels = self.decoder.channels();
        for index in 0..n_frames {
            self.frame.clear();
            self.frames.out_range_into(index, index + 1, &mut self.frame)?;
            let n = samples_48k(&self.frame)?;
            // Its first byte tells the mode.
            let frame = if self.frame.len() <= 1 + SILENT_LEN { &[][..] } else { &self.frame };
            n_done += self.decoder.decode(frame, n, &mut samples[n_done * n_channels..])?;
        }
        Ok(n_done)
    }
}
