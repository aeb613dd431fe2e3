//! Blocking around the tiles: B is packed into strips once per panel, and threads share the rows of
//! C.
//!
//! A tile's rows of A stay in L1 while the strips of a block of K pass over them; those strips stay in L2 while the
//! rows of a task pass over them.

use super::tile::{BLOCK_K, MAX_ROWS, Run, STRIDE_A, STRIP, Start, Tile, runs};
use super::{Matmul, Scalar};
use crate::queue::{CpuQueue, Disjoint};
use crate::{DType, Isa, Result};

/// The most rows of one task: their block of A (256 KiB) stays in L2.
const MOST_ROWS: usize = 20 * MAX_ROWS;
/// Tasks per thread, so that a slow thread takes fewer.
const TASKS_PER_THREAD: usize = 4;
/// Columns of a panel: a block of K of it (1 MiB) stays in L2.
const PANEL_COLUMNS: usize = 1024;
/// With up to this many strips, floats of A are used in place: copying them would cost more than it
/// saves.
const FEW_STRIPS: usize = 2;

pub(super) fn run<T: Scalar>(queue: &CpuQueue, shape: Matmul, a: &[T], b: &[T], c: &mut [T]) -> Result<()> {
    let Matmul { m, k, n, .. } = shape;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let isa = queue.cpu().isa;
    let blocks = Blocks::fit::<T>(queue, shape);
    let output = Output { c: Disjoint::new(c), n };
    for first in (0..n).step_by(blocks.panel_columns) {
        let columns = blocks.panel_columns.min(n - first);
        let packed_len = columns.next_multiple_of(STRIP) * k;
        let mut scratch = queue.shared_scratch(packed_len)?;
        let packed = scratch.floats(packed_len)?;
        pack(queue, Part { isa, k, n, first, columns }, b, packed);
        let packed: &[f32] = packed;
        let task_rows = blocks.task_rows;
        queue.run_with_scratch(m.div_ceil(task_rows), blocks.floats_per_task, |scratch, task| {
            let row = task * task_rows;
            let rows = task_rows.min(m - row);
            let block = Block { isa, rows, k, columns, a: &a[row * k..(row + rows) * k], packed };
            // SAFETY: tasks write disjoint rows of C.
            unsafe { output.write(block, row, first, blocks.parts(scratch)) };
        })?;
    }
    Ok(())
}

/// The blocking of the product. It affects memory use, not results.
struct Blocks {
    panel_columns: usize,
    task_rows: usize,
    /// Scratch of a task: its block of A, its unfinished sums, and its sums if C is not stored as
    /// floats.
    lens: [usize; 3],
    floats_per_task: usize,
}

impl Blocks {
    fn fit<T: Scalar>(queue: &CpuQueue, shape: Matmul) -> Self {
        let Matmul { m, k, n, .. } = shape;
        let (room, threads) = (queue.scratch_room(), queue.cpu().threads);
        let panel_columns = (room / 2 / k.max(1) / STRIP).max(1) * STRIP;
        let panel_columns = panel_columns.min(PANEL_COLUMNS).min(n.next_multiple_of(STRIP));
        let is_float = T::DTYPE == DType::F32;
        let copies_a = !is_float || panel_columns > FEW_STRIPS * STRIP;
        let per_row = [
            if copies_a { STRIDE_A } else { 0 },
            if k > BLOCK_K { panel_columns } else { 0 },
            if is_float { 0 } else { panel_columns },
        ];
        let n_tasks = (threads * TASKS_PER_THREAD).max(m.div_ceil(MOST_ROWS));
        let fitting = room.saturating_sub(panel_columns * k) / threads / per_row.iter().sum::<usize>().max(1);
        let task_rows = m.div_ceil(n_tasks).min(fitting).max(1).next_multiple_of(MAX_ROWS);
        let lens = per_row.map(|len| len * task_rows);
        Self { panel_columns, task_rows, lens, floats_per_task: lens.iter().sum() }
    }

    fn parts<'a>(&self, scratch: &'a mut [f32]) -> Parts<'a> {
        let (block_a, rest) = scratch.split_at_mut(self.lens[0]);
        let (unfinished, sums) = rest.split_at_mut(self.lens[1]);
        Parts { block_a, unfinished, sums }
    }
}

/// A task's scratch.
struct Parts<'a> {
    /// Rows of A, `STRIDE_A` apart; empty if A is used in place.
    block_a: &'a mut [f32],
    /// [tile of rows][strip][rows][`STRIP`]: contiguous, unlike C, whose rows may all map to a few
    /// cache sets.
    unfinished: &'a mut [f32],
    sums: &'a mut [f32],
}

/// Some columns of B.
#[derive(Clone, Copy)]
struct Part {
    isa: Isa,
    k: usize,
    n: usize,
    first: usize,
    columns: usize,
}

/// Packs columns of `b` (K, N) as [block of K][strip][k][`STRIP`]; columns beyond the last are 0 and never stored.
fn pack<T: Scalar>(queue: &CpuQueue, part: Part, b: &[T], packed: &mut [f32]) {
    let Part { isa, k, n, first, columns } = part;
    let n_strips = columns.div_ceil(STRIP);
    let packed = Disjoint::new(packed);
    let n_blocks = k.div_ceil(BLOCK_K);
    queue.run(n_blocks * n_strips, |task| {
        let (block, strip) = (task / n_strips, task % n_strips);
        let steps = BLOCK_K.min(k - block * BLOCK_K);
        let offset = block * BLOCK_K * n_strips * STRIP + strip * steps * STRIP;
        // SAFETY: every task has its own `steps` x `STRIP` floats of the panel.
        let rows = unsafe { packed.part(offset..offset + steps * STRIP) }.chunks_exact_mut(STRIP);
        let column = first + strip * STRIP;
        let live = STRIP.min(first + columns - column);
        for (step, row) in rows.enumerate() {
            let start = (block * BLOCK_K + step) * n + column;
            let from = &b[start..start + live];
            match (from.try_into(), (&mut *row).try_into()) {
                (Ok(from), Ok(to)) => widen_strip(isa, from, to),
                _ => {
                    T::widen(isa, from, &mut row[..live]);
                    row[live..].fill(0.0);
                }
            }
        }
    });
}

/// Widens a whole strip; the constant length avoids a call to move the floats.
#[inline(always)]
fn widen_strip<T: Scalar>(isa: Isa, from: &[T; STRIP], to: &mut [f32; STRIP]) {
    T::widen(isa, from, to);
}

/// The rows of one task.
struct Block<'a, T> {
    isa: Isa,
    rows: usize,
    k: usize,
    columns: usize,
    /// [rows, K]
    a: &'a [T],
    packed: &'a [f32],
}

impl<T: Scalar> Block<'_, T> {
    /// Writes rows x columns sums to `c`, whose rows are `stride_c` apart.
    ///
    /// # Safety
    /// `c` has room for them.
    unsafe fn sum(&self, block_a: &mut [f32], unfinished: &mut [f32], (c, stride_c): (*mut f32, usize)) {
        let runs: &[Run] = runs(self.isa);
        let n_strips = self.columns.div_ceil(STRIP);
        for first_k in (0..self.k).step_by(BLOCK_K) {
            let steps = BLOCK_K.min(self.k - first_k);
            let (a, stride_a) = self.rows_of_a(first_k, steps, block_a);
            let panel = &self.packed[first_k * n_strips * STRIP..];
            for row in (0..self.rows).step_by(runs.len()) {
                let rows = runs.len().min(self.rows - row);
                for strip in 0..n_strips {
                    // Unfinished sums stay in scratch; the last block of K writes C.
                    let waiting = (row * n_strips + strip * runs.len()) * STRIP;
                    let waiting = unfinished.get_mut(waiting..).map_or(std::ptr::null_mut(), <[f32]>::as_mut_ptr);
                    let is_last = first_k + steps == self.k;
                    // SAFETY: within `c`, by the caller's promise.
                    let finished = unsafe { c.add(row * stride_c + strip * STRIP) };
                    let tile = Tile {
                        k: steps,
                        a: a[row * stride_a..].as_ptr(),
                        stride_a,
                        b: panel[strip * steps * STRIP..].as_ptr(),
                        c: if is_last { finished } else { waiting },
                        stride_c: if is_last { stride_c } else { STRIP },
                        columns: STRIP.min(self.columns - strip * STRIP),
                        start: match first_k {
                            0 => Start::Zero,
                            _ => Start::Resume { from: waiting, stride: STRIP },
                        },
                    };
                    // SAFETY: the blocks above hold what the tile says; `isa` proves the
                    // instruction set. If K has more than one block, there is room for unfinished
                    // sums.
                    unsafe { runs[rows - 1](tile) };
                }
            }
        }
    }

    /// Returns steps `first_k..` of the task's rows as floats, and the distance between rows.
    fn rows_of_a<'a>(&'a self, first_k: usize, steps: usize, block_a: &'a mut [f32]) -> (&'a [f32], usize) {
        if block_a.is_empty()
            && let Some(floats) = T::floats(self.a)
        {
            return (&floats[first_k..], self.k);
        }
        for (row, to) in block_a.chunks_exact_mut(STRIDE_A).take(self.rows).enumerate() {
            let start = row * self.k + first_k;
            T::widen(self.isa, &self.a[start..start + steps], &mut to[..steps]);
        }
        (block_a, STRIDE_A)
    }
}

/// C, written concurrently by tasks.
struct Output<'a, T> {
    c: Disjoint<'a, T>,
    n: usize,
}

impl<T: Scalar> Output<'_, T> {
    /// Computes `block` into C at (`row`, `first`).
    ///
    /// # Safety
    /// C has these rows and columns, and no other task writes them.
    unsafe fn write(&self, block: Block<'_, T>, row: usize, first: usize, parts: Parts<'_>) {
        let Parts { block_a, unfinished, sums } = parts;
        if block.k == 0 {
            return self.each_row(&block, row, first, |c| c.fill(T::zeroed()));
        }
        if T::DTYPE == DType::F32 {
            let c = self.c.pointer(row * self.n + first).cast::<f32>();
            // SAFETY: C is stored as floats, and the caller promises that only this task accesses
            // these rows and columns.
            return unsafe { block.sum(block_a, unfinished, (c, self.n)) };
        }
        let stride = block.columns.next_multiple_of(STRIP);
        // SAFETY: `sums` has room for the task's rows of `stride`.
        unsafe { block.sum(block_a, unfinished, (sums.as_mut_ptr(), stride)) };
        let mut rows = sums.chunks_exact(stride);
        self.each_row(&block, row, first, |c| {
            if let Some(sums) = rows.next() {
                T::narrow(block.isa, &sums[..c.len()], c);
            }
        });
    }

    fn each_row(&self, block: &Block<'_, T>, row: usize, first: usize, mut write: impl FnMut(&mut [T])) {
        for row in row..row + block.rows {
            let start = row * self.n + first;
            // SAFETY: the caller of `write` promised that only this task accesses these rows and
            // columns.
            write(unsafe { self.c.part(start..start + block.columns) });
        }
    }
}
