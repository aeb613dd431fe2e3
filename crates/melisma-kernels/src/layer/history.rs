//! The memory of a CPU layer between steps: the last rows of its input.

use crate::Result;
use crate::layer::step::{Arena, Step};

/// The rows that a stream's step can see: the remembered rows `[H, C]`, then the rows of the step
/// `[T, C]`.
#[derive(Clone, Copy)]
pub(crate) struct History<'a> {
    past: &'a [f32],
    now: &'a [f32],
    n_channels: usize,
}

impl<'a> History<'a> {
    /// Returns row `index` of the H + T.
    #[inline(always)]
    pub(crate) fn row(&self, index: usize) -> &'a [f32] {
        let at = index * self.n_channels;
        let (rows, at) = if at < self.past.len() { (self.past, at) } else { (self.now, at - self.past.len()) };
        &rows[at..at + self.n_channels]
    }
}

/// One layer's memory for all streams of a step.
pub(crate) struct Histories<'a> {
    arena: &'a mut [f32],
    slot_len: usize,
    offset: usize,
    /// Floats remembered for each slot, [H, C].
    len: usize,
}

impl<'a> Histories<'a> {
    pub(crate) fn new(arena: Arena<'a>, len: usize) -> Result<Self> {
        Ok(Self { slot_len: arena.slot_len, offset: arena.offset, arena: arena.floats.host()?, len })
    }

    /// Returns the rows that stream `stream` of `step` sees; `x` is the input of all streams.
    #[inline(always)]
    pub(crate) fn of<'b>(&'b self, step: &Step<'_>, x: &'b [f32], stream: usize, n_channels: usize) -> History<'b> {
        let len = x.len() / step.rows.len();
        let start = self.start(step, stream);
        History { past: &self.arena[start..start + self.len], now: &x[stream * len..(stream + 1) * len], n_channels }
    }

    /// Remembers the last rows of `x`.
    pub(crate) fn roll(&mut self, step: &Step<'_>, x: &[f32]) {
        for stream in 0..step.rows.len() {
            let len = x.len() / step.rows.len();
            let start = self.start(step, stream);
            let past = &mut self.arena[start..start + self.len];
            let now = &x[stream * len..(stream + 1) * len];
            if now.len() >= past.len() {
                past.copy_from_slice(&now[now.len() - past.len()..]);
            } else {
                past.copy_within(now.len().., 0);
                let n_left = past.len() - now.len();
                past[n_left..].copy_from_slice(now);
            }
        }
    }

    fn start(&self, step: &Step<'_>, stream: usize) -> usize {
        step.rows.as_slice()[stream].slot as usize * self.slot_len + self.offset
    }
}
