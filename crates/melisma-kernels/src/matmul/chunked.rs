//! Products of matrices that stay in host memory. The budget counts only the working set, not the
//! matrices.
//!
//! On the CPU the rows are used in place, and the packed panel of B is the working set. On a GPU, B
//! is copied once and rows pass through two slots, each with its own queue, so that the copies of
//! one slot overlap with the work of the other.

use super::{Matmul, Plan, Scalar};
use crate::memory::view::check_len;
use crate::{Budget, Buffer, Device, Error, ErrorKind, Queue, Remedy, Result, Space};

/// Smaller chunks cost more in launches than they save in memory.
const FEWEST_ROWS: usize = 64;
const N_SLOTS: usize = 2;

/// The limits of a chunk.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The budget of the working set.
    pub budget: &'a Budget,
    /// The most rows in a chunk, even if more would fit.
    pub most_rows: usize,
}

impl<'a> Chunk<'a> {
    /// Takes as many rows as fit into `budget`.
    pub fn fitting(budget: &'a Budget) -> Self {
        Self { budget, most_rows: usize::MAX }
    }
}

impl<T: Scalar> Plan<T> {
    /// Computes `c` = `a`·`b` in chunks of rows, with the same bits as [`Plan::run`]. Returns the
    /// number of rows per chunk.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] when not even the smallest chunk fits, and as [`Plan::run`].
    pub fn run_chunked(&self, queue: &Queue, chunk: Chunk<'_>, [a, b]: [&[T]; 2], c: &mut [T]) -> Result<usize> {
        let Matmul { m, k, n, .. } = self.matmul;
        check_len("matmul: A", a.len(), m * k)?;
        check_len("matmul: B", b.len(), k * n)?;
        check_len("matmul: C", c.len(), m * n)?;
        match queue {
            Queue::Cpu(_) => self.run_in_place(queue, chunk, [a, b], c),
            Queue::Cuda(_) => self.run_in_slots(queue, chunk, [a, b], c),
        }
    }

    fn run_in_place(&self, queue: &Queue, chunk: Chunk<'_>, [a, b]: [&[T]; 2], c: &mut [T]) -> Result<usize> {
        let Matmul { m, k, n, .. } = self.matmul;
        let rows = chunk.most_rows.clamp(1, m.max(1));
        for first in (0..m).step_by(rows) {
            let last = m.min(first + rows);
            let (a, c) = (&a[first * k..last * k], &mut c[first * n..last * n]);
            self.run_rows(queue, last - first, a.into(), b.into(), c.into())?;
        }
        Ok(rows)
    }

    fn run_in_slots(&self, queue: &Queue, chunk: Chunk<'_>, [a, b]: [&[T]; 2], c: &mut [T]) -> Result<usize> {
        let Matmul { m, k, n, .. } = self.matmul;
        let budget = chunk.budget;
        if m * n == 0 {
            return Ok(m);
        }
        let device_pool = queue.pool(budget);
        let mut b_dev = device_pool.take(size_of_val(b))?;
        queue.copy(b.into(), b_dev.view_mut::<T>()?)?;
        let rows = self.rows_that_fit(budget)?.min(chunk.most_rows.max(1));
        let mut slots = Vec::with_capacity(N_SLOTS);
        for _ in 0..N_SLOTS.min(m.div_ceil(rows)) {
            slots.push(Slot::new::<T>(&queue.device(), budget, rows * k, rows * n)?);
        }
        for (index, first) in (0..m).step_by(rows).enumerate() {
            let chunk_rows = rows.min(m - first);
            let chunk = &a[first * k..(first + chunk_rows) * k];
            let slot = &mut slots[index % N_SLOTS];
            slot.drain(c)?;
            slot.fill(chunk)?;
            let input = slot.device_in.view::<T>()?.first(chunk.len())?;
            let output = slot.device_out.view_mut::<T>()?.first(chunk_rows * n)?;
            self.run_rows(&slot.queue, chunk_rows, input, b_dev.view()?, output)?;
            slot.start_drain::<T>(first * n, chunk_rows * n)?;
        }
        slots.iter_mut().try_for_each(|slot| slot.drain(c))?;
        Ok(rows)
    }

    /// Returns the most rows for which all slots and their pinned copies fit.
    fn rows_that_fit(&self, budget: &Budget) -> Result<usize> {
        let Matmul { m, k, n, .. } = self.matmul;
        let row_bytes = ((k + n) * size_of::<T>() * N_SLOTS).max(1) as u64;
        let rows_in = |space| budget.free(space) / row_bytes;
        let rows = rows_in(Space::Device).min(rows_in(Space::Pinned)) as usize;
        if rows >= FEWEST_ROWS.min(m) {
            return Ok(rows.min(m).max(1));
        }
        let space = if rows_in(Space::Device) < rows_in(Space::Pinned) { Space::Device } else { Space::Pinned };
        let what = format!("matmul: a chunk of {FEWEST_ROWS} rows of {k} + {n} elements in {} memory", space.name());
        let bytes = row_bytes.saturating_mul(FEWEST_ROWS.min(m) as u64);
        let refused = Error::new(ErrorKind::Memory, budget.refusal(space, what, bytes));
        Err(refused.with_hint(Remedy::RaiseMemoryLimit { least: None }))
    }
}

/// One chunk in flight.
struct Slot {
    queue: Queue,
    pinned_in: Buffer,
    device_in: Buffer,
    device_out: Buffer,
    pinned_out: Buffer,
    /// The chunk's place in C: first element, number of elements.
    pending: Option<(usize, usize)>,
}

impl Slot {
    fn new<T: Scalar>(device: &Device, budget: &Budget, len_in: usize, len_out: usize) -> Result<Self> {
        let Device::Cuda(cuda) = device else { return Err(Error::unsupported("slots are for GPUs")) };
        let (bytes_in, bytes_out) = (len_in * size_of::<T>(), len_out * size_of::<T>());
        Ok(Self {
            queue: device.queue(budget)?,
            pinned_in: Buffer::pinned(cuda, budget, bytes_in)?,
            device_in: Buffer::device(cuda, budget, bytes_in)?,
            device_out: Buffer::device(cuda, budget, bytes_out)?,
            pinned_out: Buffer::pinned(cuda, budget, bytes_out)?,
            pending: None,
        })
    }

    fn fill<T: Scalar>(&mut self, chunk: &[T]) -> Result<()> {
        self.pinned_in.view_mut::<T>()?.host()?[..chunk.len()].copy_from_slice(chunk);
        self.queue.start_copy(&self.pinned_in, &mut self.device_in, size_of_val(chunk))
    }

    fn start_drain<T: Scalar>(&mut self, first: usize, len: usize) -> Result<()> {
        self.pending = Some((first, len));
        self.queue.start_copy(&self.device_out, &mut self.pinned_out, len * size_of::<T>())
    }

    fn drain<T: Scalar>(&mut self, c: &mut [T]) -> Result<()> {
        if let Some((first, len)) = self.pending.take() {
            c[first..first + len].copy_from_slice(&self.pinned_out.view::<T>()?.host()?[..len]);
        }
        Ok(())
    }
}
