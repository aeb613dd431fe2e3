//! Weights and launches of `product.cuh`.
//!
//! # Why our own products on the GPU?
//!
//! Every output is one sum in a fixed order, and SNAC's layers surround the products: Snake before;
//! skip, noise and the stream's ends after. `product.cuh` splits each factor into two TF32 numbers
//! and adds three products on tensor cores, which keeps FP32 accuracy. K is cut into slices of 256
//! for any batch size. The few-column form gives slices to different warps, the many-column form
//! takes them in turn, and both give the same bits. State is stored twice: a step reads one copy
//! and writes the other, so no block waits for another.

use std::ffi::c_void;

use crate::device::cuda::{Address, Cuda, DEVICE, Function, Header, Source};
use crate::layer::cuda::STEP;
use crate::layer::step::Rounding;
use crate::queue::{CudaQueue, Launch, Upload, address};
use crate::{Error, Result, Tensor};

/// Steps of K that are stored together, and outputs per warp.
pub(crate) const CHUNK_K: usize = 16;
const GROUP_M: usize = 32;
const SLICE_CHUNKS: usize = 16;
/// The most slices: the few-column form has 1 KiB of shared memory for each, without opt-in.
const MAX_SLICES: usize = 48;
const CHUNK_FLOATS: usize = CHUNK_K * GROUP_M;
/// Columns per block in the many-column forms, and the most warps per block.
pub(crate) const TILE_COLUMNS: usize = 64;
const WARPS: usize = 8;
/// Floats between rows of operands in shared memory, and the most bytes of them that need no
/// opt-in.
const ROW_GAP: usize = 16;
const MAX_TILE_BYTES: usize = 46 << 10;

/// `Factors` of `product.cuh`.
#[repr(C)]
struct Factors {
    weights_dev: Address,
    n_columns: u32,
    n_chunks: u32,
    n_groups: u32,
}

/// A matrix on the device, and the kernels that multiply with it.
#[derive(Debug)]
pub(crate) struct Product {
    n_chunks: usize,
    n_groups: usize,
    weights: Tensor,
    few: Function,
    /// 64 outputs per block.
    wide: Function,
    /// 128 outputs per block.
    tall: Function,
    /// The same two for a short K.
    short: [Function; 2],
}

/// Whether the operands of 64 columns may be in a block's shared memory together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tile {
    /// They may, in this many rows of this many floats, without the gaps.
    Rows(usize, usize),
    /// They may not: the columns of a tile are not neighbours.
    None,
}

/// The kernels that a product needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Few,
    Many,
    Short,
}

/// A `.cu` file with products, one source per [`Rounding`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources(pub(crate) [Source; 3]);

impl Sources {
    pub(crate) fn of(&self, rounding: Rounding) -> Source {
        self.0[rounding as usize]
    }
}

pub(crate) const fn source(name: &'static str, text: &'static str) -> Source {
    const PRODUCT: Header = Header { name: "product.cuh", text: include_str!("product.cuh") };
    Source { name, text, headers: &[DEVICE, STEP, PRODUCT] }
}

macro_rules! product_sources {
    ($name:literal, $file:literal) => {
        $crate::layer::product::Sources([
            $crate::layer::product::source($name, include_str!($file)),
            $crate::layer::product::source(
                concat!($name, "_tf32"),
                concat!("#define ROUND_TF32\n", include_str!($file)),
            ),
            $crate::layer::product::source(
                concat!($name, "_bf16"),
                concat!("#define ROUND_BF16\n", include_str!($file)),
            ),
        ])
    };
}
pub(crate) use product_sources;

/// Returns a weight in the form that kernels take: the nearest sum of two TF32 numbers, or the
/// nearest number of the format.
fn rounded(weight: f32, rounding: Rounding) -> f32 {
    let nearest = |x: f32| f32::from_bits(x.to_bits().wrapping_add(0x1000) & 0xffff_e000);
    let big = nearest(weight);
    match rounding {
        Rounding::Off => big + nearest(weight - big),
        Rounding::Tf32 => big,
        Rounding::Bf16 => half::bf16::from_f32(weight).to_f32(),
    }
}

impl Product {
    /// Returns the bytes of W `[M, K]` on the device.
    pub(crate) fn bytes([m, k]: [usize; 2]) -> usize {
        m.div_ceil(GROUP_M).max(1) * k.div_ceil(CHUNK_K).max(1) * CHUNK_FLOATS * size_of::<f32>()
    }

    /// Packs W `[M, K]` with the elements `weight(m, k)`. The kernel names begin with `symbol`.
    pub(crate) fn new(
        cuda: &Cuda,
        upload: &Upload<'_>,
        (sources, symbol, rounding): (Sources, &str, Rounding),
        [m, k]: [usize; 2],
        weight: impl Fn(usize, usize) -> f32,
    ) -> Result<Self> {
        let (n_groups, n_chunks) = (m.div_ceil(GROUP_M).max(1), k.div_ceil(CHUNK_K).max(1));
        if n_chunks > MAX_SLICES * SLICE_CHUNKS {
            let limit = MAX_SLICES * SLICE_CHUNKS * CHUNK_K;
            return Err(Error::unsupported(format!("{symbol}: a sum has {k} products; a GPU adds at most {limit}")));
        }
        let mut packed = vec![0f32; n_groups * n_chunks * CHUNK_FLOATS];
        for (index, value) in packed.iter_mut().enumerate() {
            let (chunk, at) = (index / CHUNK_FLOATS, index % CHUNK_FLOATS);
            // [step][fragment][lane][half of k][half of m]
            let (step, fragment, lane, own_k, own_m) = (at / 256, at / 128 % 2, at / 4 % 32, at / 2 % 2, at % 2);
            let to_m = chunk / n_chunks * GROUP_M + 4 * (lane / 4) + 2 * fragment + own_m;
            let to_k = chunk % n_chunks * CHUNK_K + 4 * (lane % 4) + 2 * step + own_k;
            if to_m < m && to_k < k {
                *value = rounded(weight(to_m, to_k), rounding);
            }
        }
        let function = |form: &str| cuda.function(sources.of(rounding), &format!("{symbol}_{form}"));
        Ok(Self {
            n_chunks,
            n_groups,
            weights: upload.slice(&packed)?,
            few: function("few")?,
            wide: function("wide")?,
            tall: function("tall")?,
            short: [function("short_wide")?, function("short_tall")?],
        })
    }

    /// Returns the form for `n_columns` columns.
    pub(crate) fn form(&self, queue: &CudaQueue, n_columns: u32, tile: Tile) -> Form {
        let tiles_m = self.n_groups.div_ceil(self.many().0);
        if (n_columns as usize).div_ceil(TILE_COLUMNS) * tiles_m < queue.cuda().n_processors() as usize {
            return Form::Few;
        }
        if tile.bytes().is_some_and(|bytes| bytes <= MAX_TILE_BYTES) { Form::Short } else { Form::Many }
    }

    /// Returns the number of outputs per block in the many-column forms.
    pub(crate) fn n_outputs_of_a_block(&self) -> usize {
        self.many().0 * GROUP_M
    }

    /// Returns the groups of outputs per block in the many-column forms, and which of the two kernels that is.
    fn many(&self) -> (usize, usize) {
        if self.n_groups <= 2 { (2, 0) } else { (4, 1) }
    }

    /// Multiplies `n_columns` columns; `layer` is the kernels' first parameter.
    ///
    /// # Safety
    /// `layer` points to the kernels' argument, and all device pointers in it hold what the kernels
    /// read and write.
    pub(crate) unsafe fn run(&self, queue: &CudaQueue, n_columns: u32, tile: Tile, layer: *mut c_void) -> Result<()> {
        let (n_chunks, n_groups) = (self.n_chunks as u32, self.n_groups as u32);
        let mut factors = Factors { weights_dev: address::<f32>(&self.weights)?, n_columns, n_chunks, n_groups };
        let (function, launch) = self.launch(self.form(queue, n_columns, tile), n_columns as usize, tile);
        // SAFETY: the caller's promise; the weights are as `Factors` says.
        unsafe { queue.launch(function, launch, &mut [layer, (&raw mut factors).cast()]) }
    }

    fn launch(&self, form: Form, n_columns: usize, tile: Tile) -> (&Function, Launch) {
        let (groups, kernel) = self.many();
        let (tiles_n, tiles_m) = (n_columns.div_ceil(TILE_COLUMNS).max(1), self.n_groups.div_ceil(groups));
        let many = |shared_bytes: usize| Launch {
            grid: (tiles_n as u32, tiles_m as u32, 1),
            block: (32 * WARPS as u32, 1, 1),
            shared_bytes: shared_bytes as u32,
        };
        match form {
            Form::Short => return (&self.short[kernel], many(tile.bytes().unwrap_or_default())),
            Form::Many => return ([&self.wide, &self.tall][kernel], many(0)),
            Form::Few => (),
        }
        let n_slices = self.n_chunks.div_ceil(SLICE_CHUNKS);
        let parts = n_slices.min(WARPS);
        let groups = (WARPS / 2 / parts).clamp(1, self.n_groups);
        let grid = (n_columns.div_ceil(8).max(1) as u32, self.n_groups.div_ceil(groups) as u32, 1);
        let shared_bytes = (groups * n_slices * 1024) as u32;
        (&self.few, Launch { grid, block: (32, parts as u32, groups as u32), shared_bytes })
    }
}

impl Tile {
    /// Returns the tile with rows of `k` floats for the columns of a layer whose streams have `len` columns each.
    pub(crate) fn of(n_rows: usize, k: usize, len: usize) -> Self {
        if len.is_multiple_of(TILE_COLUMNS) { Self::Rows(n_rows, k) } else { Self::None }
    }

    fn bytes(self) -> Option<usize> {
        match self {
            Self::Rows(n_rows, k) => Some(n_rows * (k.next_multiple_of(CHUNK_K) + ROW_GAP) * size_of::<f32>()),
            Self::None => None,
        }
    }
}
