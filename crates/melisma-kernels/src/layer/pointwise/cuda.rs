//! Arguments of `pointwise.cu`.

use std::ffi::c_void;

use super::{Mode, Pointwise};
use crate::device::cuda::{Address, Cuda};
use crate::layer::cuda::{StepArgument, TimelineArgument, n_columns};
use crate::layer::product::{Product, Sources, TILE_COLUMNS, Tile, product_sources};
use crate::layer::step::{Step, Timeline};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Upload, address};
use crate::{Budget, Result, Tensor, View};

const SOURCES: Sources = product_sources!("pointwise", "pointwise.cu");

/// `Shape` of `pointwise.cu`.
#[repr(C)]
struct Shape {
    step: StepArgument,
    timeline: TimelineArgument,
    x_dev: Address,
    with_dev: Address,
    bias_dev: Address,
    y_dev: Address,
    n_columns: u32,
    n_in: u32,
    n_out: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_in: usize,
    n_out: usize,
    bias: Tensor,
    product: Product,
}

impl Prepared {
    pub(super) fn new(layer: &Pointwise<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let Pointwise { n_in, n_out, weight, .. } = *layer;
        let upload = Upload::new(cuda, budget)?;
        let bias = upload.slice(&layer.bias.map_or_else(|| vec![0.0; n_out], <[f32]>::to_vec))?;
        let symbol = match layer.mode {
            Mode::Plain => "pointwise_plain",
            Mode::Add => "pointwise_add",
            Mode::Noise => "pointwise_noise",
        };
        let product =
            Product::new(cuda, &upload, (SOURCES, symbol, layer.rounding), [n_out, n_in], |m, k| weight[m * n_in + k])?;
        Ok(Self { n_in, n_out, bias, product })
    }

    pub(super) fn run(
        &self,
        queue: &CudaQueue,
        step: Step<'_>,
        timeline: Timeline,
        with: View<'_, f32>,
        (x, y): (CudaView<'_, f32>, CudaViewMut<'_, f32>),
    ) -> Result<()> {
        let n_columns = n_columns(step, timeline.rate)?;
        if n_columns == 0 {
            return Ok(());
        }
        let mut shape = Shape {
            step: StepArgument::new(step)?,
            timeline: timeline.into(),
            x_dev: x.address_dev,
            with_dev: if with.is_empty() { 0 } else { with.cuda()?.address_dev },
            bias_dev: address::<f32>(&self.bias)?,
            y_dev: y.address_dev,
            n_columns,
            n_in: self.n_in as u32,
            n_out: self.n_out as u32,
        };
        // SAFETY: the plan checked the views against the step; the weights belong to this layer.
        unsafe {
            self.product.run(queue, n_columns, Tile::Rows(TILE_COLUMNS, self.n_in), (&raw mut shape).cast::<c_void>())
        }
    }
}
