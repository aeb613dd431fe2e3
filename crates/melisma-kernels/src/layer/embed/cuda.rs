//! Grid and arguments of `embed.cu`.

use super::Embed;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{STEP, StepArgument};
use crate::layer::step::Step;
use crate::layer::transposed;
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "embed", text: include_str!("embed.cu"), headers: &[DEVICE, STEP] };

/// `Shape` of `embed.cu`.
#[repr(C)]
struct Shape {
    step: StepArgument,
    levels_dev: Address,
    places_dev: Address,
    floats_dev: Address,
    codes_dev: Address,
    y_dev: Address,
    n_levels: u32,
    n_channels: u32,
    dim: u32,
    frame_latents: u32,
    frame_codes: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_levels: usize,
    n_channels: usize,
    dim: usize,
    frame_latents: usize,
    frame_codes: usize,
    /// Six words per level.
    levels: Tensor,
    places: Tensor,
    floats: Tensor,
    function: Function,
}

impl Prepared {
    pub(super) fn new(layer: &Embed<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let (n_channels, dim) = (layer.n_channels, layer.dim);
        let (mut levels, mut places, mut floats) = (Vec::new(), Vec::new(), Vec::new());
        for level in layer.levels {
            let codebook = floats.len();
            floats.extend_from_slice(level.codebook);
            let weight = floats.len();
            floats.extend(transposed(level.weight, dim));
            let words = [level.stride, level.codebook.len() / dim, places.len(), codebook, weight, floats.len()];
            levels.extend(words.map(|word| word as i64));
            floats.extend_from_slice(level.bias);
            places.extend(level.places.iter().map(|&place| place as i64));
        }
        let upload = Upload::new(cuda, budget)?;
        Ok(Self {
            n_levels: layer.levels.len(),
            n_channels,
            dim,
            frame_latents: layer.frame_latents,
            frame_codes: layer.frame_codes(),
            levels: upload.slice(&levels)?,
            places: upload.slice(&places)?,
            floats: upload.slice(&floats)?,
            function: cuda.function(SOURCE, "embed_f32")?,
        })
    }

    pub(super) fn run(
        &self,
        queue: &CudaQueue,
        step: Step<'_>,
        codes: CudaView<'_, i32>,
        y: CudaViewMut<'_, f32>,
    ) -> Result<()> {
        if y.len == 0 {
            return Ok(());
        }
        let shape = Shape {
            step: StepArgument::new(step)?,
            levels_dev: address::<i64>(&self.levels)?,
            places_dev: address::<i64>(&self.places)?,
            floats_dev: address::<f32>(&self.floats)?,
            codes_dev: codes.address_dev,
            y_dev: y.address_dev,
            n_levels: self.n_levels as u32,
            n_channels: self.n_channels as u32,
            dim: self.dim as u32,
            frame_latents: self.frame_latents as u32,
            frame_codes: self.frame_codes as u32,
        };
        let launch = Launch::shared(queue, y.len);
        // SAFETY: the plan checked codes and y against the step; codes outside a codebook are clamped.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
