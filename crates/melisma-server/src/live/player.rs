//! One listener's music and the pace at which it leaves.

use std::time::Instant;

use melisma::audio::Meter;
use melisma::synth::Endless;
use tokio::sync::mpsc;

use super::{BLOCK, Lead, Level, ListenerSlot, PlaybackOptions, RenderedBlock};

/// Blocks of one listener in a row, so that a new listener does not delay the others.
const IN_A_ROW: usize = 2;
/// Blocks between two levels.
const LEVEL_BLOCKS: u64 = 10;

/// A listener.
#[derive(Debug)]
pub(super) struct Player {
    music: Endless,
    meter: Meter,
    blocks: mpsc::Sender<RenderedBlock>,
    lead: Lead,
    /// The lead that `due` has.
    n_ahead: u32,
    /// When the next block is due.
    due: Instant,
    /// When it next has something to do.
    wake: Instant,
    /// Blocks that are rendered and not sent yet.
    ready: Vec<RenderedBlock>,
    n_blocks: u64,
    _slot: ListenerSlot,
}

impl Player {
    pub(super) fn new(
        music: Endless,
        options: PlaybackOptions,
        blocks: mpsc::Sender<RenderedBlock>,
        slot: ListenerSlot,
    ) -> Self {
        let PlaybackOptions { sample_rate, lead } = options;
        let (meter, due) = (Meter::new(sample_rate), slot.start);
        let mut player = Self {
            music,
            meter,
            blocks,
            lead,
            n_ahead: 0,
            due,
            wake: due,
            ready: Vec::new(),
            n_blocks: 0,
            _slot: slot,
        };
        player.follow_lead();
        player.wake = player.due;
        player
    }

    /// Moves the time of the next block by the change of the lead.
    fn follow_lead(&mut self) {
        let n_ahead = self.lead.n_blocks();
        let earlier = self.due.checked_sub(n_ahead.saturating_sub(self.n_ahead) * BLOCK);
        self.due = earlier.unwrap_or(self.due) + self.n_ahead.saturating_sub(n_ahead) * BLOCK;
        self.n_ahead = n_ahead;
    }

    /// Returns when it next has something to do.
    pub(super) fn wake(&self) -> Instant {
        self.wake
    }

    /// Renders what is due. Returns whether the listener is still there.
    pub(super) fn play(&mut self, now: Instant) -> bool {
        if self.wake > now {
            return true;
        }
        if self.blocks.is_closed() {
            return false;
        }
        self.follow_lead();
        let room = self.blocks.capacity();
        for _ in 0..room.min(IN_A_ROW) {
            if self.due > now {
                break;
            }
            let Some(block) = self.next() else { return false };
            self.ready.push(block);
        }
        // A full channel is looked at again after a block's time.
        self.wake = if room == 0 { now + BLOCK } else { self.due };
        true
    }

    /// Sends what was rendered. Returns whether the listener is still there.
    pub(super) fn send(&mut self) -> bool {
        // The channel has room: this is its only sender.
        self.ready.drain(..).all(|block| self.blocks.try_send(block).is_ok())
    }

    /// Returns the next block; `None` if the composer's notes find no room beside the listener's.
    fn next(&mut self) -> Option<RenderedBlock> {
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
        Some(RenderedBlock { position, samples, notes, level, due })
    }
}
