//! The clock of an Opus track: its times tell where packets are missing.

use super::super::opus::RATE;
use crate::{Error, Result};

/// How far the time of a block may be from the end of the one before it, in nanoseconds. Live recorders
/// write the times at which packets arrived.
const MAX_JUMP: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Where a track is, in nanoseconds.
#[derive(Debug)]
pub(super) struct Clock {
    /// Where the last block ends, by its own time.
    block_end: u64,
    /// Where all packets since the first block end, with those that are missing. Times that waver move it
    /// once, not at every block.
    sound_end: u64,
    /// The samples of the last packet, and its first byte.
    n_samples: u64,
    pub toc: u8,
}

impl Clock {
    /// Starts at the time of the first block.
    pub(super) fn new(time: u64) -> Self {
        Self { block_end: time, sound_end: time, n_samples: 0, toc: 0 }
    }

    /// Goes on to a block at `time`, a multiple of `tick`, and returns how many samples are missing before
    /// it: those of packets as long as the last one.
    ///
    /// # Errors
    /// The block is too far from the end of the one before it.
    pub(super) fn go_to(&mut self, time: u64, tick: u64) -> Result<u64> {
        if self.block_end.abs_diff(time) > MAX_JUMP {
            let seconds = |ns: u64| ns as f64 / SECOND as f64;
            let (from, to) = (seconds(self.block_end), seconds(time));
            return Err(Error::corrupt(format!(
                "the clock of the Matroska blocks jumps from {from:.3} s to {to:.3} s"
            ))
            .with_hint("repair it, as in `ffmpeg -i IN -af aresample=async=1 OUT.flac`"));
        }
        self.block_end = time;
        let packet = nanoseconds(self.n_samples);
        // The first time and this one are rounded. Ticks as long as half a packet hide a missing one.
        if packet <= tick.saturating_mul(2) {
            self.sound_end = self.sound_end.max(time);
            return Ok(0);
        }
        let n_packets = time.saturating_sub(self.sound_end).saturating_add(tick) / packet;
        self.sound_end = self.sound_end.saturating_add(n_packets * packet);
        Ok(n_packets * self.n_samples)
    }

    /// Counts a packet of the block.
    pub(super) fn count(&mut self, packet: &[u8], n_samples: u64) {
        self.n_samples = n_samples;
        self.toc = packet.first().copied().unwrap_or_default();
        self.block_end = self.block_end.saturating_add(nanoseconds(n_samples));
        self.sound_end = self.sound_end.saturating_add(nanoseconds(n_samples));
    }
}

/// Returns how long samples of Opus last.
fn nanoseconds(n_samples: u64) -> u64 {
    n_samples * SECOND / u64::from(RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the packets that are missing before each block of one packet, at times in milliseconds.
    fn missing(n_samples: u64, times: &[u64]) -> Vec<u64> {
        let mut clock = Clock::new(times[0] * MS);
        let step = |&time: &u64| {
            let n_missing = clock.go_to(time * MS, MS).unwrap();
            clock.count(&[0], n_samples);
            n_missing / n_samples
        };
        times.iter().map(step).collect()
    }

    #[test]
    fn whole_packets_are_missed() {
        assert_eq!(missing(960, &[7, 27, 67, 87, 1067, 1087]), [0, 0, 1, 0, 48, 0]);
        // Times of 2.5 ms, rounded down and up.
        assert_eq!(missing(120, &[0, 2, 5, 7, 10, 15, 17, 25]), [0, 0, 0, 0, 0, 1, 0, 2]);
        assert_eq!(missing(120, &[0, 3, 5, 8, 10, 15, 18, 25]), [0, 0, 0, 0, 0, 1, 0, 2]);
        // 60 ms are too coarse for a gap of 40.
        assert_eq!(missing(2880, &[0, 60, 160, 220, 280, 400]), [0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn times_that_waver_add_up_to_nothing() {
        assert_eq!(missing(960, &[0, 38, 41, 78, 85, 118]), [0; 6]);
        // The third packet comes 45 ms late, and the ones after it as late or in time.
        assert_eq!(missing(960, &[0, 20, 85, 65, 80, 145, 125, 140, 160]), [0, 0, 2, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn coarse_times_tell_nothing() {
        let mut clock = Clock::new(0);
        clock.count(&[0], 960);
        assert_eq!(clock.go_to(40 * MS, 10 * MS).unwrap(), 0);
        assert_eq!(clock.go_to(60 * MS, MS).unwrap(), 960);
        let message = clock.go_to(1_061 * MS, MS).unwrap_err().to_string();
        assert_eq!(message, "the clock of the Matroska blocks jumps from 0.060 s to 1.061 s");
    }
}
