//! One step of many streams: the slots that take part, and the position in time of each.
//!
//! Layers with memory share one arena of state, [`Arena`] `[n_slots, slot_len]`, which is zero
//! before a stream's first step. A step takes B rows of T latents; row b works on the slot that
//! [`Row`] b names. Shapes depend only on B and T, so work that was recorded once serves any set of
//! streams: the rows are data.
//!
//! Each layer has a [`Timeline`]: its output i (of T · `rate`) in a step is the absolute output
//! `start · rate - lag + i` of the stream. Outputs before 0 and from `end · rate` on are written as
//! zero, the zero padding that the next layer expects. A stream is ended by steps with `end` set;
//! codes from `end` on are then ignored.
//!
//! ```
//! use melisma_kernels::layer::step::{Row, Timeline};
//!
//! let timeline = Timeline { rate: 8, lag: 28 };
//! let row = Row { start: 4, end: 5, ..Row::default() };
//! // Outputs 4·8 - 28 = 4, 5, ... of which those below 5·8 = 40 exist.
//! assert_eq!(timeline.live(&row, 4), 0..32);
//! assert_eq!(timeline.live(&Row { start: 0, ..row }, 4), 28..32);
//! assert_eq!(timeline.live(&Row { start: 8, ..row }, 4), 0..4);
//! ```
//!
//! # Why constant shapes?
//!
//! Work recorded once on a GPU then serves any set of streams, and streams join and leave between
//! frames. Start and end are masks over absolute time, and Snake(0) = 0 keeps the zeros zero. Every
//! layer has one constant lag; for the published 24 kHz model the lags add up to 4757 samples, the
//! receptive field. Attention lags by a constant W - 1 latents where the reference returns whole
//! windows: the first sample comes with the same frame, and no sample comes later than an
//! uninterrupted player needs it.

use std::fmt::Display;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::memory::view::check_len;
use crate::{Budget, Buffer, Device, Error, Queue, Result, View, ViewMut};

/// The format to which a GPU rounds the factors of products; sums are FP32. The CPU never rounds
/// factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// No rounding: tensor cores multiply in three parts, as accurate as FP32.
    #[default]
    Off,
    /// TF32, 10 bits of mantissa.
    Tf32,
    /// BF16, 7 bits of mantissa.
    Bf16,
}

/// The end of a stream that is still open, in latents. Its product with any rate fits 64 bits.
pub const OPEN: i64 = 1 << 40;

/// One stream's part in a step: six 64-bit integers, the same on the host and on a device.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Row {
    /// Its slot in the arena. The rows of a step have different slots, except for empty rows, whose
    /// `end` is 0.
    pub slot: i64,
    /// The number of steps this slot has made.
    pub n_steps: i64,
    /// Latents before this step.
    pub start: i64,
    /// Latents of the whole stream, or [`OPEN`].
    pub end: i64,
    /// The seed of its noise, as raw bits.
    pub seed: i64,
    /// 0: no noise; 1: noise from `seed`.
    pub noise: i64,
}

impl Default for Row {
    fn default() -> Self {
        Self { slot: 0, n_steps: 0, start: 0, end: OPEN, seed: 0, noise: 0 }
    }
}

/// The rows of a step, where a device's kernels read them.
#[derive(Debug)]
pub struct Rows {
    host: Vec<Row>,
    n_slots: usize,
    /// The copy on a GPU.
    copy: Option<Copied>,
}

/// The rows on a GPU, `[max_rows, 6]`, and on their way there.
#[derive(Debug)]
struct Copied {
    pinned: Buffer,
    copy_dev: Buffer,
}

const WORDS: usize = size_of::<Row>() / size_of::<i64>();

impl Rows {
    /// Reserves room for `max_rows` rows over an arena of `n_slots`.
    ///
    /// # Errors
    /// The budget or the device refuses.
    pub fn new(device: &Device, budget: &Budget, max_rows: usize, n_slots: usize) -> Result<Self> {
        let bytes = Self::bytes(max_rows);
        let copy = match device {
            Device::Cpu(_) => None,
            Device::Cuda(cuda) => {
                let (pinned, copy_dev) = (Buffer::pinned(cuda, budget, bytes)?, Buffer::device(cuda, budget, bytes)?);
                Some(Copied { pinned, copy_dev })
            }
        };
        Ok(Self { host: Vec::with_capacity(max_rows), n_slots, copy })
    }

    /// Returns the bytes that `max_rows` rows take on a GPU, and again in pinned memory.
    pub fn bytes(max_rows: usize) -> usize {
        max_rows * size_of::<Row>()
    }

    /// Replaces the rows.
    ///
    /// # Errors
    /// Too many rows, a slot that is not in the arena, or a time outside 0 ..= [`OPEN`].
    pub fn set(&mut self, queue: &Queue, rows: &[Row]) -> Result<()> {
        if rows.len() > self.host.capacity() {
            return Err(Error::invalid(format!(
                "step: {} rows, there is room for {}",
                rows.len(),
                self.host.capacity()
            )));
        }
        for row in rows {
            if usize::try_from(row.slot).is_ok_and(|slot| slot < self.n_slots)
                && (0..=OPEN).contains(&row.start)
                && (0..=OPEN).contains(&row.end)
            {
                continue;
            }
            return Err(Error::invalid(format!("step: {row:?} does not fit an arena of {} slots", self.n_slots)));
        }
        self.host.clear();
        self.host.extend_from_slice(rows);
        let Some(Copied { pinned, copy_dev }) = &mut self.copy else { return Ok(()) };
        let words: &[i64] = bytemuck::cast_slice(rows);
        pinned.view_mut::<i64>()?.host()?[..words.len()].copy_from_slice(words);
        queue.start_copy(pinned, copy_dev, size_of_val(rows))
    }

    /// Returns the rows.
    pub fn as_slice(&self) -> &[Row] {
        &self.host
    }

    /// Returns B.
    pub fn len(&self) -> usize {
        self.host.len()
    }

    /// Returns whether no stream takes part.
    pub fn is_empty(&self) -> bool {
        self.host.is_empty()
    }

    /// Returns `[B, 6]` in device memory.
    pub(crate) fn words(&self) -> Result<View<'_, i64>> {
        match &self.copy {
            Some(copy) => copy.copy_dev.view::<i64>()?.first(self.len() * WORDS),
            None => Err(Error::invalid("step: the rows are in host memory")),
        }
    }
}

/// Data that all layers of a step share.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// B rows.
    pub rows: &'a Rows,
    /// T: latents of every row in this step.
    pub n_latents: usize,
}

impl Step<'_> {
    /// Returns B · T · `rate`: rows of a layer's activations `[B, T · rate, C]`.
    pub(crate) fn n_columns(&self, rate: usize) -> usize {
        self.rows.len() * self.n_latents * rate
    }

    /// Checks that a view is `[B, T · rate, n_channels]`.
    pub(crate) fn check(
        &self,
        name: &(impl Display + ?Sized),
        found: usize,
        rate: usize,
        n_channels: usize,
    ) -> Result<()> {
        check_len(name, found, self.n_columns(rate) * n_channels)
    }
}

/// The position of a layer's outputs in time; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// Outputs per latent.
    pub rate: usize,
    /// Lag behind the stream's input, in outputs.
    pub lag: usize,
}

impl Timeline {
    /// Returns the absolute index of the first output of `row`'s step.
    pub fn first(&self, row: &Row) -> i64 {
        row.start * self.rate as i64 - self.lag as i64
    }

    /// Returns which of the T · `rate` outputs of `row`'s step exist; the others are zero.
    pub fn live(&self, row: &Row, n_latents: usize) -> Range<usize> {
        let (first, len) = (self.first(row), (n_latents * self.rate) as i64);
        let end = (row.end * self.rate as i64 - first).clamp(0, len);
        let start = (-first).clamp(0, end);
        start as usize..end as usize
    }

    /// Returns the timeline after a convolution with 2s taps, a stride of s and a padding of
    /// ceil(s/2): its output j needs the inputs up to j·s - ceil(s/2) + 2s - 1.
    ///
    /// ```
    /// use melisma_kernels::layer::step::Timeline;
    ///
    /// // Output 0 needs the inputs up to 11. With a lag of 4 that is the last of the first
    /// // latent's 16 inputs; with a lag of 5 it comes with the second latent.
    /// assert_eq!(Timeline { rate: 16, lag: 4 }.downsampled(8), Timeline { rate: 2, lag: 1 });
    /// assert_eq!(Timeline { rate: 16, lag: 5 }.downsampled(8), Timeline { rate: 2, lag: 2 });
    /// ```
    ///
    /// # Panics
    /// `stride` is 0.
    pub fn downsampled(&self, stride: usize) -> Self {
        Self { rate: self.rate / stride, lag: (self.lag + stride / 2).div_ceil(stride) }
    }
}

/// One layer's part of the state of all slots: floats `offset..` of each slot.
#[derive(Debug)]
pub struct Arena<'a> {
    /// `[n_slots, slot_len]`
    pub floats: ViewMut<'a, f32>,
    /// Floats of one slot, over all layers.
    pub slot_len: usize,
    /// Offset of the layer's floats in a slot.
    pub offset: usize,
}

impl Arena<'_> {
    /// Checks that every slot of `rows` holds `len` floats for a layer.
    pub(crate) fn check(&self, name: &str, rows: &Rows, len: usize) -> Result<()> {
        let slots_fit = rows.n_slots.checked_mul(self.slot_len).is_some_and(|all| all <= self.floats.len());
        if slots_fit && self.offset.checked_add(len).is_some_and(|end| end <= self.slot_len) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{name}: an arena of {} floats in slots of {} does not hold {len} from {} on in {} slots",
            self.floats.len(),
            self.slot_len,
            self.offset,
            rows.n_slots
        )))
    }
}

/// An input and an output of a layer.
#[derive(Debug)]
pub struct Activations<'a> {
    /// `[B, T · rate_in, C_in]`
    pub x: View<'a, f32>,
    /// `[B, T · rate, C_out]`
    pub y: ViewMut<'a, f32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_outside_of_the_arena_or_of_time_are_refused() {
        let (device, budget) = (Device::cpu().unwrap(), Budget::unlimited());
        let queue = device.queue(&budget).unwrap();
        let mut rows = Rows::new(&device, &budget, 2, 3).unwrap();
        let row = Row { slot: 2, start: OPEN, end: 0, ..Row::default() };
        rows.set(&queue, &[row, Row::default()]).unwrap();
        for wrong in [
            Row { slot: -1, ..row },
            Row { slot: 3, ..row },
            Row { start: -1, ..row },
            Row { start: OPEN + 1, ..row },
            Row { end: -1, ..row },
            Row { end: OPEN + 1, ..row },
        ] {
            let refused = rows.set(&queue, &[row, wrong]).unwrap_err().to_string();
            assert!(refused.ends_with("does not fit an arena of 3 slots"), "{wrong:?}: {refused}");
        }
        assert!(rows.set(&queue, &[row; 9]).is_err());
        assert_eq!(rows.as_slice(), [row, Row::default()]);
    }
}
