//! Grid and arguments of `product.cu`.

use std::ops::Range;

use half::bf16;

use super::Finish;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::language::weight::{self, Weight};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, address, arguments};
use crate::{Budget, Error, Result, Tensor};

const SOURCE: Source = Source { name: "language_product", text: include_str!("product.cu"), headers: &[DEVICE] };

/// Parts of K, and warps of a block.
const PARTS: u32 = 8;
/// Weights of one load.
const LOAD: usize = 8;
/// The forms: the most rows of a run, outputs and rows of a block, and the symbol.
const FORMS: [(usize, usize, usize, &str); 4] = [
    (2, 16, 8, "product_1x1"),
    (8, 32, 8, "product_2x1"),
    (16, 32, 16, "product_2x2"),
    (usize::MAX, 64, 32, "product_4x4"),
];

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

#[derive(Debug)]
pub(super) struct Prepared {
    k: usize,
    /// `[O, K]` in bf16, all matrices.
    weights: std::sync::Arc<Tensor>,
    functions: [Function; FORMS.len()],
}

impl Prepared {
    pub(super) fn new(weights: &[&Weight], cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let k = weights[0].shape()[1];
        if !k.is_multiple_of(LOAD) {
            return Err(Error::unsupported(format!("product: sums of {k} numbers on a GPU"))
                .with_hint("sums of a multiple of 8 numbers are supported"));
        }
        let [a, b, c, d] = FORMS.map(|(.., symbol)| cuda.function(SOURCE, symbol));
        Ok(Self { k, weights: weight::stacked(weights, cuda, budget)?, functions: [a?, b?, c?, d?] })
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
        let form = FORMS.iter().position(|(most, ..)| n_rows <= *most).unwrap_or(FORMS.len() - 1);
        let (_, block_outputs, block_rows, _) = FORMS[form];
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
        let n_blocks = [outputs.len().div_ceil(block_outputs), n_rows.div_ceil(block_rows)].map(u32::try_from);
        let [Ok(across), Ok(down @ ..=65_535)] = n_blocks else {
            return Err(Error::invalid(format!("product: {n_rows} rows are too many for a GPU")));
        };
        let launch = Launch { grid: (across, down, 1), block: (32, PARTS, 1), shared_bytes: 0 };
        // SAFETY: the plan checked that x and y have these rows, and the weights these outputs.
        unsafe { queue.launch(&self.functions[form], launch, arguments![shape]) }
    }
}
