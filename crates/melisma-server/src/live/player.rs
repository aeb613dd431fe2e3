//! One listener's music and the pace at which it leaves.

use std::time::Instant;

use melisma::audio::Meter;
use melisma::synth::Endless;
use tokio::sync::mpsc;

use super::{BLOCK, Level, Pace, Played, Seat};

/// Blocks of one listener in a row, so that a new listener does not delay the others.
const IN_A_ROW: u32 = 2;
/// Blocks between two levels.
const LEVEL_BLOCKS: u64 = 10;

/// A listener.
#[derive(Debug)]
pub(super) struct Player {
    music: Endless,
    meter: Meter,
    blocks: mpsc::Sender<Played>,
    /// When the next block is due.
    due: Instant,
    n_blocks: u64,
    _seat: Seat,
}

impl Player {
    pub(super) fn new(music: Endless, pace: Pace, blocks: mpsc::Sender<Played>, seat: Seat) -> Self {
        let due = seat.start.checked_sub(pace.n_ahead * BLOCK).unwrap_or(seat.start);
        Self { music, meter: Meter::new(pace.sample_rate), blocks, due, n_blocks: 0, _seat: seat }
    }

    /// When it next has something to do.
    pub(super) fn due(&self) -> Instant {
        // A full channel is looked at again after a block's time.
        if self.blocks.capacity() == 0 { self.due.max(Instant::now() + BLOCK) } else { self.due }
    }

    /// Renders what is due. Returns whether the listener is still there.
    pub(super) fn play(&mut self, now: Instant) -> bool {
        for _ in 0..IN_A_ROW {
            if self.blocks.is_closed() {
                return false;
            }
            if self.due > now || self.blocks.capacity() == 0 {
                return true;
            }
            let Some(played) = self.next() else { return false };
            // There is room: nobody else sends.
            if self.blocks.try_send(played).is_err() {
                return false;
            }
        }
        true
    }

    /// The next block; `None` if the composer's notes find no room beside the listener's.
    fn next(&mut self) -> Option<Played> {
        let notes = self.music.plan().ok()?;
        let block = self.music.next_block().ok()?;
        self.meter.push(block.left, block.right);
        let samples = block.left.iter().zip(&*block.right).flat_map(|(left, right)| [*left, *right]).collect();
        let position = block.position;
        self.n_blocks += 1;
        let level = self.n_blocks.is_multiple_of(LEVEL_BLOCKS).then(|| {
            let level = Level { peak_dbtp: self.meter.peak_dbtp(), momentary_lufs: self.meter.momentary() };
            self.meter.forget();
            level
        });
        let due = self.due;
        self.due += BLOCK;
        Some(Played { position, samples, notes, level, due })
    }
}
