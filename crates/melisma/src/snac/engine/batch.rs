//! One step of several streams through all layers.

use melisma_kernels::attention::Pass;
use melisma_kernels::step::{Activations, Arena, Row, Rows, Step};
use melisma_kernels::{Budget, DType, Device, Queue, Tensor, View, ViewMut};

use super::super::noise::Noise;
use super::layers::Layers;
use crate::Result;

/// The state of all slots, and the buffers between layers.
#[derive(Debug)]
pub(super) struct Batch {
    rows: Rows,
    /// `[n_slots, slot_len]`
    pub(super) arena: Tensor,
    /// `[B, F, S]`
    codes: Tensor,
    /// `[B, T · rate]` for each noise block.
    deviates: Tensor,
    /// Activations, taken in turns.
    now: Tensor,
    next: Tensor,
    /// Of attention: `[B, T, 3 C]`, `[B, T, C]`.
    qkv: Tensor,
    skip: Tensor,
    /// `[B, T · hop]`
    samples: Tensor,
}

/// How large the steps of a batch may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    /// Slots of the arena.
    pub(super) n_slots: usize,
    /// Rows of a step.
    pub(super) n_rows: usize,
    /// Frames of a step, all rows together.
    pub(super) n_frames: usize,
    /// Latents and codes of a frame.
    pub(super) frame_latents: usize,
    pub(super) frame_codes: usize,
}

/// What goes into a step.
pub(super) struct Input<'a> {
    pub(super) rows: &'a [Row],
    /// Of each row.
    pub(super) noise: &'a [&'a Noise],
    /// `[B, F, S]`
    pub(super) codes: &'a [i32],
    pub(super) n_latents: usize,
}

impl Batch {
    pub(super) fn new(layers: &Layers, device: &Device, budget: &Budget, capacity: Capacity) -> Result<Self> {
        let n_latents = capacity.n_frames * capacity.frame_latents;
        let floats = |per_latent: usize| Tensor::new(device, budget, DType::F32, &[n_latents, per_latent]);
        let widest = layers.blocks.iter().map(|block| block.rate * block.n_channels);
        let widest = widest.chain([layers.latent_dim, layers.dim]).max().unwrap_or(0);
        let attention = if layers.attention.is_some() { layers.dim } else { 0 };
        let arena = Tensor::new(device, budget, DType::F32, &[capacity.n_slots, layers.slot_len])?;
        Ok(Self {
            rows: Rows::new(device, budget, capacity.n_rows, capacity.n_slots)?,
            arena,
            codes: Tensor::new(device, budget, DType::I32, &[capacity.n_frames, capacity.frame_codes])?,
            deviates: floats(layers.noise.per_latent())?,
            now: floats(widest)?,
            next: floats(widest)?,
            qkv: floats(3 * attention)?,
            skip: floats(attention)?,
            samples: floats(layers.timeline.rate)?,
        })
    }

    /// Runs one step; the samples, `[B, T · hop]`, lie in `samples` afterwards.
    pub(super) fn step(
        &mut self,
        layers: &Layers,
        queue: &Queue,
        input: &Input<'_>,
        samples: &mut [f32],
    ) -> Result<()> {
        self.rows.set(queue, input.rows)?;
        let n_columns = input.rows.len() * input.n_latents;
        queue.copy(input.codes.into(), self.codes.view_mut::<i32>()?.first(input.codes.len())?)?;
        self.draw(layers, queue, input)?;
        self.run(layers, queue, input.n_latents, input.codes.len())?;
        queue.copy(self.samples.view::<f32>()?.first(n_columns * layers.timeline.rate)?, samples.into())
    }

    /// Deviates by the kernel, or from the host where a stream brings its own.
    fn draw(&mut self, layers: &Layers, queue: &Queue, input: &Input<'_>) -> Result<()> {
        let len = input.rows.len() * input.n_latents * layers.noise.per_latent();
        let step = Step { rows: &self.rows, n_latents: input.n_latents };
        if !input.noise.iter().any(|noise| matches!(noise, Noise::Given(_))) {
            return layers.noise.run(queue, step, self.deviates.view_mut::<f32>()?.first(len)?);
        }
        let mut deviates = Vec::with_capacity(len);
        for (index, timeline) in layers.noise.blocks().iter().enumerate() {
            for (row, noise) in input.rows.iter().zip(input.noise) {
                let mut drawn = vec![0.0; input.n_latents * timeline.rate];
                let live = timeline.live(row, input.n_latents);
                let start = timeline.first(row) + live.start as i64;
                noise.fill(index, start as u64, &mut drawn[live]);
                deviates.extend(drawn);
            }
        }
        queue.copy(deviates.as_slice().into(), self.deviates.view_mut::<f32>()?.first(len)?)
    }

    fn run(&mut self, layers: &Layers, queue: &Queue, n_latents: usize, n_codes: usize) -> Result<()> {
        let Self { rows, arena, codes, deviates, now, next, qkv, skip, samples } = self;
        let (step, n_columns) = (Step { rows, n_latents }, rows.len() * n_latents);
        let mut flow = Flow { queue, step, arena, slot_len: layers.slot_len, now, next };
        layers.embed.run(
            queue,
            step,
            codes.view::<i32>()?.first(n_codes)?,
            flow.first(n_columns * layers.latent_dim)?,
        )?;
        let sizes = [n_columns * layers.latent_dim, n_columns * layers.latent_dim];
        flow.stateful(layers.entry.offset, sizes, |queue, step, arena, x| {
            layers.entry.plan.run(queue, step, arena, x)
        })?;
        let sizes = [n_columns * layers.latent_dim, n_columns * layers.dim];
        flow.plain(sizes, |queue, step, x| layers.project.run(queue, step, View::Host(&[]), x))?;
        if let Some(local) = &layers.attention {
            let len = n_columns * layers.dim;
            flow.plain([len, len], |queue, step, x| local.norm.run(queue, step, x))?;
            // The norm is in `now`, its input still in `next`.
            let none = View::Host(&[]);
            let activations =
                Activations { x: flow.now.view::<f32>()?.first(len)?, y: qkv.view_mut::<f32>()?.first(3 * len)? };
            local.to_qkv.run(queue, step, none, activations)?;
            let pass = Pass {
                qkv: qkv.view::<f32>()?.first(3 * len)?,
                x: flow.next.view::<f32>()?.first(len)?,
                mixed: flow.now.view_mut::<f32>()?.first(len)?,
                skip: skip.view_mut::<f32>()?.first(len)?,
            };
            let floats = flow.arena.view_mut::<f32>()?;
            let arena = Arena { floats, slot_len: layers.slot_len, offset: local.attend.offset };
            local.attend.plan.run(queue, step, arena, pass)?;
            let with = skip.view::<f32>()?.first(len)?;
            flow.plain([len, len], |queue, step, x| local.to_out.run(queue, step, with, x))?;
        }
        let mut width = n_columns * layers.dim;
        let (deviates, mut drawn) = (deviates.view::<f32>()?, 0);
        for block in &layers.blocks {
            let len = n_columns * block.rate * block.n_channels;
            let upsample = &block.upsample;
            flow.stateful(upsample.offset, [width, len], |queue, step, arena, x| {
                upsample.plan.run(queue, step, arena, x)
            })?;
            if let Some(noise) = &block.noise {
                let with = deviates.range(drawn..drawn + n_columns * block.rate)?;
                drawn += n_columns * block.rate;
                flow.plain([len, len], |queue, step, x| noise.run(queue, step, with, x))?;
            }
            for unit in &block.units {
                flow.stateful(unit.offset, [len, len], |queue, step, arena, x| unit.plan.run(queue, step, arena, x))?;
            }
            width = len;
        }
        let arena =
            Arena { floats: flow.arena.view_mut::<f32>()?, slot_len: layers.slot_len, offset: layers.head.offset };
        let y = samples.view_mut::<f32>()?.first(n_columns * layers.timeline.rate)?;
        layers.head.plan.run(queue, step, arena, Activations { x: flow.now.view::<f32>()?.first(width)?, y })
    }
}

/// Activations on their way through the layers: each reads `now` and writes `next`, which then change places.
struct Flow<'a> {
    queue: &'a Queue,
    step: Step<'a>,
    arena: &'a mut Tensor,
    slot_len: usize,
    now: &'a mut Tensor,
    next: &'a mut Tensor,
}

impl Flow<'_> {
    fn first(&mut self, len: usize) -> Result<ViewMut<'_, f32>> {
        self.now.view_mut::<f32>()?.first(len)
    }

    fn plain(
        &mut self,
        [len_in, len_out]: [usize; 2],
        run: impl FnOnce(&Queue, Step<'_>, Activations<'_>) -> Result<()>,
    ) -> Result<()> {
        let x = self.now.view::<f32>()?.first(len_in)?;
        let y = self.next.view_mut::<f32>()?.first(len_out)?;
        run(self.queue, self.step, Activations { x, y })?;
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }

    fn stateful(
        &mut self,
        offset: usize,
        [len_in, len_out]: [usize; 2],
        run: impl FnOnce(&Queue, Step<'_>, Arena<'_>, Activations<'_>) -> Result<()>,
    ) -> Result<()> {
        let arena = Arena { floats: self.arena.view_mut::<f32>()?, slot_len: self.slot_len, offset };
        let x = self.now.view::<f32>()?.first(len_in)?;
        let y = self.next.view_mut::<f32>()?.first(len_out)?;
        run(self.queue, self.step, arena, Activations { x, y })?;
        std::mem::swap(&mut self.now, &mut self.next);
        Ok(())
    }
}
