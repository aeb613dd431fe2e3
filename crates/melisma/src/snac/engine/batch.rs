//! One step of several streams through all layers.
//!
//! On a GPU a step of one frame is a graph, recorded when the engine is made: one for each batch size that is a power of
//! two or, from 16 on, half-way between two, and for the largest. A step of fewer streams is padded with idle rows.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use melisma_kernels::layer::step::Row;
use melisma_kernels::lock::Mutex;
use melisma_kernels::{Budget, Buffer, DType, Device, Graph, Queue, Tensor};

use super::chain::{Chain, Prepare};
use super::flow::Buffers;
use super::need::{Capacity, Sizes};
use super::ring::{Ring, Ticket};
use crate::Result;

/// The state of all slots, what lies between the layers, and the way to it and back.
pub(super) struct Batch<C: Chain> {
    pub(super) chain: Arc<C>,
    pub(super) queue: Queue,
    shared: Arc<Mutex<Buffers>>,
    /// Where the host writes a step's input and reads its output.
    input: Buffer,
    pub(super) ring: Ring<C::Out>,
    /// `[slot_len]`: zeros, and a slot on its way.
    zeros: Tensor,
    moved: Tensor,
    /// Rising in their number of rows.
    graphs: Vec<Graph<Recorded<C>>>,
    /// The rows of a step, filled up.
    rows: Vec<Row>,
    sizes: Sizes,
    pub(super) capacity: Capacity,
}

/// A step of one frame for `n_rows` rows.
struct Recorded<C> {
    chain: Arc<C>,
    shared: Arc<Mutex<Buffers>>,
    n_rows: usize,
    n_latents: usize,
}

/// What goes into a step.
pub(super) struct Input<'a, W: ?Sized> {
    pub(super) rows: &'a [Row],
    pub(super) n_latents: usize,
    pub(super) with: &'a W,
}

impl<C: Chain> Batch<C> {
    pub(super) fn new(
        chain: Arc<C>,
        queue: &Queue,
        budget: &Budget,
        (capacity, sizes): (Capacity, Sizes),
    ) -> Result<Self> {
        let device = &queue.device();
        let on_host = |per_frame: usize| {
            let bytes = capacity.n_frames * per_frame * size_of::<f32>();
            match device {
                Device::Cpu(_) => Buffer::host(budget, bytes),
                Device::Cuda(cuda) => Buffer::pinned(cuda, budget, bytes),
            }
        };
        let zeros = Tensor::from_slice(budget, &vec![0f32; sizes.slot_len], &[sizes.slot_len])?;
        let mut batch = Self {
            shared: Arc::new(Mutex::new(Buffers::new(device, budget, capacity, sizes)?)),
            input: on_host(sizes.frame_in)?,
            ring: Ring::new(|| on_host(sizes.frame_out))?,
            zeros: match device {
                Device::Cpu(_) => zeros,
                Device::Cuda(_) => zeros.to(queue, budget)?,
            },
            moved: Tensor::new(device, budget, DType::F32, &[sizes.slot_len])?,
            graphs: Vec::new(),
            rows: Vec::with_capacity(capacity.n_rows),
            queue: queue.clone(),
            chain,
            sizes,
            capacity,
        };
        if let Queue::Cuda(_) = queue {
            batch.record()?;
        }
        Ok(batch)
    }

    /// Records the graphs, the largest first: what kernels need beside the buffers is then large enough for all.
    fn record(&mut self) -> Result<()> {
        let (most, n_latents) = (self.capacity.n_rows, self.sizes.frame_latents);
        let powers = std::iter::successors(Some(1), |n| Some(2 * n));
        let between = powers.flat_map(|n| if n < 16 { [n, n] } else { [n, n + n / 2] }).take_while(|&n| n < most);
        let mut sizes: Vec<usize> = between.chain([most]).collect();
        sizes.dedup();
        let queue = &self.queue;
        for n_rows in sizes.into_iter().rev() {
            let mut recorded = Recorded { chain: self.chain.clone(), shared: self.shared.clone(), n_rows, n_latents };
            self.shared.lock().rows.set(queue, &vec![self.capacity.idle_row(); n_rows])?;
            Recorded::run(queue, &mut recorded)?;
            queue.synchronize()?;
            self.graphs.insert(0, Graph::capture(queue, recorded, Recorded::run)?);
        }
        Ok(())
    }

    /// Writes the input of the next step, `[B, F, frame_in]`, to where the device takes it from.
    pub(super) fn set_input<'a>(&mut self, rows: impl Iterator<Item = &'a [C::In]>) -> Result<()> {
        let _span = tracing::info_span!("tensor_population").entered();
        let input = self.input.view_mut::<C::In>()?.host()?;
        let mut done = 0;
        for row in rows {
            input[done..done + row.len()].copy_from_slice(row);
            done += row.len();
        }
        Ok(())
    }

    /// Starts one step. On a GPU it returns while at most one step before it still runs.
    pub(super) fn step(&mut self, input: &Input<'_, C::With>) -> Result<Ticket> {
        let &Input { rows, n_latents, with } = input;
        let recorded = n_latents == self.sizes.frame_latents && C::is_recorded(with);
        let graph = self.graphs.iter().position(|graph| recorded && graph.state().n_rows >= rows.len());
        self.rows.clear();
        self.rows.extend_from_slice(rows);
        if let Some(index) = graph {
            self.rows.resize(self.graphs[index].state().n_rows, self.capacity.idle_row());
        }
        let (queue, row_frames) = (&self.queue, n_latents / self.sizes.frame_latents);
        {
            let mut buffers = self.shared.lock();
            buffers.rows.set(queue, &self.rows)?;
            let len = rows.len() * row_frames * self.sizes.frame_in;
            queue.start_copy(&self.input, &mut buffers.input, len * size_of::<C::In>())?;
            if graph.is_none() {
                self.chain.prepare(queue, &mut buffers, Prepare { n_latents, with: Some(with) })?;
                self.chain.run(queue, &mut buffers, n_latents)?;
            }
        }
        if let Some(index) = graph {
            self.graphs[index].launch(queue)?;
        }
        let len = row_frames * self.sizes.frame_out;
        let (ticket, entry) = self.ring.begin();
        entry.ranges.clear();
        entry.ranges.extend(rows.iter().enumerate().map(|(index, row)| {
            let live = self.chain.produced(row, n_latents);
            index * len + live.start..index * len + live.end
        }));
        let bytes = rows.len() * len * size_of::<C::Out>();
        queue.start_copy(&self.shared.lock().output, &mut entry.buffer, bytes)?;
        Ok(ticket)
    }

    fn floats(&self, slot: usize) -> Range<usize> {
        slot * self.sizes.slot_len..(slot + 1) * self.sizes.slot_len
    }

    /// Puts a slot at the start of a stream: all memory that the stream takes, which the engine holds already.
    pub(super) fn clear(&mut self, slot: usize) -> Result<()> {
        let _span = tracing::info_span!("tensor_allocation").entered();
        let range = self.floats(slot);
        self.queue.copy(self.zeros.view()?, self.shared.lock().arena.view_mut::<f32>()?.range(range)?)
    }

    /// Copies the state of `slot` to the engine's own.
    pub(super) fn copy_to_spare(&mut self, slot: usize) -> Result<()> {
        let (from, to) = (self.floats(slot), self.floats(self.capacity.spare()));
        let mut buffers = self.shared.lock();
        self.queue.copy(buffers.arena.view::<f32>()?.range(from)?, self.moved.view_mut()?)?;
        self.queue.copy(self.moved.view()?, buffers.arena.view_mut::<f32>()?.range(to)?)
    }
}

impl<C: Chain> fmt::Debug for Batch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("capacity", &self.capacity).field("graphs", &self.graphs.len()).finish()
    }
}

impl<C: Chain> Recorded<C> {
    fn run(queue: &Queue, recorded: &mut Self) -> Result<()> {
        let mut buffers = recorded.shared.lock();
        let n_latents = recorded.n_latents;
        recorded.chain.prepare(queue, &mut buffers, Prepare { n_latents, with: None })?;
        recorded.chain.run(queue, &mut buffers, n_latents)
    }
}
