//! Products of activations with packed weights: the inner part of every dense layer on the CPU.
//!
//! Weights W `[K, N]` are packed as `[strip][K][STRIP]`, each strip read in one sweep. A layer
//! starts its sums in Y `[rows, N]` (bias, skip), writes the operand A `[rows, K]` into scratch,
//! and [`run`] adds A·W. Every element is one chain of fused multiply-adds over k in order, for any
//! blocks, parts and threads.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use crate::Level;
use crate::layer::step::{Step, Timeline};
use crate::matmul::tile::{BLOCK_K, Run, STRIDE_A, STRIP, Start, Tile, runs};
use crate::queue::{CpuQueue, Disjoint};
use crate::{Budget, Buffer, Isa, Result};

/// The most floats of A in a block of rows: half of a typical L2.
const BLOCK_FLOATS: usize = 96 << 10;
/// The most rows in a block: its inputs and outputs stay in the cache beside the operand.
const BLOCK_ROWS: usize = 128;

/// W `[K, N]`, packed.
#[derive(Debug)]
pub(crate) struct Panels {
    k: usize,
    n: usize,
    packed: Buffer,
}

impl Panels {
    /// Packs W: `fill(k, n, lanes)` writes `W[k][n..n + lanes.len()]`.
    pub(crate) fn pack(
        budget: &Budget,
        [k, n]: [usize; 2],
        mut fill: impl FnMut(usize, usize, &mut [f32]),
    ) -> Result<Self> {
        let mut packed = Buffer::host(budget, Self::bytes([k, n]))?;
        packed.prefer_huge_pages();
        let floats = packed.view_mut::<f32>()?.host()?;
        for (index, lanes) in floats.chunks_exact_mut(STRIP).enumerate() {
            let (strip, step) = (index / k, index % k);
            let live = STRIP.min(n - strip * STRIP);
            fill(step, strip * STRIP, &mut lanes[..live]);
        }
        Ok(Self { k, n, packed })
    }

    /// Packs rows of outputs, `[N, K]`.
    pub(crate) fn pack_transposed(budget: &Budget, [k, n]: [usize; 2], weight: &[f32]) -> Result<Self> {
        Self::pack(budget, [k, n], |step, first, lanes| {
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = weight[(first + lane) * k + step];
            }
        })
    }

    /// Returns the bytes of W `[K, N]`, packed.
    pub(crate) fn bytes([k, n]: [usize; 2]) -> usize {
        n.div_ceil(STRIP) * k * STRIP * size_of::<f32>()
    }

    fn n_strips(&self) -> usize {
        self.n.div_ceil(STRIP)
    }
}

/// Returns the number of blocks for `n_rows` rows, and the rows per block.
fn blocks(k: usize, n_rows: usize, threads: usize) -> [usize; 2] {
    let most = (BLOCK_FLOATS / k.max(1)).clamp(16, BLOCK_ROWS);
    let wanted = if n_rows >= 16 * threads { n_rows.div_ceil(threads) } else { n_rows };
    let n_blocks = n_rows.div_ceil(most.min(wanted));
    [n_blocks, n_rows.div_ceil(n_blocks)]
}

/// Returns the number of floats of scratch per thread for a product of `n_rows` rows; `layer_len`
/// gives the floats that the layer needs for the rows of a block.
pub(crate) fn scratch_len(k: usize, n_rows: usize, threads: usize, layer_len: impl Fn(usize) -> usize) -> usize {
    let [_, block_rows] = blocks(k, n_rows, threads);
    operand_len(k, block_rows) + layer_len(block_rows)
}

fn operand_len(k: usize, block_rows: usize) -> usize {
    k.div_ceil(BLOCK_K) * block_rows * STRIDE_A
}

/// A `[rows, K]` as `[block of K][rows][STRIDE_A]`.
pub(crate) struct Operand<'a> {
    floats: &'a mut [f32],
    n_rows: usize,
    k: usize,
}

impl Operand<'_> {
    /// Returns the floats of row `row` starting at step `first` of K. Rows are [`STRIDE_A`] apart,
    /// with room for 16 floats beyond the end of a block. Values written beyond K are ignored.
    #[inline(always)]
    pub(crate) fn lanes(&mut self, row: usize, first: usize) -> &mut [f32] {
        &mut self.floats[(first / BLOCK_K * self.n_rows + row) * STRIDE_A + first % BLOCK_K..]
    }

    /// Writes `values` starting at step `first` of K.
    #[inline(always)]
    pub(crate) fn write(&mut self, row: usize, first: usize, values: &[f32]) {
        let (mut at, mut rest) = (first, values);
        while !rest.is_empty() {
            let (block, offset) = (at / BLOCK_K, at % BLOCK_K);
            let (now, later) = rest.split_at(rest.len().min(BLOCK_K - offset));
            self.floats[(block * self.n_rows + row) * STRIDE_A + offset..][..now.len()].copy_from_slice(now);
            at += now.len();
            rest = later;
        }
    }

    /// Returns the parts of one row: where each begins in K, and its floats.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize) -> impl Iterator<Item = (usize, &mut [f32])> {
        let (n_rows, k) = (self.n_rows, self.k);
        self.floats.chunks_exact_mut(n_rows * STRIDE_A).enumerate().map(move |(block, floats)| {
            let first = block * BLOCK_K;
            (first, &mut floats[row * STRIDE_A..][..BLOCK_K.min(k - first)])
        })
    }
}

/// The rows and columns of Y that one task computes.
pub(crate) struct Part<'a> {
    /// Rows of `[B · T]`.
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    pub(crate) isa: Isa,
    y: &'a Disjoint<'a, f32>,
    n: usize,
}

impl Part<'_> {
    /// Returns the sums of row `row` in this part's `columns`.
    #[inline(always)]
    pub(crate) fn sums(&mut self, row: usize) -> &mut [f32] {
        debug_assert!(self.rows.contains(&row));
        let start = row * self.n + self.columns.start;
        // SAFETY: `run` gives every part its own rows and columns of Y.
        unsafe { self.y.part(start..start + self.columns.len()) }
    }

    /// Writes zero where `timeline` has no output.
    pub(crate) fn silence(&mut self, step: Step<'_>, timeline: Timeline) {
        let start = self.rows.start;
        for segment in self.segments(step.n_latents * timeline.rate) {
            let live = timeline.live(&step.rows.as_slice()[segment.stream], step.n_latents);
            let first = start + segment.first;
            for (index, _) in segment.rows.enumerate().filter(|(_, row)| !live.contains(row)) {
                self.sums(first + index).fill(0.0);
            }
        }
    }

    /// Returns whether `timeline` has no output in this part.
    pub(crate) fn is_silent(&self, step: Step<'_>, timeline: Timeline) -> bool {
        self.segments(step.n_latents * timeline.rate).all(|Segment { stream, rows, .. }| {
            let live = timeline.live(&step.rows.as_slice()[stream], step.n_latents);
            live.is_empty() || rows.end <= live.start || live.end <= rows.start
        })
    }

    /// Returns the streams that `rows` touch, each `len` rows long: the stream, its rows, and the
    /// part's row of the first one.
    pub(crate) fn segments(&self, len: usize) -> impl Iterator<Item = Segment> + use<> {
        let rows = self.rows.clone();
        (rows.start / len.max(1)..rows.end.div_ceil(len.max(1))).map(move |stream| {
            let start = rows.start.max(stream * len);
            let end = rows.end.min((stream + 1) * len);
            Segment { stream, rows: start - stream * len..end - stream * len, first: start - rows.start }
        })
    }
}

/// Rows of one stream inside a part.
pub(crate) struct Segment {
    pub(crate) stream: usize,
    /// Rows of the stream's step.
    pub(crate) rows: Range<usize>,
    /// The operand's row for the first of them.
    pub(crate) first: usize,
}

/// The work of a layer around its product.
pub(crate) trait Layer: Sync {
    /// Writes the operand of the part's rows and the initial values of its sums. Implementations
    /// are `#[inline(always)]`, because this is inlined into code for each instruction set.
    fn prepare(&self, part: &mut Part<'_>, operand: &mut Operand<'_>, scratch: &mut [f32]);
    /// Returns whether `finish` alone writes all outputs of the part: beyond the ends of streams.
    fn is_silent(&self, part: &Part<'_>) -> bool;
    /// Corrects outputs that the product must not change.
    fn finish(&self, part: &mut Part<'_>);
    /// Returns the number of floats of scratch that `prepare` needs for `n_rows` rows.
    fn scratch_len(&self, n_rows: usize) -> usize;
}

/// Computes Y `[n_rows, N]`: the layer's initial values, plus operand times `panels`.
pub(crate) fn run(queue: &CpuQueue, panels: &Panels, layer: &impl Layer, y: &mut [f32]) -> Result<()> {
    let (k, n) = (panels.k, panels.n);
    if y.is_empty() {
        return Ok(());
    }
    let n_rows = y.len() / n;
    let threads = queue.cpu().threads;
    let [n_blocks, block_rows] = blocks(k, n_rows, threads);
    let n_parts = if n_blocks >= threads { 1 } else { panels.n_strips().min(threads * 2) };
    let operand_len = operand_len(k, block_rows);
    let scratch_len = operand_len + layer.scratch_len(block_rows);
    let output = Disjoint::new(y);
    let (isa, runs) = (queue.cpu().isa, runs(queue.cpu().isa));
    let packed = panels.packed.view::<f32>()?.host()?;
    queue.run_with_scratch(n_blocks * n_parts, scratch_len, |scratch, task| {
        let (block, index) = (task / n_parts, task % n_parts);
        let rows = block * block_rows..((block + 1) * block_rows).min(n_rows);
        let strip = |part: usize| part * panels.n_strips() / n_parts;
        let strips = strip(index)..strip(index + 1);
        if rows.is_empty() || strips.is_empty() {
            return;
        }
        let n_rows = rows.len();
        let columns = strips.start * STRIP..(strips.end * STRIP).min(n);
        let mut part = Part { rows, columns, isa, y: &output, n };
        if !layer.is_silent(&part) {
            let (operand, scratch) = scratch.split_at_mut(operand_len);
            let floats = &mut operand[..self::operand_len(k, n_rows)];
            let mut operand = Operand { floats, n_rows, k };
            prepare(layer, &mut part, &mut operand, scratch);
            add_product(runs, packed, &operand, &part, strips);
        }
        layer.finish(&mut part);
    })
}

/// Calls [`Layer::prepare`] with the features of the part's instruction set.
fn prepare<L: Layer>(layer: &L, part: &mut Part<'_>, operand: &mut Operand<'_>, scratch: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn avx2<L: Layer>(layer: &L, part: &mut Part<'_>, operand: &mut Operand<'_>, scratch: &mut [f32]) {
        layer.prepare(part, operand, scratch);
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    fn avx512<L: Layer>(layer: &L, part: &mut Part<'_>, operand: &mut Operand<'_>, scratch: &mut [f32]) {
        layer.prepare(part, operand, scratch);
    }
    match part.isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2(layer, part, operand, scratch) },
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512(layer, part, operand, scratch) },
        _ => layer.prepare(part, operand, scratch),
    }
}

fn add_product(runs: &[Run], packed: &[f32], operand: &Operand<'_>, part: &Part<'_>, strips: Range<usize>) {
    let (k, n_rows) = (operand.k, operand.n_rows);
    let n_groups = n_rows.div_ceil(runs.len());
    let group_rows = n_rows.div_ceil(n_groups);
    for strip in strips {
        let columns = STRIP.min(part.n - strip * STRIP);
        for (block, a) in operand.floats.chunks_exact(n_rows * STRIDE_A).enumerate() {
            let steps = BLOCK_K.min(k - block * BLOCK_K);
            let b = &packed[(strip * k + block * BLOCK_K) * STRIP..][..steps * STRIP];
            for first in (0..n_rows).step_by(group_rows) {
                let rows = group_rows.min(n_rows - first);
                let c = part.y.pointer((part.rows.start + first) * part.n + strip * STRIP);
                let tile = Tile {
                    k: steps,
                    a: a[first * STRIDE_A..].as_ptr(),
                    stride_a: STRIDE_A,
                    b: b.as_ptr(),
                    c,
                    stride_c: part.n,
                    columns,
                    start: Start::Resume { from: c, stride: part.n },
                };
                // SAFETY: the slices above hold what the tile says, the part of Y belongs to this
                // task, and the instruction set is that of the queue.
                unsafe { runs[rows - 1](tile) };
            }
        }
    }
}
