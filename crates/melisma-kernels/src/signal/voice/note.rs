//! Notes of a bulk rendering, their mixes and their controls.

use super::level;
use super::{Control, TICK, Voice};
use crate::Result;
use crate::memory::view::check_len;

/// A voice with its onset and release, in one of the mixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Note {
    /// The voice.
    pub voice: Voice,
    /// The index of its mix.
    pub mix: u32,
    /// Its first sample.
    pub onset: u64,
    /// The sample of its release, if any.
    pub release: Option<u64>,
}

impl Note {
    /// Returns the first sample at which it is silent.
    pub fn end(&self) -> u64 {
        self.onset + u64::from(level::parts(self.voice.envelope, self.onset, self.release).end)
    }
}

/// The size of a rendering: `len` samples of each of `n_mixes`, starting at sample `position`, a
/// multiple of [`TICK`]. No note may start before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// The number of mixes.
    pub n_mixes: usize,
    /// Samples per mix.
    pub len: usize,
    /// The first sample's number.
    pub position: u64,
}

/// Modulation of all voices of a mix.
#[derive(Debug, Clone, Copy)]
pub enum Controls<'a> {
    /// The same for all mixes at all times.
    Still(Control),
    /// `[n_mixes, n_ticks + 1]`: the control at the first sample, then at the end of each tick.
    Moving(&'a [Control]),
}

/// The loaded controls: `per_mix` for each mix, or one for all.
#[derive(Debug)]
pub(super) struct ControlChanges {
    pub(super) controls: Vec<Control>,
    pub(super) per_mix: usize,
}

impl ControlChanges {
    pub(super) fn of(&self, mix: usize) -> &[Control] {
        if self.per_mix == 1 { &self.controls } else { &self.controls[mix * self.per_mix..][..self.per_mix] }
    }

    pub(super) fn load(&mut self, controls: Controls<'_>, bulk: Bulk) -> Result<()> {
        self.controls.clear();
        match controls {
            Controls::Still(control) => {
                self.per_mix = 1;
                self.controls.push(control);
            }
            Controls::Moving(controls) => {
                self.per_mix = bulk.len.div_ceil(TICK) + 1;
                check_len("voice: controls", controls.len(), self.per_mix * bulk.n_mixes)?;
                self.controls.extend_from_slice(controls);
            }
        }
        Ok(())
    }
}

/// Notes arranged for a GPU's lanes.
pub(super) struct Arrangement<'a> {
    pub(super) notes: &'a [Note],
    /// A note's index for each lane, in groups of one mix and warps of one kind.
    pub(super) lanes: &'a [u32],
    pub(super) group: u32,
    pub(super) is_alone: bool,
    pub(super) moves: &'a ControlChanges,
}
