//! How images are cut into blocks that fit a core's cache, and how a block is laid out in scratch.
//!
//! The inputs of a block are sorted into planes by their position modulo the stride: a tap reads one
//! plane, and neighbouring outputs read neighbouring floats of it. Padding is written into the planes as zeros.

use std::collections::HashMap;
use std::ops::Range;

use super::Axis;
use super::tile::MAX_WIDTH;
use crate::{Error, Result};

/// Floats in a block's planes: less than half of a typical L2 cache.
const BLOCK_FLOATS: usize = 192 << 10;
/// Floats that one sweep over a block reads again for the next row: half of a typical L1 cache.
const SWEEP_FLOATS: usize = 6 << 10;
/// The fewest steps in a sweep, so that loading and storing the sums costs little.
const MIN_SWEEP: usize = 64;
/// The fewest columns of a block when a row is cut.
const MIN_COLUMNS: usize = 256;
/// Multiply-adds that justify a second thread.
const WORTH_A_THREAD: usize = 1 << 20;

/// The taps of one axis: the phases that they read, and for each tap its phase and the offset in
/// it.
#[derive(Debug)]
struct Phases {
    axis: Axis,
    phases: Vec<usize>,
    taps: Vec<(usize, usize)>,
    /// Floats of a phase that one output covers.
    span: usize,
}

impl Phases {
    fn new(axis: Axis) -> Result<Self> {
        let reach = (axis.n_taps - 1).checked_mul(axis.dilation).filter(|&reach| reach < 1 << 31);
        let reach = reach.ok_or_else(|| Error::unsupported("conv: the taps reach over 2^31 inputs or more"))?;
        let (mut phases, mut indices) = (Vec::new(), HashMap::new());
        let mut taps = Vec::with_capacity(axis.n_taps);
        for tap in 0..axis.n_taps {
            let at = tap * axis.dilation;
            let phase = at % axis.stride;
            let index = *indices.entry(phase).or_insert_with(|| {
                phases.push(phase);
                phases.len() - 1
            });
            taps.push((index, at / axis.stride));
        }
        Ok(Self { axis, phases, taps, span: reach / axis.stride + 1 })
    }

    /// Returns which of the `len` inputs of phase `phase`, starting at output `first`, are inside
    /// the image, and the index of its first input.
    fn inside(&self, phase: usize, first: usize, len: usize, n_inputs: usize) -> (Range<usize>, usize) {
        let Axis { stride, before, .. } = self.axis;
        let from = |limit: usize| (limit.saturating_sub(phase).div_ceil(stride)).saturating_sub(first).min(len);
        let range = from(before)..from(before + n_inputs).max(from(before));
        let start = ((first + range.start) * stride + phase).saturating_sub(before);
        (range, start)
    }
}

/// The layout of a layer's inputs in scratch, for any block.
#[derive(Debug)]
pub(super) struct Layout {
    n_in: usize,
    rows: Phases,
    columns: Phases,
}

/// Blocks of `rows` by `columns` outputs, and their planes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Blocks along each axis.
    pub(super) counts: [usize; 2],
    /// Floats between two rows of a plane.
    pub(super) pitch: usize,
    plane_len: usize,
    /// Floats of all planes, plus those that the last tile reads beyond them.
    pub(super) planes_len: usize,
}

/// The part of an image that a block covers.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

impl Layout {
    pub(super) fn new(n_in: usize, [rows, columns]: [Axis; 2]) -> Result<Self> {
        Ok(Self { n_in, rows: Phases::new(rows)?, columns: Phases::new(columns)? })
    }

    /// Returns the number of steps in an output's sum.
    pub(super) fn n_steps(&self) -> usize {
        self.n_in * self.rows.taps.len() * self.columns.taps.len()
    }

    /// Returns the steps done for all positions of a block before the next ones: whole channels,
    /// few enough that a sweep finds the rows of the previous one still in the cache.
    pub(super) fn sweep_len(&self, blocks: &Blocks) -> usize {
        let per_channel = self.rows.taps.len() * self.columns.taps.len();
        let floats = self.rows.phases.len() * self.columns.phases.len() * self.rows.span * blocks.pitch;
        (SWEEP_FLOATS / floats).max(MIN_SWEEP.div_ceil(per_channel)) * per_channel
    }

    fn n_planes(&self) -> usize {
        self.n_in * self.rows.phases.len() * self.columns.phases.len()
    }

    /// Cuts an image with `output` rows and columns for `threads` threads that share `n_images`.
    pub(super) fn cut(&self, output: [usize; 2], n_outputs: usize, n_images: usize, threads: usize) -> Result<Blocks> {
        let [height, width] = output;
        let work = [height, width, n_images, self.n_steps(), n_outputs].into_iter().fold(1, usize::saturating_mul);
        let wanted = (work / WORTH_A_THREAD).clamp(1, 4 * threads).div_ceil(n_images);
        let row = self.n_planes().saturating_mul(width + self.columns.span - 1);
        let most = (BLOCK_FLOATS / row.max(1)).saturating_sub(self.rows.span - 1);
        let (mut rows, mut columns) = (most.clamp(1, height), width);
        if height < wanted || most == 0 {
            let column = self.n_planes().saturating_mul(self.rows.span);
            let most = (BLOCK_FLOATS / column.max(1)).saturating_sub(self.columns.span - 1);
            rows = 1;
            columns = most.min(width.div_ceil(wanted.div_ceil(height))).max(MIN_COLUMNS).min(width);
        } else {
            rows = rows.min(height.div_ceil(wanted)).max(self.rows.span.min(height));
        }
        let counts = [height.div_ceil(rows), width.div_ceil(columns)];
        let (rows, columns) = (height.div_ceil(counts[0]), width.div_ceil(counts[1]));
        let pitch = columns + self.columns.span - 1;
        let plane_len = pitch.saturating_mul(rows + self.rows.span - 1);
        let planes_len = plane_len.saturating_mul(self.n_planes()).saturating_add(MAX_WIDTH);
        if u32::try_from(planes_len).is_err() {
            return Err(Error::unsupported(format!(
                "conv: {rows} x {columns} is too large a block: {planes_len} floats"
            )));
        }
        Ok(Blocks { rows, columns, counts, pitch, plane_len, planes_len })
    }

    /// Writes the offset at which each step of a sum begins, in order.
    pub(super) fn write_offsets(&self, blocks: &Blocks, offsets: &mut [u32]) {
        let mut steps = offsets.iter_mut();
        for channel in 0..self.n_in {
            for &(row_phase, row) in &self.rows.taps {
                for &(column_phase, column) in &self.columns.taps {
                    let plane =
                        (channel * self.rows.phases.len() + row_phase) * self.columns.phases.len() + column_phase;
                    if let Some(step) = steps.next() {
                        *step = (plane * blocks.plane_len + row * blocks.pitch + column) as u32;
                    }
                }
            }
        }
    }

    /// Sorts the inputs of `area` from x `[C, H, W]` into planes.
    pub(super) fn fill(&self, blocks: &Blocks, area: &Area, (x, size): (&[f32], [usize; 2]), planes: &mut [f32]) {
        let n_rows = area.rows.len() + self.rows.span - 1;
        let n_columns = area.columns.len() + self.columns.span - 1;
        let mut planes = planes.chunks_exact_mut(blocks.plane_len);
        for x in (0..self.n_in).map(|channel| &x[channel * size[0] * size[1]..]) {
            for &row_phase in &self.rows.phases {
                let (inside, first) = self.rows.inside(row_phase, area.rows.start, n_rows, size[0]);
                for &phase in &self.columns.phases {
                    let Some(plane) = planes.next() else { return };
                    let (columns, start) = self.columns.inside(phase, area.columns.start, n_columns, size[1]);
                    for (row, to) in plane.chunks_exact_mut(blocks.pitch).take(n_rows).enumerate() {
                        if !inside.contains(&row) {
                            to.fill(0.0);
                            continue;
                        }
                        let from = &x[(first + (row - inside.start) * self.rows.axis.stride) * size[1]..][..size[1]];
                        to[..columns.start].fill(0.0);
                        to[columns.end..].fill(0.0);
                        copy(&mut to[columns.clone()], from.get(start..).unwrap_or_default(), self.columns.axis.stride);
                    }
                }
            }
        }
    }
}

fn copy(to: &mut [f32], from: &[f32], stride: usize) {
    if stride == 1 {
        to.copy_from_slice(&from[..to.len()]);
    } else {
        to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, from)| *to = *from);
    }
}
