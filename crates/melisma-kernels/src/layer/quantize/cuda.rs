//! Grid and arguments of `quantize.cu`.

use bytemuck::{Pod, Zeroable};

use super::{Pass, Quantize, Shape as Sizes, directions};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{LayerArgument, STEP};
use crate::layer::step::{Arena, Step};
use crate::layer::transposed;
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "quantize", text: include_str!("quantize.cu"), headers: &[DEVICE, STEP] };

/// Groups of latents that a block quantises at once.
const GROUPS: usize = 4;

/// Bytes of a level's row in the table of levels.
pub(crate) const LEVEL_BYTES: usize = size_of::<Level>();

/// `Shape` of `quantize.cu`.
#[repr(C)]
struct Shape {
    layer: LayerArgument,
    levels_dev: Address,
    places_dev: Address,
    floats_dev: Address,
    x_dev: Address,
    codes_dev: Address,
    /// 0 if margins are not wanted.
    margins_dev: Address,
    n_levels: u32,
    n_channels: u32,
    dim: u32,
    frame_latents: u32,
    frame_codes: u32,
}

/// `Level` of `quantize.cu`; all but the first two are offsets.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Level {
    stride: i64,
    n_codes: i64,
    places: i64,
    codebook: i64,
    directions: i64,
    in_weight: i64,
    in_bias: i64,
    out_weight: i64,
    out_bias: i64,
}

#[derive(Debug)]
pub(super) struct Prepared {
    sizes: Sizes,
    n_levels: usize,
    levels: Tensor,
    places: Tensor,
    floats: Tensor,
    shared_bytes: usize,
    function: Function,
}

impl Prepared {
    pub(super) fn new(layer: &Quantize<'_>, sizes: Sizes, (cuda, budget): (&Cuda, &Budget)) -> Result<Self> {
        let Sizes { n_channels, dim, frame_latents, .. } = sizes;
        let (mut levels, mut places, mut floats) = (Vec::new(), Vec::new(), Vec::new());
        let mut append = |values: &mut dyn Iterator<Item = f32>| {
            let offset = floats.len();
            floats.extend(values);
            offset as i64
        };
        for level in layer.levels {
            let (codebook, rows) = (level.codebook, directions(level.codebook, dim));
            let n_codes = rows.len() / dim;
            levels.push(Level {
                stride: level.stride as i64,
                n_codes: n_codes as i64,
                places: places.len() as i64,
                codebook: append(&mut codebook.iter().copied()),
                directions: append(&mut transposed(&rows, dim).into_iter()),
                in_weight: append(&mut level.in_weight.iter().copied()),
                in_bias: append(&mut level.in_bias.iter().copied()),
                out_weight: append(&mut transposed(level.out_weight, dim).into_iter()),
                out_bias: append(&mut level.out_bias.iter().copied()),
            });
            places.extend(level.places.iter().map(|&place| place as i64));
        }
        let upload = Upload::new(cuda, budget)?;
        let function = cuda.function(SOURCE, "quantize_f32")?;
        let shared_bytes = (dim * GROUPS + (frame_latents + GROUPS) * n_channels) * size_of::<f32>();
        function.allow_shared(shared_bytes)?;
        Ok(Self {
            sizes,
            n_levels: levels.len(),
            levels: upload.slice(bytemuck::cast_slice::<Level, i64>(&levels))?,
            places: upload.slice(&places)?,
            floats: upload.slice(&floats)?,
            shared_bytes,
            function,
        })
    }

    pub(super) fn run(&self, queue: &CudaQueue, step: Step<'_>, arena: Arena<'_>, pass: Pass<'_>) -> Result<()> {
        if step.rows.is_empty() {
            return Ok(());
        }
        let Sizes { n_channels, dim, frame_latents, frame_codes, n_past, timeline } = self.sizes;
        let margins = pass.margins.map(|view| view.cuda()).transpose()?;
        let shape = Shape {
            layer: LayerArgument::new(step, timeline, arena, [n_past, n_channels])?,
            levels_dev: address::<i64>(&self.levels)?,
            places_dev: address::<i64>(&self.places)?,
            floats_dev: address::<f32>(&self.floats)?,
            x_dev: pass.x.cuda()?.address_dev,
            codes_dev: pass.codes.cuda()?.address_dev,
            margins_dev: margins.map_or(0, |view| view.address_dev),
            n_levels: self.n_levels as u32,
            n_channels: n_channels as u32,
            dim: dim as u32,
            frame_latents: frame_latents as u32,
            frame_codes: frame_codes as u32,
        };
        let rows = Launch::per_row(step.n_latents / frame_latents, step.rows.len());
        let launch = Launch { shared_bytes: self.shared_bytes as u32, ..rows };
        // SAFETY: the plan checked views and arena against the step; the weights belong to this layer, and codes are
        // below the size of their codebook.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
