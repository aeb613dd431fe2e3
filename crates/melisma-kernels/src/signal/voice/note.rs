//! Notes of a bulk rendering, the mixes that they are heard in, and what moves them.

use super::level;
use super::{Control, TICK, Voice};
use crate::Result;
use crate::memory::view::check_len;

/// A voice with its life, in one of the mixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Note {
    /// What it is.
    pub voice: Voice,
    /// Where it is heard.
    pub mix: u32,
    /// Its first sample.
    pub onset: u64,
    /// Where it is released, if it is.
    pub release: Option<u64>,
}

impl Note {
    /// The sample from which on it is silent.
    pub fn end(&self) -> u64 {
        self.onset + u64::from(level::parts(self.voice.envelope, self.onset, self.release).end)
    }
}

/// What is rendered: `len` samples of each of `n_mixes`, from sample `position`, a multiple of [`TICK`] that no note is
/// before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// Mixes.
    pub n_mixes: usize,
    /// Samples of each.
    pub len: usize,
    /// The first sample's number.
    pub position: u64,
}

/// What moves all voices of a mix together.
#[derive(Debug, Clone, Copy)]
pub enum Controls<'a> {
    /// The same for all mixes and all the time.
    Still(Control),
    /// `[n_mixes, n_ticks + 1]`: that at the first sample, then those at the end of each tick.
    Moving(&'a [Control]),
}

/// Controls as they were loaded: `per_mix` of each mix, or one for all.
#[derive(Debug)]
pub(super) struct Moves {
    pub(super) controls: Vec<Control>,
    pub(super) per_mix: usize,
}

impl Moves {
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

/// Notes as a GPU's lanes take them.
pub(super) struct Arrangement<'a> {
    pub(super) notes: &'a [Note],
    /// A note's index for each lane, in groups of one mix and warps of one kind.
    pub(super) lanes: &'a [u32],
    pub(super) group: u32,
    pub(super) is_alone: bool,
    pub(super) moves: &'a Moves,
}
