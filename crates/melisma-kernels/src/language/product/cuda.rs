//! Grid and arguments of `product.cu`.

use std::ops::Range;

use half::bf16;

use super::Finish;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::language::cuda::HALVES;
use crate::language::weight::{self, Weight};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{self, CudaQueue, Launch, address, arguments};
use crate::{Budget, Error, Result, Tensor};

const SOURCE: Source =
    Source { name: "language_product", text: include_str!("product.cu"), headers: &[DEVICE, HALVES] };

/// Parts of K, and warps of a block.
const PARTS: u32 = 8;
/// Weights of one load.
const LOAD: usize = 8;
/// The forms for few rows.
const FEW: [Few; 2] = [
    Few { rows: 8, stages: 3, symbols: ["product_8", "product_8_rounded"] },
    Few { rows: 16, stages: 2, symbols: ["product_16", "product_16_rounded"] },
];
/// Outputs of a block of few rows.
const FEW_OUTPUTS: usize = 16;
/// The forms for many rows.
const MANY: [Many; 2] = [
    Many { rows: 64, outputs: [64, 64], symbols: ["product_64", "product_64_rounded"] },
    Many { rows: 128, outputs: [128, 64], symbols: ["product_128", "product_128_rounded"] },
];
/// Stages of a block of many rows.
const MANY_STAGES: usize = 3;
/// Blocks for each processor at most where K is cut for more of them: each part is written, and read again.
const BLOCKS_PER_PROCESSOR: usize = 3;
/// The most sums of a block whose parts are written.
const MOST_BLOCK_SUMS: usize = 64 * 128;
/// Bytes of two chunks of a row in bf16.
const PAIR: usize = 128;

/// A form in which a warp has a part.
#[derive(Debug, Clone, Copy)]
struct Few {
    /// The most rows of a run, and rows of a block.
    rows: usize,
    stages: usize,
    /// For x in two parts, and rounded.
    symbols: [&'static str; 2],
}

/// A form in which a block has one or more parts.
#[derive(Debug, Clone, Copy)]
struct Many {
    /// Rows of a block.
    rows: usize,
    /// Its outputs, for x in two parts, and rounded.
    outputs: [usize; 2],
    symbols: [&'static str; 2],
}

impl Few {
    /// Returns the bytes of the stages of all warps: weights in bf16, x in f32.
    fn shared_bytes(self) -> usize {
        PARTS as usize * self.stages * PAIR * (FEW_OUTPUTS + 2 * self.rows)
    }
}

impl Many {
    /// Returns the bytes of the stages: weights, and one or two parts of x.
    fn shared_bytes(self, is_rounded: bool) -> usize {
        MANY_STAGES * PAIR * (self.outputs[usize::from(is_rounded)] + n_parts_of_x(is_rounded) * self.rows)
    }

    fn for_rows(n_rows: usize) -> usize {
        usize::from(n_rows > MANY[0].rows)
    }
}

fn n_parts_of_x(is_rounded: bool) -> usize {
    if is_rounded { 1 } else { 2 }
}

pub(super) fn scratch_bytes(cuda: &Cuda, n_rows: usize, k: usize) -> usize {
    let split = 2 * n_rows * k * size_of::<bf16>();
    queue::scratch_bytes(split) + queue::scratch_bytes(PARTS as usize * most_sums(cuda) * size_of::<f32>())
}

/// Returns the most sums of which the parts are written: there are two blocks for each at least.
fn most_sums(cuda: &Cuda) -> usize {
    BLOCKS_PER_PROCESSOR * cuda.n_processors() as usize / 2 * MOST_BLOCK_SUMS
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
struct Work {
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
    /// Whether x is rounded, and not split.
    is_rounded: bool,
    few: [Function; FEW.len()],
    split: Function,
    many: [Function; MANY.len()],
    add: Function,
}

impl Prepared {
    pub(super) fn new(weights: &[&Weight], cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let k = weights[0].shape()[1];
        if !k.is_multiple_of(LOAD) {
            return Err(Error::unsupported(format!("product: sums of {k} numbers on a GPU"))
                .with_hint("sums of a multiple of 8 numbers are supported"));
        }
        let is_rounded = weights.iter().all(|weight| weight.may_round());
        let own = usize::from(is_rounded);
        let function = |symbols: [&'static str; 2], shared_bytes| {
            let function = cuda.function(SOURCE, symbols[own])?;
            function.allow_shared(shared_bytes)?;
            Ok::<_, Error>(function)
        };
        let [few, more] = FEW.map(|form| function(form.symbols, form.shared_bytes()));
        let [many, most] = MANY.map(|form| function(form.symbols, form.shared_bytes(is_rounded)));
        Ok(Self {
            k,
            weights: weight::stacked(weights, cuda, budget)?,
            is_rounded,
            few: [few?, more?],
            split: cuda.function(SOURCE, ["product_split", "product_round"][own])?,
            many: [many?, most?],
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
        match FEW.iter().position(|form| n_rows <= form.rows) {
            Some(form) => self.run_few(queue, form, shape),
            None => self.run_many(queue, &shape),
        }
    }

    fn run_few(&self, queue: &CudaQueue, form: usize, shape: Shape) -> Result<()> {
        let grid = grid(&shape, FEW_OUTPUTS, FEW[form].rows)?;
        let launch = Launch { grid, block: (32, PARTS, 1), shared_bytes: FEW[form].shared_bytes() as u32 };
        // SAFETY: the plan checked that x and y have these rows, and the weights these outputs; shared memory has room
        // for the stages.
        unsafe { queue.launch(&self.few[form], launch, arguments![shape]) }
    }

    fn run_many(&self, queue: &CudaQueue, shape: &Shape) -> Result<()> {
        let &Shape { w_dev, x_dev, y_dev, n_rows, n_outputs, k, finish, factor } = shape;
        let number = Many::for_rows(n_rows as usize);
        let (form, is_rounded) = (MANY[number], self.is_rounded);
        let (across, down, _) = grid(shape, form.outputs[usize::from(is_rounded)], form.rows)?;
        let room = BLOCKS_PER_PROCESSOR * queue.cuda().n_processors() as usize;
        let n_blocks = across as usize * down as usize;
        let (n, n_sums) = (n_rows as usize * k as usize, n_rows as usize * n_outputs as usize);
        let fits = |n: &u32| n_blocks * *n as usize <= room && n_sums <= most_sums(queue.cuda());
        let n_splits = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let n_partial = if n_splits == 1 { 0 } else { PARTS as usize * n_sums };
        let [split_dev, partial_dev] =
            queue.scratch([n_parts_of_x(is_rounded) * n * size_of::<bf16>(), n_partial * size_of::<f32>()])?;
        let len = n as u64;
        // SAFETY: the plan checked that x has these rows; the scratch has room for its parts.
        unsafe {
            queue.launch(&self.split, Launch::shared(queue, n.div_ceil(LOAD)), arguments![x_dev, split_dev, len])?;
        }
        let work = Work { w_dev, x_dev: split_dev, y_dev, partial_dev, n_rows, n_outputs, k, finish, factor };
        let grid = (across, down, n_splits);
        let launch = Launch { grid, block: (256, 1, 1), shared_bytes: form.shared_bytes(is_rounded) as u32 };
        // SAFETY: the plan checked that y has these rows and the weights these outputs; the scratch has room for the
        // sums of all parts.
        unsafe { queue.launch(&self.many[number], launch, arguments![work])? };
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
