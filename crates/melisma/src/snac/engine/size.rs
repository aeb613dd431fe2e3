//! The sizes of an engine: of its steps, and of what lies between its layers.

use melisma_kernels::layer::step::Row;

use super::options::MAX_STREAMS;

/// How large the steps of a batch may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    /// Slots of the arena.
    pub(super) n_slots: usize,
    /// Rows of a step.
    pub(super) n_rows: usize,
    /// Frames of a step, all rows together.
    pub(super) n_frames: usize,
}

impl Capacity {
    /// For up to `max_streams` streams, no more than [`MAX_STREAMS`], in steps of `n_frames` or of
    /// one frame of each.
    pub(super) fn new(max_streams: usize, n_frames: usize) -> Self {
        let max_streams = max_streams.min(MAX_STREAMS);
        Self { n_slots: max_streams + 1, n_rows: max_streams.max(1), n_frames: max_streams.max(n_frames) }
    }

    /// The slot that belongs to the engine.
    pub(super) fn spare(self) -> usize {
        self.n_slots - 1
    }

    /// A row that changes no stream.
    pub(super) fn idle_row(self) -> Row {
        Row { slot: self.spare() as i64, end: 0, ..Row::default() }
    }
}

/// How much memory a chain needs between its layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Floats of state in a slot.
    pub(super) slot_len: usize,
    /// Latents, inputs and outputs of a frame.
    pub(super) frame_latents: usize,
    pub(super) frame_in: usize,
    pub(super) frame_out: usize,
    /// Floats per latent of the widest activations, and of deviates.
    pub(super) widest: usize,
    pub(super) deviates: usize,
    /// Channels of attention, or 0.
    pub(super) attention: usize,
}
