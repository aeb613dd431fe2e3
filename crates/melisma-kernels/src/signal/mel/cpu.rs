//! Frames as lanes: N frames are transformed at once, each in its own lane.
//!
//! A task is a run of frames of one item. Its samples are converted to f32 once, padded, and laid
//! out as Y[r][c] = x[c hop + r]. Sample n of N neighbouring frames is then one vector, at Y[n %
//! hop][n / hop + first frame].
//!
//! # Why frames as lanes?
//!
//! Each vector lane works on its own frame: a transform needs no shuffles, and no value depends on
//! the frames beside it.

use super::lanes::{Lanes, Portable, ln};
use super::port::{self, Samples, Values};
use super::reference::beyond;
use super::sound::{Halves, Sound, Whole, transpose};
use super::tables::Tables;
use super::{Batch, Mel, Offset, Order, Power, Sample, Scale, Value};
use crate::Result;
use crate::device::isa::Level;
use crate::queue::{CpuQueue, Disjoint};

/// Frames per task, a multiple of every vector's lanes.
const TASK_FRAMES: usize = 32;

/// The tables of the parameters, plus those that only the CPU needs.
#[derive(Debug)]
pub(super) struct OnCpu {
    tables: Tables,
    /// The offset of sample n of a frame in Y, or n itself if frames are prepared.
    offsets: Vec<u32>,
    layout: Layout,
}

/// The parts of a worker's scratch, in floats.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Floats of a row of Y.
    stride: usize,
    samples: usize,
    transposed: usize,
    elements: usize,
    spectrum: usize,
    prepared: usize,
}

impl Layout {
    fn new(mel: &Mel, fft_len: usize) -> Self {
        const WIDEST: usize = 16;
        let n_columns = TASK_FRAMES + mel.n_fft.div_ceil(mel.hop_len);
        let n_rows = mel.hop_len.min(mel.n_fft);
        // An odd number of cache lines, so that rows do not map to the same cache sets.
        let stride = (n_columns.div_ceil(16) | 1) * 16;
        Self {
            stride,
            samples: (n_columns * mel.hop_len).max(mel.n_fft),
            transposed: n_rows * stride,
            elements: fft_len * 2 * WIDEST,
            spectrum: mel.n_bins() * WIDEST,
            prepared: if prepares(mel) { mel.n_fft * WIDEST } else { 0 },
        }
    }

    fn len(&self) -> usize {
        self.samples + self.transposed + 2 * self.elements + self.spectrum + self.prepared
    }
}

fn prepares(mel: &Mel) -> bool {
    mel.offset == Offset::Remove || mel.pre_emphasis != 0.0
}

impl OnCpu {
    pub(super) fn new(mel: &Mel) -> Self {
        let tables = Tables::new(mel);
        let layout = Layout::new(mel, tables.fft.len);
        let in_rows = (0..mel.n_fft).map(|n| (n % mel.hop_len * layout.stride + n / mel.hop_len) as u32);
        let prepared = if prepares(mel) { mel.n_fft } else { 0 };
        let offsets = in_rows.chain(0..prepared as u32).collect();
        Self { tables, offsets, layout }
    }

    /// Returns the scratch of each thread, plus one maximum per task.
    pub(super) fn scratch_bytes(&self, threads: usize, batch: Batch) -> u64 {
        let n_tasks = batch.n_items.saturating_mul(batch.n_frames.div_ceil(TASK_FRAMES));
        let n_floats = threads.saturating_mul(self.layout.len()).saturating_add(n_tasks);
        n_floats.saturating_mul(size_of::<f32>()) as u64
    }
}

/// The inputs of a run.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) mel: &'a Mel,
    pub(super) on: &'a OnCpu,
    pub(super) batch: Batch,
}

/// One task: `n_frames` frames of an item, starting at `first_frame`.
struct Task<'a> {
    job: Job<'a>,
    samples: Samples<'a>,
    values: Values,
    first_frame: usize,
    n_frames: usize,
}

pub(super) fn run<S: Sample, D: Value>(queue: &CpuQueue, job: &Job<'_>, samples: &[S], values: &mut [D]) -> Result<()> {
    let Batch { n_items, n_samples, n_frames } = job.batch;
    let per_item = n_frames.div_ceil(TASK_FRAMES);
    let item_len = n_frames * job.mel.n_filters();
    let mut largest = queue.shared_scratch(n_items * per_item)?;
    let largest = largest.floats(n_items * per_item)?;
    let (out, maxima) = (Disjoint::new(values), Disjoint::new(largest));
    let level = queue.cpu().isa.level();
    queue.run_with_scratch(n_items * per_item, job.on.layout.len(), |scratch, index| {
        let (item, part) = (index / per_item, index % per_item);
        let first_frame = part * TASK_FRAMES;
        let task = Task {
            job: *job,
            samples: S::samples(&samples[item * n_samples..(item + 1) * n_samples]),
            values: D::values(out.pointer(item * item_len)),
            first_frame,
            n_frames: TASK_FRAMES.min(n_frames - first_frame),
        };
        // SAFETY: the machine has the level, and tasks write disjoint frames of `values`, which the
        // plan checked.
        let most = unsafe { task.run(level, scratch) };
        // SAFETY: every index is handed out once.
        *unsafe { maxima.get(index) } = most;
    })?;
    if let Scale::Log { range: Some(range), .. } = job.mel.scale {
        for (item, maxima) in values.chunks_mut(item_len).zip(largest.chunks(per_item)) {
            // Rounding is monotonic, so the clamp commutes with it.
            let least = D::from_f32(maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max) - range);
            item.iter_mut().for_each(|value| *value = if least > *value { least } else { *value });
        }
    }
    Ok(())
}

impl Task<'_> {
    /// Returns the largest value written.
    ///
    /// # Safety
    /// The machine has `level`, no other task writes the same frames, and `scratch` is as long as the layout says.
    unsafe fn run(&self, level: Level, scratch: &mut [f32]) -> f32 {
        /// # Safety
        /// As [`Task::run`], on a machine with AVX2.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn avx2(task: &Task<'_>, scratch: &mut [f32]) -> f32 {
            // SAFETY: the caller's promise.
            unsafe { task.frames::<std::arch::x86_64::__m256>(scratch) }
        }
        /// # Safety
        /// As [`Task::run`], on a machine with AVX-512.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        unsafe fn avx512(task: &Task<'_>, scratch: &mut [f32]) -> f32 {
            // SAFETY: the caller's promise.
            unsafe { task.frames::<std::arch::x86_64::__m512>(scratch) }
        }
        // SAFETY: the caller's promise.
        unsafe {
            match level {
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => avx2(self, scratch),
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => avx512(self, scratch),
                #[cfg(target_arch = "aarch64")]
                Level::Neon => self.frames::<crate::device::vector::Neon>(scratch),
                _ => self.frames::<Portable>(scratch),
            }
        }
    }

    /// # Safety
    /// As [`Task::run`], for the instruction set of `V`.
    #[inline(always)]
    unsafe fn frames<V: Lanes>(&self, scratch: &mut [f32]) -> f32 {
        let Job { mel, on, .. } = self.job;
        let layout = &on.layout;
        let (samples, scratch) = scratch.split_at_mut(layout.samples);
        let (transposed, scratch) = scratch.split_at_mut(layout.transposed);
        let (first, scratch) = scratch.split_at_mut(layout.elements);
        let (second, scratch) = scratch.split_at_mut(layout.elements);
        let (spectrum, prepared) = scratch.split_at_mut(layout.spectrum);
        match self.samples {
            Samples::I16(from) => self.gather(from, samples),
            Samples::F32(from) => self.gather(from, samples),
        }
        transpose(samples, transposed, mel.hop_len, layout.stride);
        let mut largest = f32::NEG_INFINITY;
        for group in (0..self.n_frames).step_by(V::N) {
            let live = V::N.min(self.n_frames - group);
            let buffers = [first.as_mut_ptr(), second.as_mut_ptr()];
            // SAFETY: the parts of the scratch hold what the layout says.
            unsafe {
                let sound = Sound { from: transposed.as_ptr().add(group), offsets: on.offsets.as_ptr(), unit: 1 };
                let sound = if prepares(mel) { self.prepare::<V>(&sound, prepared.as_mut_ptr()) } else { sound };
                self.transform::<V>(&sound, buffers, spectrum.as_mut_ptr());
                largest = largest.max(self.filter::<V>(spectrum.as_ptr(), group, live));
            }
        }
        largest
    }

    /// Gathers the task's samples, including those beyond the ends.
    #[inline(always)]
    fn gather<S: port::Sample>(&self, from: &[S], to: &mut [f32]) {
        let Mel { pad, hop_len, n_fft, edge, .. } = *self.job.mel;
        let needed = (self.n_frames - 1) * hop_len + n_fft;
        let first = (self.first_frame * hop_len) as i64 - pad as i64;
        let n = from.len() as i64;
        let (inside, end) = ((-first).clamp(0, needed as i64), (n - first).clamp(0, needed as i64));
        let (inside, end) = (inside as usize, (end as usize).max(inside as usize));
        let at = |index: usize| match beyond(edge, first + index as i64, n as usize) {
            Some(at) => from[at].to_f32(),
            None => 0.0,
        };
        (0..inside).for_each(|index| to[index] = at(index));
        if inside < end {
            let start = (first + inside as i64) as usize;
            for (to, from) in to[inside..end].iter_mut().zip(&from[start..]) {
                *to = from.to_f32();
            }
        }
        (end..needed).for_each(|index| to[index] = at(index));
        to[needed..].fill(0.0);
    }

    /// Removes the mean and applies the difference filter: sample n of N frames goes to n N.
    ///
    /// # Safety
    /// `to` holds `n_fft` vectors.
    #[inline(always)]
    unsafe fn prepare<V: Lanes>(&self, sound: &Sound, to: *mut f32) -> Sound {
        let Job { mel, on, .. } = self.job;
        // SAFETY: the caller's promise.
        unsafe {
            let mut mean = V::splat(0.0);
            if mel.offset == Offset::Remove {
                for n in 0..mel.frame_len {
                    mean = mean.add(sound.sample::<V>(n));
                }
                mean = mean.mul(V::splat((1.0 / mel.frame_len as f64) as f32));
            }
            let factor = V::splat(mel.pre_emphasis);
            let mut before = sound.sample::<V>(0).sub(mean);
            for n in 0..mel.frame_len {
                let x = sound.sample::<V>(n).sub(mean);
                before.neg_mul_add(factor, x).store(to.add(n * V::N));
                before = x;
            }
            for n in mel.frame_len..mel.n_fft {
                V::splat(0.0).store(to.add(n * V::N));
            }
            Sound { from: to, offsets: on.offsets.as_ptr().add(mel.n_fft), unit: V::N }
        }
    }

    /// Applies the window, the transform and the power: bin k of N frames goes to k N.
    ///
    /// # Safety
    /// The buffers hold a transform each, `spectrum` holds K vectors.
    #[inline(always)]
    unsafe fn transform<V: Lanes>(&self, sound: &Sound, buffers: [*mut f32; 2], spectrum: *mut f32) {
        let Job { mel, on: OnCpu { tables, .. }, .. } = self.job;
        let window = tables.window.as_ptr();
        // SAFETY: the caller's promise.
        unsafe {
            if !mel.n_fft.is_multiple_of(2) {
                let z = tables.fft.run::<V>(&Whole { sound, window }, buffers);
                for k in 0..mel.n_bins() {
                    let at = z.add(k * 2 * V::N);
                    let value = self.power(V::load(at), V::load(at.add(V::N)));
                    value.store(spectrum.add(k * V::N));
                }
                return;
            }
            let z = tables.fft.run::<V>(&Halves { sound, window }, buffers);
            let m = tables.fft.len;
            for k in 0..=m / 2 {
                let (low, high) = (z.add(k * 2 * V::N), z.add((m - k) % m * 2 * V::N));
                let (a, b) = (V::load(low), V::load(low.add(V::N)));
                let (c, d) = (V::load(high), V::load(high.add(V::N)));
                let [re, im] = *tables.turns.get_unchecked(k);
                let (re, im) = (V::splat(re), V::splat(im));
                // X[k] = e + t and X[m - k] = conj(e - t), t = -i w^k o
                let (e_re, e_im, o_re, o_im) = (a.add(c), b.sub(d), a.sub(c), b.add(d));
                let t_re = o_im.neg_mul_add(im, o_re.mul(re));
                let t_im = o_im.mul_add(re, o_re.mul(im));
                self.power(e_re.add(t_re), e_im.add(t_im)).store(spectrum.add(k * V::N));
                self.power(e_re.sub(t_re), e_im.sub(t_im)).store(spectrum.add((m - k) * V::N));
            }
        }
    }

    /// # Safety
    /// The machine has the instruction set of `V`.
    #[inline(always)]
    unsafe fn power<V: Lanes>(&self, re: V, im: V) -> V {
        // SAFETY: the caller's promise.
        unsafe {
            match self.job.mel.power {
                Power::Power => re.mul_add(re, im.mul(im)),
                Power::Magnitude { epsilon } => re.mul_add(re, im.mul_add(im, V::splat(epsilon))).sqrt(),
            }
        }
    }

    /// Applies the filters to `live` frames starting at `group`, and writes the values; returns the
    /// largest.
    ///
    /// # Safety
    /// `spectrum` holds K vectors; no other task writes these frames.
    #[inline(always)]
    unsafe fn filter<V: Lanes>(&self, spectrum: *const f32, group: usize, live: usize) -> f32 {
        let Job { mel, on: OnCpu { tables, .. }, batch } = self.job;
        let n_filters = tables.filters.len();
        let frame = self.first_frame + group;
        // SAFETY: the caller's promise; filters lie within K bins.
        unsafe {
            let mut largest = V::splat(f32::NEG_INFINITY);
            for (f, filter) in tables.filters.iter().enumerate() {
                let weights = tables.weights.as_ptr().add(filter.first_weight);
                let bins = spectrum.add(filter.first_bin * V::N);
                let mut sum = V::splat(0.0);
                for k in 0..filter.n_bins {
                    sum = V::load(bins.add(k * V::N)).mul_add(V::splat(*weights.add(k)), sum);
                }
                if let Scale::Log { floor, gain, offset, .. } = mel.scale {
                    let value = ln(sum.max(V::splat(floor)));
                    sum = value.mul_add(V::splat(gain), V::splat(offset));
                }
                largest = largest.max(sum);
                match mel.order {
                    Order::FilterTime => self.values.store(f * batch.n_frames + frame, sum, live),
                    Order::TimeFilter => {
                        let mut values = [0f32; 16];
                        sum.store(values.as_mut_ptr());
                        for (lane, &value) in values.iter().enumerate().take(live) {
                            self.values.set((frame + lane) * n_filters + f, value);
                        }
                    }
                }
            }
            let mut lanes = [f32::NEG_INFINITY; 16];
            largest.store(lanes.as_mut_ptr());
            lanes[..live].iter().copied().fold(f32::NEG_INFINITY, f32::max)
        }
    }
}

const _: () = assert!(TASK_FRAMES.is_multiple_of(16));
