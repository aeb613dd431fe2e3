//! Memory that an engine takes, by its layers and what lies between them.

use melisma_kernels::layer::need::Need;
use melisma_kernels::layer::step::{Row, Rows};

use super::options::MAX_STREAMS;
use super::ring::N_ENTRIES;
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;

/// Slots beside the arena: one of zeros, one on its way.
const N_SPARE_SLOTS: usize = 2;

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
    /// Returns the capacity for up to `max_streams` streams, no more than [`MAX_STREAMS`], in steps
    /// of `n_frames` or of one frame of each.
    pub(super) fn new(max_streams: usize, n_frames: usize) -> Self {
        let max_streams = max_streams.min(MAX_STREAMS);
        Self { n_slots: max_streams + 1, n_rows: max_streams.max(1), n_frames: max_streams.max(n_frames) }
    }

    /// Returns the slot that belongs to the engine.
    pub(super) fn spare(self) -> usize {
        self.n_slots - 1
    }

    /// Returns a row that changes no stream.
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

/// An engine known by its shape only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) capacity: Capacity,
    pub(super) sizes: Sizes,
}

impl Shape {
    /// Returns the most memory on `device`, for layers that need `layers(n_frames, threads)` in steps of so many
    /// frames, of all streams together.
    pub(super) fn needed(self, device: &Device, layers: impl Fn(usize, usize) -> Need) -> Needed {
        match device {
            Device::Cpu(cpu) => Needed { host: self.on_cpu(cpu.threads, layers) as u64, device: 0 },
            Device::Cuda(_) => self.on_cuda(layers(self.capacity.n_frames, 1)),
        }
    }

    fn on_cpu(self, threads: usize, layers: impl Fn(usize, usize) -> Need) -> usize {
        let steps = (1..=self.capacity.n_frames).map(|n_frames| layers(n_frames, threads));
        // Scratch grows to what the largest step needs; weights and state are those of any.
        let total =
            steps.reduce(|a, b| Need { scratch: a.scratch.max(b.scratch), shared: a.shared.max(b.shared), ..a });
        let Need { weights, scratch, shared, state, .. } = total.unwrap_or_default();
        let slots = (self.capacity.n_slots + N_SPARE_SLOTS) * state;
        let ways = 2 * self.input() + (1 + N_ENTRIES) * self.output();
        weights + threads * scratch + shared + slots + self.between() + ways
    }

    fn on_cuda(self, need: Need) -> Needed {
        let (slot, rows) = (2 * need.state, Rows::bytes(self.capacity.n_rows));
        let slots = (self.capacity.n_slots + N_SPARE_SLOTS) * slot;
        let ways = self.input() + self.output() + rows;
        let device = need.device_weights + need.device_scratch + slots + self.between() + ways;
        // Input, output and rows on their way, and a slot of zeros.
        let host = self.input() + N_ENTRIES * self.output() + rows + slot;
        Needed { host: host as u64, device: device as u64 }
    }

    fn between(self) -> usize {
        let Sizes { frame_latents, widest, deviates, attention, .. } = self.sizes;
        self.bytes(frame_latents * (deviates + 2 * widest + 4 * attention))
    }

    fn input(self) -> usize {
        self.bytes(self.sizes.frame_in)
    }

    fn output(self) -> usize {
        self.bytes(self.sizes.frame_out)
    }

    /// Returns the bytes of codes, samples or activations, which are 4 bytes each.
    fn bytes(self, per_frame: usize) -> usize {
        self.capacity.n_frames * per_frame * size_of::<f32>()
    }
}
