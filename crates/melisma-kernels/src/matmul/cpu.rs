//! Blocks around the tiles: B is packed into strips once per panel, rows of C are shared out among the threads.
//!
//! Sizes: a strip of `BLOCK_K` steps (32 KiB) stays in L1 while the rows of a task pass over it; a task's rows of A
//! stay in L2. A panel is as many columns of B as `PANEL_FLOATS` hold.

use super::tile::{MAX_ROWS, Run, STRIP, Start, Tile, runs};
use super::{Matmul, Scalar};
use crate::queue::CpuQueue;
use crate::{Isa, Result};

const BLOCK_K: usize = 256;
/// Rows of a copied block of A lie this far apart: not a multiple of 4 KiB, where all rows would share one set of L1.
const STRIDE_A: usize = BLOCK_K + 16;
/// Rows of one task: four full tiles of AVX-512, sixteen of AVX2.
const TASK_ROWS: usize = 4 * MAX_ROWS;
/// 16 MiB: bounds the scratch, far above what a layer of ours needs.
const PANEL_FLOATS: usize = 4 << 20;

pub(super) fn run<T: Scalar>(queue: &CpuQueue, shape: Matmul, a: &[T], b: &[T], c: &mut [T]) -> Result<()> {
    let Matmul { m, k, n, .. } = shape;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let isa = queue.cpu().isa;
    let panel_columns = (PANEL_FLOATS / k.max(1) / STRIP).max(1) * STRIP;
    let output = Output { c: c.as_mut_ptr(), n };
    for first in (0..n).step_by(panel_columns) {
        let columns = panel_columns.min(n - first);
        let n_strips = columns.div_ceil(STRIP);
        let mut scratch = queue.shared_scratch(n_strips * STRIP * k)?;
        let packed = scratch.floats(n_strips * STRIP * k)?;
        pack(queue, Part { isa, k, n, first, columns }, b, packed);
        let packed: &[f32] = packed;
        let scratch_len = TASK_ROWS * (STRIDE_A + columns.next_multiple_of(STRIP));
        queue.run_with_scratch(m.div_ceil(TASK_ROWS), scratch_len, |scratch, task| {
            let row = task * TASK_ROWS;
            let rows = TASK_ROWS.min(m - row);
            let (block_a, sums) = scratch.split_at_mut(TASK_ROWS * STRIDE_A);
            let block = Block { isa, rows, k, columns, a: &a[row * k..(row + rows) * k], packed };
            // SAFETY: tasks write disjoint rows of C.
            unsafe { output.write(block, row, first, block_a, sums) };
        })?;
    }
    Ok(())
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
    let packed = Packed(packed.as_mut_ptr());
    let n_blocks = k.div_ceil(BLOCK_K);
    queue.run(n_blocks * n_strips, |task| {
        let (block, strip) = (task / n_strips, task % n_strips);
        let steps = BLOCK_K.min(k - block * BLOCK_K);
        let offset = block * BLOCK_K * n_strips * STRIP + strip * steps * STRIP;
        // SAFETY: every task has its own `steps` x `STRIP` floats of the panel.
        let rows = unsafe { packed.part(offset, steps * STRIP) }.chunks_exact_mut(STRIP);
        let column = first + strip * STRIP;
        let live = STRIP.min(first + columns - column);
        for (step, row) in rows.enumerate() {
            let start = (block * BLOCK_K + step) * n + column;
            T::widen(isa, &b[start..start + live], &mut row[..live]);
            row[live..].fill(0.0);
        }
    });
}

struct Packed(*mut f32);

// SAFETY: `part` gives out disjoint parts.
unsafe impl Sync for Packed {}

impl Packed {
    /// # Safety
    /// Parts that are alive together do not overlap, and lie within the panel.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint; see Safety")]
    unsafe fn part(&self, offset: usize, len: usize) -> &mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(offset), len) }
    }
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
    /// `c` holds them.
    unsafe fn sum(&self, block_a: &mut [f32], c: *mut f32, stride_c: usize) {
        let runs: &[Run] = runs(self.isa);
        let n_strips = self.columns.div_ceil(STRIP);
        for first_k in (0..self.k).step_by(BLOCK_K) {
            let steps = BLOCK_K.min(self.k - first_k);
            for (row, to) in block_a.chunks_exact_mut(STRIDE_A).take(self.rows).enumerate() {
                let start = row * self.k + first_k;
                T::widen(self.isa, &self.a[start..start + steps], &mut to[..steps]);
            }
            let start = if first_k == 0 { Start::Zero } else { Start::Resume };
            let panel = &self.packed[first_k * n_strips * STRIP..];
            for strip in 0..n_strips {
                let columns = STRIP.min(self.columns - strip * STRIP);
                for row in (0..self.rows).step_by(runs.len()) {
                    let rows = runs.len().min(self.rows - row);
                    let tile = Tile {
                        k: steps,
                        a: block_a[row * STRIDE_A..].as_ptr(),
                        stride_a: STRIDE_A,
                        b: panel[strip * steps * STRIP..].as_ptr(),
                        // SAFETY: within `c`, by the caller's promise.
                        c: unsafe { c.add(row * stride_c + strip * STRIP) },
                        stride_c,
                        columns,
                        start,
                    };
                    // SAFETY: the blocks above hold what the tile says; `isa` proves the instruction set.
                    unsafe { runs[rows - 1](tile) };
                }
            }
        }
    }
}

/// C, written by tasks side by side.
struct Output<T> {
    c: *mut T,
    n: usize,
}

// SAFETY: tasks write disjoint rows.
unsafe impl<T: Send> Sync for Output<T> {}

impl<T: Scalar> Output<T> {
    /// Computes `block` into C at (`row`, `first`).
    ///
    /// # Safety
    /// C has these rows and columns, and no other task writes them.
    unsafe fn write(&self, block: Block<'_, T>, row: usize, first: usize, block_a: &mut [f32], sums: &mut [f32]) {
        if block.k == 0 {
            return self.each_row(&block, row, first, |c| c.fill(T::zeroed()));
        }
        if let Some(c) = self.floats() {
            // SAFETY: the caller's promise.
            return unsafe { block.sum(block_a, c.add(row * self.n + first), self.n) };
        }
        let stride = block.columns.next_multiple_of(STRIP);
        // SAFETY: `sums` holds `TASK_ROWS` rows of `stride`.
        unsafe { block.sum(block_a, sums.as_mut_ptr(), stride) };
        let mut rows = sums.chunks_exact(stride);
        self.each_row(&block, row, first, |c| {
            if let Some(sums) = rows.next() {
                T::narrow(block.isa, &sums[..c.len()], c);
            }
        });
    }

    /// C itself where it is stored as floats.
    fn floats(&self) -> Option<*mut f32> {
        (T::DTYPE == crate::DType::F32).then(|| self.c.cast())
    }

    fn each_row(&self, block: &Block<'_, T>, row: usize, first: usize, mut write: impl FnMut(&mut [T])) {
        for row in row..row + block.rows {
            // SAFETY: `write`'s caller promised these rows and columns.
            write(unsafe { std::slice::from_raw_parts_mut(self.c.add(row * self.n + first), block.columns) });
        }
    }
}
