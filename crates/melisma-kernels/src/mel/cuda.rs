//! Tables, grid and arguments of `mel.cu`.

use bytemuck::{Pod, Zeroable};

use super::fft::{Fft, root};
use super::tables::{Tables, half_len};
use super::{Batch, Edge, Mel, Offset, Order, Power, Sample, Scale, Value};
use crate::cuda::{Address, Cuda, CudaQueue, Function, Launch, Source, arguments};
use crate::view::{CudaView, CudaViewMut};
use crate::{Budget, Buffer, DType, Device, Error, Queue, Result};

pub(crate) const SOURCE: Source = Source { name: "mel", text: include_str!("mel.cu") };

/// What every device gives a block without being asked for more.
const SHARED_BYTES: usize = 48 << 10;
const MOST_FRAMES: usize = 8;
const MOST_THREADS: usize = 512;
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
    /// Holds what the arguments point to.
    _tables: Buffer,
    threads: usize,
    shared_bytes: usize,
}

impl OnCuda {
    pub(super) fn new(cuda: &Cuda, mel: &Mel) -> Result<Self> {
        let len = half_len(mel.n_fft);
        let (symbol, threads_per_frame, buffers) = match len {
            200 => ("mel_200", 40, 1),
            256 => ("mel_256", 64, 1),
            512 => ("mel_512", 64, 1),
            1024 => ("mel_1024", 128, 1),
            _ => ("mel_any", 64, 2),
        };
        let frames_per_block = (0..)
            .map(|shift| MOST_FRAMES >> shift)
            .take_while(|&frames| frames > 0)
            .find(|&frames| {
                frames * threads_per_frame <= MOST_THREADS && shared(mel, len, frames, buffers) <= SHARED_BYTES
            })
            .ok_or_else(|| {
                let needed = shared(mel, len, 1, buffers);
                Error::unsupported(format!(
                    "mel: n_fft of {} needs {needed} bytes of shared memory; {SHARED_BYTES} are there",
                    mel.n_fft
                ))
                .with_hint("use --device cpu, or a transform of 2048 or less")
            })?;
        let (arguments, tables) = tables(cuda, mel, frames_per_block)?;
        Ok(Self {
            function: cuda.function(SOURCE, symbol)?,
            clamp: cuda.function(SOURCE, "mel_clamp")?,
            arguments,
            _tables: tables,
            threads: frames_per_block * threads_per_frame,
            shared_bytes: shared(mel, len, frames_per_block, buffers),
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
            let grid = (batch.n_items as u32, CLAMP_BLOCKS, 1);
            let launch = Launch { grid, block: (256, 1, 1), shared_bytes: 0 };
            // SAFETY: as above.
            unsafe { queue.launch(&self.clamp, launch, arguments![job])? };
        }
        Ok(())
    }
}

/// Bytes of shared memory: samples, then real and imaginary parts of every frame's buffers.
fn shared(mel: &Mel, len: usize, frames: usize, buffers: usize) -> usize {
    let samples = (frames - 1) * mel.hop_len + mel.n_fft;
    let stride = (len + len / 8 + 5).max(32);
    (samples + frames * stride * 2 * buffers) * size_of::<f32>()
}

/// The tables in one buffer on the device, and arguments that point into it.
fn tables(cuda: &Cuda, mel: &Mel, frames_per_block: usize) -> Result<(Arguments, Buffer)> {
    let Tables { fft, window, turns, filters, weights } = Tables::new(mel);
    let mut twiddles: Vec<[f32; 2]> = Vec::new();
    let mut passes: Vec<[i32; 4]> = Vec::new();
    for pass in &fft.passes {
        passes.push([pass.radix as i32, pass.groups as i32, pass.stride as i32, twiddles.len() as i32]);
        twiddles.extend(&pass.twiddles);
        if !is_known(&fft) {
            twiddles.extend((0..pass.radix).map(|j| root(j, pass.radix)));
        }
    }
    let filters: Vec<[i32; 3]> =
        filters.iter().map(|filter| [filter.first_bin, filter.first_weight, filter.n_bins].map(|x| x as i32)).collect();
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
    let budget = Budget::unlimited();
    let queue = Queue::new(&Device::Cuda(cuda.clone()), &budget)?;
    let mut buffer = Buffer::device(cuda, &budget, bytes.len().max(1))?;
    queue.copy(bytes.as_slice().into(), buffer.view_mut::<u8>()?.first(bytes.len())?)?;
    queue.synchronize()?;
    let [window, turns, filters, weights, twiddles, passes] = places.map(|place| buffer.address() + place);
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
        frames_per_block: frames_per_block as i32,
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
    Ok((arguments, buffer))
}

/// Whether mel.cu has the transform at a size that the compiler knows.
fn is_known(fft: &Fft) -> bool {
    matches!(fft.len, 200 | 256 | 512 | 1024)
}
