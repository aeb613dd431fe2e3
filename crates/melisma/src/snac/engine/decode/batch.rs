//! One step of several streams through all layers.
//!
//! On a GPU a step of one frame is a graph, recorded when the engine is made: one for each batch size that is a power of
//! two or, from 16 on, half-way between two, and for the largest. A step of fewer streams is padded with idle rows.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use melisma_kernels::Graph;
use melisma_kernels::layer::attention::Pass;
use melisma_kernels::layer::step::{Activations, Arena, Row, Rows, Step};
use melisma_kernels::{Budget, Buffer, DType, Device, Queue, Tensor, View, ViewMut};

use super::super::ring::{Ring, Ticket};
use super::layers::Layers;
use crate::Result;
use crate::snac::config::Config;
use crate::snac::noise::Noise;

/// Frames that a clip's step has: the weights are read once for all of them.
pub(super) const CLIP_FRAMES: usize = 8;

/// The state of all slots, what lies between the layers, and the way to it and back.
pub(super) struct Batch {
    shared: Arc<Mutex<Buffers>>,
    /// Where the host writes codes and reads samples.
    codes: Buffer,
    pub(super) ring: Ring,
    /// Rising in their number of rows.
    graphs: Vec<Graph<Recorded>>,
    /// The rows of a step, filled up.
    rows: Vec<Row>,
    capacity: Capacity,
}

/// What the kernels work on.
#[derive(Debug)]
pub(super) struct Buffers {
    rows: Rows,
    /// `[n_slots, slot_len]`
    pub(super) arena: Tensor,
    /// `[B, F, S]`
    codes: Buffer,
    /// `[B, T · rate]` for each noise block.
    deviates: Tensor,
    /// Activations, taken in turns.
    now: Tensor,
    next: Tensor,
    /// Of attention: `[B, T, 3 C]`, `[B, T, C]`.
    qkv: Tensor,
    skip: Tensor,
    /// `[B, T · hop]`
    samples: Buffer,
}

/// A step of one frame for `n_rows` rows.
struct Recorded {
    layers: Arc<Layers>,
    shared: Arc<Mutex<Buffers>>,
    n_rows: usize,
    n_latents: usize,
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

impl Capacity {
    /// For up to `max_streams` streams.
    pub(super) fn new(config: &Config, max_streams: usize) -> Self {
        Self {
            n_slots: max_streams + 1,
            n_rows: max_streams.max(1),
            n_frames: max_streams.max(CLIP_FRAMES),
            frame_latents: config.frame_latents(),
            frame_codes: config.frame_codes().sum(),
        }
    }
}

/// What goes into a step beside its codes.
pub(super) struct Input<'a> {
    pub(super) rows: &'a [Row],
    /// Of each row.
    pub(super) noise: &'a [Noise],
    pub(super) n_latents: usize,
}

impl Batch {
    pub(super) fn new(layers: &Arc<Layers>, queue: &Queue, budget: &Budget, capacity: Capacity) -> Result<Self> {
        let device = &queue.device();
        let n_latents = capacity.n_frames * capacity.frame_latents;
        let floats = |per_latent: usize| Tensor::new(device, budget, DType::F32, &[n_latents, per_latent]);
        let widest = layers.blocks.iter().map(|block| block.rate * block.n_channels);
        let widest = widest.chain([layers.latent_dim, layers.dim]).max().unwrap_or(0);
        let attention = if layers.attention.is_some() { layers.dim } else { 0 };
        let arena = Tensor::new(device, budget, DType::F32, &[capacity.n_slots, layers.slot_len])?;
        let on_device = |bytes: usize| match device {
            Device::Cpu(_) => Buffer::host(budget, bytes),
            Device::Cuda(cuda) => Buffer::device(cuda, budget, bytes),
        };
        let on_host = |bytes: usize| match device {
            Device::Cpu(_) => Buffer::host(budget, bytes),
            Device::Cuda(cuda) => Buffer::pinned(cuda, budget, bytes),
        };
        let codes_bytes = capacity.n_frames * capacity.frame_codes * size_of::<i32>();
        let samples_bytes = n_latents * layers.timeline.rate * size_of::<f32>();
        let buffers = Buffers {
            rows: Rows::new(device, budget, capacity.n_rows, capacity.n_slots)?,
            arena,
            codes: on_device(codes_bytes)?,
            deviates: floats(layers.noise.per_latent())?,
            now: floats(widest)?,
            next: floats(widest)?,
            qkv: floats(3 * attention)?,
            skip: floats(attention)?,
            samples: on_device(samples_bytes)?,
        };
        let mut batch = Self {
            shared: Arc::new(Mutex::new(buffers)),
            codes: on_host(codes_bytes)?,
            ring: Ring::new(|| on_host(samples_bytes))?,
            graphs: Vec::new(),
            rows: Vec::with_capacity(capacity.n_rows),
            capacity,
        };
        if let Queue::Cuda(_) = queue {
            batch.record(layers, queue)?;
        }
        Ok(batch)
    }

    /// What the kernels work on.
    pub(super) fn buffers(&self) -> MutexGuard<'_, Buffers> {
        lock(&self.shared)
    }

    /// Records the graphs, the largest first: what kernels need beside the buffers is then large enough for all.
    fn record(&mut self, layers: &Arc<Layers>, queue: &Queue) -> Result<()> {
        let (most, n_latents) = (self.capacity.n_rows, self.capacity.frame_latents);
        let powers = std::iter::successors(Some(1), |n| Some(2 * n));
        let between = powers.flat_map(|n| if n < 16 { [n, n] } else { [n, n + n / 2] }).take_while(|&n| n < most);
        let mut sizes: Vec<usize> = between.chain([most]).collect();
        sizes.dedup();
        for n_rows in sizes.into_iter().rev() {
            let mut recorded = Recorded { layers: layers.clone(), shared: self.shared.clone(), n_rows, n_latents };
            self.buffers().rows.set(queue, &vec![self.idle_row(); n_rows])?;
            Recorded::run(queue, &mut recorded)?;
            queue.synchronize()?;
            self.graphs.insert(0, Graph::capture(queue, recorded, Recorded::run)?);
        }
        Ok(())
    }

    /// Writes the codes of the next step, `[B, F, S]`, to where the device takes them from.
    pub(super) fn set_codes<'a>(&mut self, frames: impl Iterator<Item = &'a [i32]>) -> Result<()> {
        let _span = tracing::info_span!("tensor_population").entered();
        let codes = self.codes.view_mut::<i32>()?.host()?;
        let mut done = 0;
        for frames in frames {
            codes[done..done + frames.len()].copy_from_slice(frames);
            done += frames.len();
        }
        Ok(())
    }

    /// A row that changes no stream.
    fn idle_row(&self) -> Row {
        Row { slot: self.capacity.n_slots as i64 - 1, end: 0, ..Row::default() }
    }

    /// Starts one step. On a GPU it returns while at most one step before it still runs.
    pub(super) fn step(&mut self, layers: &Layers, queue: &Queue, input: &Input<'_>) -> Result<Ticket> {
        let given = input.noise.iter().any(|noise| matches!(noise, Noise::Given(_)));
        let recorded = input.n_latents == self.capacity.frame_latents && !given;
        let n_rows = input.rows.len();
        let graph = self.graphs.iter().position(|graph| recorded && graph.state().n_rows >= n_rows);
        self.rows.clear();
        self.rows.extend_from_slice(input.rows);
        if let Some(index) = graph {
            self.rows.resize(self.graphs[index].state().n_rows, self.idle_row());
        }
        let n_codes = n_rows * input.n_latents / layers.frame_latents * layers.frame_codes;
        {
            let mut buffers = lock(&self.shared);
            buffers.rows.set(queue, &self.rows)?;
            queue.start_copy(&self.codes, &mut buffers.codes, n_codes * size_of::<i32>())?;
            if graph.is_none() {
                buffers.draw(layers, queue, input)?;
                buffers.run(layers, queue, input.n_latents)?;
            }
        }
        if let Some(index) = graph {
            self.graphs[index].launch(queue)?;
        }
        let len = input.n_latents * layers.timeline.rate;
        let (ticket, entry) = self.ring.begin();
        entry.ranges.clear();
        entry.ranges.extend(input.rows.iter().enumerate().map(|(index, row)| {
            let live = layers.timeline.live(row, input.n_latents);
            index * len + live.start..index * len + live.end
        }));
        queue.start_copy(&lock(&self.shared).samples, &mut entry.samples, n_rows * len * size_of::<f32>())?;
        Ok(ticket)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("capacity", &self.capacity).field("graphs", &self.graphs.len()).finish()
    }
}

impl Recorded {
    fn run(queue: &Queue, recorded: &mut Self) -> Result<()> {
        let mut buffers = lock(&recorded.shared);
        let (layers, n_latents) = (&recorded.layers, recorded.n_latents);
        let len = recorded.n_rows * n_latents * layers.noise.per_latent();
        let Buffers { rows, deviates, .. } = &mut *buffers;
        layers.noise.run(queue, Step { rows, n_latents }, deviates.view_mut::<f32>()?.first(len)?)?;
        buffers.run(layers, queue, n_latents)
    }
}

/// A poisoned lock is taken over: no holder panics in the middle of a change.
fn lock(shared: &Mutex<Buffers>) -> MutexGuard<'_, Buffers> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Buffers {
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

    fn run(&mut self, layers: &Layers, queue: &Queue, n_latents: usize) -> Result<()> {
        let Self { rows, arena, codes, deviates, now, next, qkv, skip, samples } = self;
        let (step, n_columns) = (Step { rows, n_latents }, rows.len() * n_latents);
        let n_codes = n_columns / layers.frame_latents * layers.frame_codes;
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

/// Activations on their way through the layers: each layer reads `now` and writes `next`, then the two swap.
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
