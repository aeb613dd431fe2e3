//! Threads share the blocks; each block is computed in tiles of outputs by positions.

use std::sync::OnceLock;

use super::block::{Area, Blocks, Layout};
use super::narrow;
use super::tile::{MAX_WIDTH, Shape, Start, Steps, Tile, shapes};
use super::{Axis, Conv, Curve};
use crate::queue::{CpuQueue, Disjoint};
use crate::{Budget, Buffer, Cpu, Result};

#[derive(Debug)]
pub(super) struct Prepared {
    layout: Layout,
    cpu: Cpu,
    curve: Curve,
    bias: Vec<f32>,
    /// `[group][step][output of the group]`
    weight: Buffer,
    /// The same weights packed for few positions, made when first needed.
    narrow: OnceLock<Buffer>,
    budget: Budget,
}

/// Inputs and outputs of a run.
pub(super) struct Images<'a> {
    pub(super) size: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) x: &'a [f32],
    pub(super) y: &'a mut [f32],
}

impl Prepared {
    pub(super) fn new(layer: &Conv<'_>, taps: [Axis; 2], cpu: Cpu, budget: &Budget) -> Result<Self> {
        let layout = Layout::new(layer.n_in, taps)?;
        let n_steps = layout.n_steps();
        let mut weight = Buffer::host(budget, size_of_val(layer.weight))?;
        weight.prefer_huge_pages();
        let mut packed = weight.view_mut::<f32>()?.host()?.iter_mut();
        for group in layer.weight.chunks(shapes(cpu.isa).len() * n_steps) {
            for step in 0..n_steps {
                group.iter().skip(step).step_by(n_steps).zip(&mut packed).for_each(|(value, to)| *to = *value);
            }
        }
        Ok(Self {
            layout,
            cpu,
            curve: layer.curve,
            bias: layer.bias.to_vec(),
            weight,
            narrow: OnceLock::new(),
            budget: budget.clone(),
        })
    }

    pub(super) fn run(&self, queue: &CpuQueue, images: Images<'_>) -> Result<()> {
        let Images { size, output, x, y } = images;
        let n_outputs = self.bias.len();
        let result_len = n_outputs * output[0] * output[1];
        if y.is_empty() || result_len == 0 {
            return Ok(());
        }
        let n_images = y.len() / result_len;
        let image_len = x.len() / n_images;
        let blocks = self.layout.cut(output, n_outputs, n_images, queue.cpu().threads)?;
        let n_steps = self.layout.n_steps();
        let sweep_len = self.layout.sweep_len(&blocks);
        let sums_stride = blocks.rows * blocks.pitch + MAX_WIDTH;
        let sums_len = shapes(self.cpu.isa).len().min(n_outputs) * sums_stride;
        let weight = self.weight.view::<f32>()?.host()?;
        let narrow = if blocks.rows * blocks.pitch <= narrow::MAX_LEN { Some(self.narrow(weight)?) } else { None };
        let result = Output { y: Disjoint::new(y), size: output, curve: self.curve };
        let per_image = blocks.counts[0] * blocks.counts[1];
        queue.run_with_scratch(n_images * per_image, blocks.planes_len + sums_len + n_steps, |scratch, task| {
            let (image, block) = (task / per_image, task % per_image);
            let (row, column) = (block / blocks.counts[1] * blocks.rows, block % blocks.counts[1] * blocks.columns);
            let area = Area {
                rows: row.min(output[0])..(row + blocks.rows).min(output[0]),
                columns: column.min(output[1])..(column + blocks.columns).min(output[1]),
            };
            if area.rows.is_empty() || area.columns.is_empty() {
                return;
            }
            let (planes, rest) = scratch.split_at_mut(blocks.planes_len);
            let (sums, offsets) = rest.split_at_mut(sums_len);
            let offsets: &mut [u32] = bytemuck::cast_slice_mut(offsets);
            self.layout.write_offsets(&blocks, offsets);
            self.layout.fill(&blocks, &area, (&x[image * image_len..][..image_len], size), planes);
            let work = Work { blocks: &blocks, area: &area, planes, offsets, sums_stride, sweep_len };
            if let Some(packed) = narrow {
                return work.narrow(&narrow::shapes(self.cpu.isa), (packed, &self.bias), |output, sums| {
                    // SAFETY: every task has its own image and area.
                    unsafe { result.write(image * n_outputs + output, &area, (sums, blocks.pitch)) };
                });
            }
            for (group, bias) in self.bias.chunks(shapes(self.cpu.isa).len()).enumerate() {
                let first = group * shapes(self.cpu.isa).len();
                let weight = &weight[first * n_steps..][..bias.len() * n_steps];
                work.sum(&shapes(self.cpu.isa)[bias.len() - 1], (weight, bias), sums);
                for (output, sums) in sums.chunks_exact(sums_stride).take(bias.len()).enumerate() {
                    // SAFETY: every task has its own image and area, every group its own outputs.
                    unsafe { result.write(image * n_outputs + first + output, &area, (sums, blocks.pitch)) };
                }
            }
        })
    }
}

impl Prepared {
    /// Returns the weights packed for few positions.
    fn narrow(&self, weight: &[f32]) -> Result<&[f32]> {
        if let Some(packed) = self.narrow.get() {
            return packed.view::<f32>()?.host();
        }
        let (group, strip) = (shapes(self.cpu.isa).len(), narrow::shapes(self.cpu.isa).strip);
        let packed = narrow::pack(&self.budget, weight, self.layout.n_steps(), group, strip)?;
        self.narrow.get_or_init(|| packed).view::<f32>()?.host()
    }
}

/// A block whose inputs are in its planes.
struct Work<'a> {
    blocks: &'a Blocks,
    area: &'a Area,
    planes: &'a [f32],
    offsets: &'a [u32],
    sums_stride: usize,
    sweep_len: usize,
}

impl Work<'_> {
    /// Returns the steps at `offsets`, for the positions from `first` on.
    fn steps(&self, offsets: &[u32], first: usize, weight: &[f32]) -> Steps {
        let x = self.planes[first..].as_ptr();
        Steps { len: offsets.len(), offsets: offsets.as_ptr(), x, weight: weight.as_ptr() }
    }

    /// Computes the sums of one group of outputs, in rows [`Blocks::pitch`] apart.
    fn sum(&self, shapes: &[Shape; 3], (weight, bias): (&[f32], &[f32]), sums: &mut [f32]) {
        let len = (self.area.rows.len() - 1) * self.blocks.pitch + self.area.columns.len();
        let mut start = Start::Bias(bias.as_ptr());
        let sweeps = self.offsets.chunks(self.sweep_len).zip(weight.chunks(self.sweep_len * bias.len()));
        for (offsets, weight) in sweeps {
            let mut first = 0;
            while first < len {
                let left = len - first;
                let shape = shapes.iter().find(|shape| shape.width >= left).unwrap_or(&shapes[2]);
                let tile = Tile {
                    steps: self.steps(offsets, first, weight),
                    start,
                    sums: sums[first..].as_mut_ptr(),
                    stride: self.sums_stride,
                };
                // SAFETY: an offset plus a position lies in the planes. A tile reads and writes at
                // most MAX_WIDTH floats beyond the last position, which planes and sums have at
                // their end. The instruction set is that of the plan's device.
                unsafe { (shape.run)(tile) };
                first += shape.width;
            }
            start = Start::Resume;
        }
    }
}

impl Work<'_> {
    /// Works like [`Work::sum`], for all outputs and few positions; `write` takes the sums of one output.
    fn narrow(&self, shapes: &narrow::Shapes, (weight, bias): (&[f32], &[f32]), write: impl Fn(usize, &[f32])) {
        let len = (self.area.rows.len() - 1) * self.blocks.pitch + self.area.columns.len();
        let strip = shapes.strip;
        let mut sums = [0f32; narrow::MAX_LEN * narrow::MAX_STRIP];
        for (index, weight) in weight.chunks_exact(self.offsets.len() * strip).enumerate() {
            let bias = &bias[index * strip..];
            let n = bias.len().min(strip);
            sums.chunks_exact_mut(strip).take(len).for_each(|sums| sums[..n].copy_from_slice(&bias[..n]));
            for first in (0..len).step_by(narrow::POSITIONS) {
                let tile = narrow::Tile {
                    steps: self.steps(self.offsets, first, weight),
                    sums: sums[first * strip..].as_mut_ptr(),
                };
                // SAFETY: an offset plus a position lies in the planes; sums and weights are whole
                // strips. The instruction set is that of the plan's device.
                unsafe { shapes.runs[(len - first).min(narrow::POSITIONS) - 1](tile) };
            }
            for output in 0..n {
                let mut line = [0f32; narrow::MAX_LEN];
                let lanes = sums.iter().skip(output).step_by(strip);
                line[..len].iter_mut().zip(lanes).for_each(|(to, sum)| *to = *sum);
                write(index * strip + output, &line[..len]);
            }
        }
    }
}

struct Output<'a> {
    y: Disjoint<'a, f32>,
    size: [usize; 2],
    curve: Curve,
}

impl Output<'_> {
    /// Writes the sums of one output's area.
    ///
    /// # Safety
    /// No other task accesses this part of Y.
    unsafe fn write(&self, channel: usize, area: &Area, (sums, pitch): (&[f32], usize)) {
        let n = area.columns.len();
        for (row, sums) in area.rows.clone().zip(sums.chunks(pitch)) {
            let at = (channel * self.size[0] + row) * self.size[1] + area.columns.start;
            // SAFETY: the caller promises that no other task accesses the area.
            let to = unsafe { self.y.part(at..at + n) };
            match self.curve {
                Curve::Identity => to.copy_from_slice(&sums[..n]),
                Curve::Relu => to.iter_mut().zip(sums).for_each(|(to, sum)| *to = if *sum < 0.0 { 0.0 } else { *sum }),
            }
        }
    }
}
