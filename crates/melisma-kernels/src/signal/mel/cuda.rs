//! Tables, grid and arguments of `mel.cu`.
//!
//! # Why one exchange per transform?
//!
//! The kernel is bound by latency and instructions, not by memory. A warp splits n_fft / 2 into two
//! factors, so each lane computes one transform of up to 32 elements in registers, data cross
//! shared memory once, and shuffles combine the two halves of a real spectrum. For the filters,
//! lanes are frames again, so a weight is read once for 32 of them.

use bytemuck::{Pod, Zeroable};

use super::fft::root;
use super::tables::{Tables, half_len};
use super::{Batch, Edge, Mel, Offset, Order, Power, Sample, Scale, Value};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Header, Source};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::signal::BUTTERFLY;
use crate::{Budget, DType, Error, Remedy, Result, Tensor};

const STAGES: Header = Header { name: "stages.cuh", text: include_str!("stages.cuh") };
pub(crate) const SOURCE: Source =
    Source { name: "mel", text: include_str!("mel.cu"), headers: &[DEVICE, BUTTERFLY, STAGES] };

/// Shared memory that every device gives a block by default.
const SHARED_BYTES: usize = 48 << 10;
/// Threads per block, and per frame if the size is not known at compile time.
const TILE_THREADS: usize = 256;
const ANY_THREADS: usize = 64;
/// Blocks that clamp one item.
const CLAMP_BLOCKS: u32 = 8;

/// `Job` of mel.cu, field by field.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Arguments {
    samples: Address,
    values: Address,
    maxima: Address,
    window: Address,
    turns: Address,
    filters: Address,
    weights: Address,
    twiddles: Address,
    passes: Address,
    n_samples: u64,
    n_frames: u64,
    n_fft: i32,
    frame_len: i32,
    hop_len: i32,
    pad: i32,
    n_filters: i32,
    n_passes: i32,
    frames_per_block: i32,
    blocks_per_item: i32,
    edge: i32,
    is_i16: i32,
    is_f16: i32,
    is_time_first: i32,
    is_log: i32,
    is_power: i32,
    has_range: i32,
    removes_mean: i32,
    pre_emphasis: f32,
    epsilon: f32,
    floor: f32,
    gain: f32,
    offset: f32,
    range: f32,
}

/// A plan on a GPU.
#[derive(Debug)]
pub(super) struct OnCuda {
    function: Function,
    clamp: Function,
    arguments: Arguments,
    /// Owns the memory that the arguments point to.
    _tables: Tensor,
    threads: usize,
    shared_bytes: usize,
}

impl OnCuda {
    pub(super) fn new(cuda: &Cuda, budget: &Budget, mel: &Mel) -> Result<Self> {
        let form = Form::new(mel)?;
        let (arguments, tables) = tables(&Upload::new(cuda, budget)?, mel, &form)?;
        let function = cuda.function(SOURCE, form.symbol)?;
        function.allow_shared(form.shared_bytes)?;
        Ok(Self {
            function,
            clamp: cuda.function(SOURCE, "mel_clamp")?,
            arguments,
            _tables: tables,
            threads: form.threads,
            shared_bytes: form.shared_bytes,
        })
    }

    pub(super) fn run<S: Sample, D: Value>(
        &self,
        queue: &CudaQueue,
        batch: Batch,
        samples: CudaView<'_, S>,
        values: CudaViewMut<'_, D>,
    ) -> Result<()> {
        let blocks_per_item = batch.n_frames.div_ceil(self.arguments.frames_per_block as usize);
        let n_blocks = blocks_per_item * batch.n_items;
        let grid = u32::try_from(n_blocks).ok().filter(|&n| n <= i32::MAX as u32);
        let grid = grid.ok_or_else(|| Error::unsupported(format!("mel: {n_blocks} blocks in one run")))?;
        let maxima = match self.arguments.has_range {
            0 => 0,
            _ => queue.scratch([n_blocks * size_of::<f32>()])?[0],
        };
        let job = Arguments {
            samples: samples.address_dev,
            values: values.address_dev,
            maxima,
            n_samples: batch.n_samples as u64,
            n_frames: batch.n_frames as u64,
            blocks_per_item: blocks_per_item as i32,
            is_i16: i32::from(S::DTYPE == DType::I16),
            is_f16: i32::from(D::DTYPE == DType::F16),
            ..self.arguments
        };
        let block = (self.threads as u32, 1, 1);
        let launch = Launch { grid: (grid, 1, 1), block, shared_bytes: self.shared_bytes as u32 };
        // SAFETY: the plan checked the views against the batch; the tables live as long as `self`; the kernel takes one `Job`.
        unsafe { queue.launch(&self.function, launch, arguments![job])? };
        if job.has_range != 0 {
            let launch = Launch { grid: (batch.n_items as u32, CLAMP_BLOCKS, 1), block: (256, 1, 1), shared_bytes: 0 };
            // SAFETY: the values were checked and the maxima are scratch of this run; the kernel takes one `Job`.
            unsafe { queue.launch(&self.clamp, launch, arguments![job])? };
        }
        Ok(())
    }
}

/// The kernel that computes the frames, and the number of frames per block.
struct Form {
    symbol: &'static str,
    /// N1 and N2 of mel.cu; `None` if the size is not known to the compiler.
    factors: Option<[usize; 2]>,
    frames_per_block: usize,
    threads: usize,
    shared_bytes: usize,
}

impl Form {
    fn new(mel: &Mel) -> Result<Self> {
        let known = |symbol, n1: usize, n2: usize, frames_per_block: usize| {
            let part = n2 | 1;
            let stride = (n1 * part).max(n1 * n2 + 1) | 1;
            let shared_bytes = frames_per_block * stride * size_of::<f32>();
            Ok(Self { symbol, factors: Some([n1, n2]), frames_per_block, threads: TILE_THREADS, shared_bytes })
        };
        match half_len(mel.n_fft) {
            _ if mel.n_fft % 2 == 1 => Self::any(mel),
            200 => known("mel_200", 8, 25, 32),
            256 => known("mel_256", 16, 16, 32),
            512 => known("mel_512", 16, 32, 32),
            1024 => known("mel_1024", 32, 32, 16),
            _ => Self::any(mel),
        }
    }

    /// Plans as many frames as fit in default shared memory: the samples, and two buffers per frame.
    fn any(mel: &Mel) -> Result<Self> {
        let len = half_len(mel.n_fft);
        let shared = |frames: usize| {
            let samples = (frames - 1) * mel.hop_len + mel.n_fft;
            let stride = (len + len / 8 + 5).max(32);
            (samples + frames * stride * 2 * 2) * size_of::<f32>()
        };
        let frames = [8, 4, 2, 1].into_iter().find(|&frames| shared(frames) <= SHARED_BYTES).ok_or_else(|| {
            Error::unsupported(format!(
                "mel: n_fft of {} needs {} bytes of shared memory; {SHARED_BYTES} are there",
                mel.n_fft,
                shared(1)
            ))
            .with_hint(Remedy::use_device(&["cpu"]))
            .or_hint("use a transform of 2048 or less")
        })?;
        Ok(Self {
            symbol: "mel_any",
            factors: None,
            frames_per_block: frames,
            threads: frames * ANY_THREADS,
            shared_bytes: shared(frames),
        })
    }
}

/// Uploads the tables in one buffer; returns it with arguments that point into it.
fn tables(upload: &Upload<'_>, mel: &Mel, form: &Form) -> Result<(Arguments, Tensor)> {
    let Tables { fft, window, turns, filters, weights } = Tables::new(mel);
    let mut twiddles: Vec<[f32; 2]> = Vec::new();
    let mut passes: Vec<[i32; 4]> = Vec::new();
    if let Some([n1, n2]) = form.factors {
        // Lane by lane: [k1 - 1][n2].
        twiddles.extend((1..n1).flat_map(|k| (0..n2).map(move |n| root(k * n, n1 * n2))));
    } else {
        for pass in &fft.passes {
            passes.push([pass.radix as i32, pass.groups as i32, pass.stride as i32, twiddles.len() as i32]);
            twiddles.extend(&pass.twiddles);
            twiddles.extend((0..pass.radix).map(|j| root(j, pass.radix)));
        }
    }
    // Each filter's weights are aligned to a vector of four.
    let (mut places, mut padded) = (Vec::new(), Vec::new());
    for filter in &filters {
        padded.resize(padded.len().next_multiple_of(4), 0.0);
        places.push([filter.first_bin as i32, padded.len() as i32, filter.n_bins as i32, 0]);
        padded.extend(&weights[filter.first_weight..][..filter.n_bins]);
    }
    let (filters, weights): (Vec<[i32; 4]>, Vec<f32>) = (places, padded);
    let parts: [&[u8]; 6] = [
        bytemuck::cast_slice(&window),
        bytemuck::cast_slice(&turns),
        bytemuck::cast_slice(&filters),
        bytemuck::cast_slice(&weights),
        bytemuck::cast_slice(&twiddles),
        bytemuck::cast_slice(&passes),
    ];
    let (mut bytes, mut places) = (Vec::new(), [0; 6]);
    for (part, place) in parts.iter().zip(&mut places) {
        bytes.resize(bytes.len().next_multiple_of(256), 0);
        *place = bytes.len() as Address;
        bytes.extend_from_slice(part);
    }
    let tables = upload.slice(&bytes)?;
    let start_dev = address::<u8>(&tables)?;
    let [window, turns, filters, weights, twiddles, passes] = places.map(|place| start_dev + place);
    let mut arguments = Arguments {
        window,
        turns,
        filters,
        weights,
        twiddles,
        passes,
        n_fft: mel.n_fft as i32,
        frame_len: mel.frame_len as i32,
        hop_len: mel.hop_len as i32,
        pad: mel.pad as i32,
        n_filters: mel.n_filters() as i32,
        n_passes: fft.passes.len() as i32,
        frames_per_block: form.frames_per_block as i32,
        edge: match mel.edge {
            Edge::Zero => 0,
            Edge::Reflect => 1,
            Edge::Mirror => 2,
        },
        is_time_first: i32::from(mel.order == Order::TimeFilter),
        removes_mean: i32::from(mel.offset == Offset::Remove),
        pre_emphasis: mel.pre_emphasis,
        is_power: 1,
        ..Arguments::zeroed()
    };
    if let Power::Magnitude { epsilon } = mel.power {
        (arguments.is_power, arguments.epsilon) = (0, epsilon);
    }
    if let Scale::Log { floor, gain, offset, range } = mel.scale {
        (arguments.is_log, arguments.floor, arguments.gain, arguments.offset) = (1, floor, gain, offset);
        (arguments.has_range, arguments.range) = (i32::from(range.is_some()), range.unwrap_or(0.0));
    }
    Ok((arguments, tables))
}
