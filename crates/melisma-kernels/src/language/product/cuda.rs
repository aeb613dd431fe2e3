//! Grid and arguments of `product.cu`.

use std::ops::Range;

use half::bf16;

use super::Finish;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::language::weight::{self, Weight};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{self, CudaQueue, Launch, address, arguments};
use crate::{Budget, Error, Result, Tensor};

const SOURCE: Source = Source { name: "language_product", text: include_str!("product.cu"), headers: &[DEVICE] };

/// Parts of K, and warps of a block.
const PARTS: u32 = 8;
/// Weights of one load.
const LOAD: usize = 8;
/// The forms for few rows: the most rows of a run, outputs and rows of a block, and the symbol.
const FEW: [(usize, usize, usize, &str); 3] =
    [(2, 16, 8, "product_1x1"), (8, 32, 8, "product_2x1"), (16, 32, 16, "product_2x2")];
/// The most rows whose blocks have some of the parts only, if there are fewer blocks than a GPU has room for.
const SPLIT_ROWS: usize = 64;
/// Outputs of a block of many rows.
const MANY_OUTPUTS: usize = 64;
/// Blocks of many rows that a processor has room for.
const BLOCKS_PER_PROCESSOR: usize = 2;

/// Returns the rows of a block for `n_rows`, and the bytes of its three stages: chunks of weights, high and low parts.
fn many(n_rows: usize) -> (usize, usize) {
    let rows = if n_rows <= SPLIT_ROWS { 64 } else { 128 };
    (rows, 3 * 64 * (MANY_OUTPUTS + 2 * rows))
}

pub(super) fn scratch_bytes(cuda: &Cuda, n_rows: usize, k: usize) -> usize {
    let (split, outputs) = (2 * n_rows * k * size_of::<bf16>(), MANY_OUTPUTS * cuda.n_processors() as usize);
    queue::scratch_bytes(split) + queue::scratch_bytes(PARTS as usize * SPLIT_ROWS * outputs * size_of::<f32>())
}

/// `Shape` of `product.cu`.
#[repr(C)]
struct Shape {
    w_dev: Address,
    x_dev: Address,
    y_dev: Address,
    n_rows: u32,
    n_outputs: u32,
    k: u32,
    finish: u32,
    factor: f32,
}

/// `Many` of `product.cu`.
#[repr(C)]
struct Many {
    w_dev: Address,
    x_dev: Address,
    y_dev: Address,
    partial_dev: Address,
    n_rows: u32,
    n_outputs: u32,
    k: u32,
    finish: u32,
    factor: f32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    k: usize,
    /// `[O, K]` in bf16, all matrices.
    weights: std::sync::Arc<Tensor>,
    few: [Function; FEW.len()],
    split: Function,
    /// For up to [`SPLIT_ROWS`] rows, and for more.
    many: [Function; 2],
    add: Function,
}

impl Prepared {
    pub(super) fn new(weights: &[&Weight], cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let k = weights[0].shape()[1];
        if !k.is_multiple_of(LOAD) {
            return Err(Error::unsupported(format!("product: sums of {k} numbers on a GPU"))
                .with_hint("sums of a multiple of 8 numbers are supported"));
        }
        let [a, b, c] = FEW.map(|(.., symbol)| cuda.function(SOURCE, symbol));
        let [narrow, wide] = ["product_64", "product_128"].map(|symbol| cuda.function(SOURCE, symbol));
        let (narrow, wide) = (narrow?, wide?);
        wide.allow_shared(many(SPLIT_ROWS + 1).1)?;
        Ok(Self {
            k,
            weights: weight::stacked(weights, cuda, budget)?,
            few: [a?, b?, c?],
            split: cuda.function(SOURCE, "product_split")?,
            many: [narrow, wide],
            add: cuda.function(SOURCE, "product_add")?,
        })
    }

    /// Returns the bytes of the weights of some outputs.
    pub(super) fn bytes(&self, outputs: &Range<usize>) -> usize {
        outputs.len() * self.k * size_of::<bf16>()
    }

    pub(super) fn run(
        &self,
        queue: &CudaQueue,
        (outputs, finish): (Range<usize>, Finish),
        x: CudaView<'_, f32>,
        y: CudaViewMut<'_, f32>,
    ) -> Result<()> {
        if y.len == 0 {
            return Ok(());
        }
        if !x.address_dev.is_multiple_of(16) {
            return Err(Error::invalid("product: x does not begin at a multiple of 16 bytes"));
        }
        let n_rows = x.len / self.k;
        let (finish, factor) = match finish {
            Finish::Replace => (0, 1.0),
            Finish::Add => (1, 1.0),
            Finish::Scale(factor) => (2, factor),
        };
        let shape = Shape {
            w_dev: address::<bf16>(&self.weights)? + (outputs.start * self.k * size_of::<bf16>()) as Address,
            x_dev: x.address_dev,
            y_dev: y.address_dev,
            n_rows: n_rows as u32,
            n_outputs: outputs.len() as u32,
            k: self.k as u32,
            finish,
            factor,
        };
        match FEW.iter().position(|(most, ..)| n_rows <= *most) {
            Some(form) => self.run_few(queue, form, shape),
            None => self.run_many(queue, &shape),
        }
    }

    fn run_few(&self, queue: &CudaQueue, form: usize, shape: Shape) -> Result<()> {
        let (_, block_outputs, block_rows, _) = FEW[form];
        let grid = grid(&shape, block_outputs, block_rows)?;
        let launch = Launch { grid, block: (32, PARTS, 1), shared_bytes: 0 };
        // SAFETY: the plan checked that x and y have these rows, and the weights these outputs.
        unsafe { queue.launch(&self.few[form], launch, arguments![shape]) }
    }

    fn run_many(&self, queue: &CudaQueue, shape: &Shape) -> Result<()> {
        let &Shape { w_dev, x_dev, y_dev, n_rows, n_outputs, k, finish, factor } = shape;
        let (block_rows, shared_bytes) = many(n_rows as usize);
        let (across, down, _) = grid(shape, MANY_OUTPUTS, block_rows)?;
        let room = BLOCKS_PER_PROCESSOR * queue.cuda().n_processors() as usize;
        let n_blocks = across as usize * down as usize;
        let is_split = |n: &u32| n_rows as usize <= SPLIT_ROWS && n_blocks * *n as usize <= room;
        let n_splits = [8, 4, 2].into_iter().find(is_split).unwrap_or(1);
        let (n, n_sums) = (n_rows as usize * k as usize, n_rows as usize * n_outputs as usize);
        let n_partial = if n_splits == 1 { 0 } else { PARTS as usize * n_sums };
        let [split_dev, partial_dev] = queue.scratch([2 * n * size_of::<bf16>(), n_partial * size_of::<f32>()])?;
        let len = n as u64;
        // SAFETY: the plan checked that x has these rows; the scratch has room for both parts.
        unsafe {
            queue.launch(&self.split, Launch::shared(queue, n.div_ceil(LOAD)), arguments![x_dev, split_dev, len])?;
        }
        let work = Many { w_dev, x_dev: split_dev, y_dev, partial_dev, n_rows, n_outputs, k, finish, factor };
        let grid = (across, down, n_splits);
        let launch = Launch { grid, block: (256, 1, 1), shared_bytes: shared_bytes as u32 };
        // SAFETY: the plan checked that y has these rows and the weights these outputs; the scratch has room for the
        // sums of all parts.
        unsafe { queue.launch(&self.many[usize::from(block_rows > 64)], launch, arguments![work])? };
        if n_splits > 1 {
            // SAFETY: the scratch has the sums of all parts, and the plan checked that y has these rows.
            unsafe { queue.launch(&self.add, Launch::shared(queue, n_sums), arguments![work])? };
        }
        Ok(())
    }
}

/// Returns the grid of blocks of so many outputs and rows.
fn grid(shape: &Shape, block_outputs: usize, block_rows: usize) -> Result<(u32, u32, u32)> {
    let (across, down) = (shape.n_rows.div_ceil(block_rows as u32), shape.n_outputs.div_ceil(block_outputs as u32));
    if down > 65_535 {
        return Err(Error::invalid(format!("product: {} outputs are too many for a GPU", shape.n_outputs)));
    }
    Ok((across, down, 1))
}
