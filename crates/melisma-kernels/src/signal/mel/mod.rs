//! `mel`: samples to mel spectrograms, from int16 or f32 to f16 or f32, in one pass over the audio.
//!
//! For B items of L samples and T frames each, with K = n_fft / 2 + 1 bins and F filters:
//!
//! ```text
//! x'[t, n] = x[t hop + n - pad]                     n < frame_len; beyond the ends as `edge` says
//! x'[t, n] = x'[t, n] - mean of the frame           with `Offset::Remove`
//! x'[t, n] = x'[t, n] - a x'[t, n - 1]              with `pre_emphasis` a; x'[t, -1] = x'[t, 0]
//! X[t, k]  = sum over n of window[n] x'[t, n] e^{-2 pi i k n / n_fft}
//! S[t, k]  = |X|^2, or sqrt(|X|^2 + epsilon)
//! y[f, t]  = sum over k of filters[f, k] S[t, k]
//! y        = gain ln(max(y, floor)) + offset        with `Scale::Log`
//! y        = max(y, largest y of the item - range)  with `range`
//! ```
//!
//! Integers are divided by 32,768. A NaN or infinite sample makes every frame that contains it NaN.
//! Frames are vector lanes, so a value does not depend on what is computed beside it and has the
//! same bits on every instruction set. Values on different devices differ by at most 2e-6 of the
//! item's largest value before the logarithm.
//!
//! Example: a 1 kHz sine at 16 kHz, with n_fft 400 and hop 160, has its largest value in the filter
//! around 1 kHz, in every frame that it fills.

mod cpu;
pub(crate) mod cuda;
mod fft;
mod lanes;
mod port;
pub mod reference;
mod sound;
mod tables;
#[cfg(test)]
mod tests;

use half::f16;

use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Element, Error, Queue, Result, View, ViewMut};

/// The longest transform.
pub const MAX_FFT: usize = 1 << 16;
/// The most filters.
pub const MAX_FILTERS: usize = 1 << 12;

/// The parameters of a spectrogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Mel {
    /// Points of the transform.
    pub n_fft: usize,
    /// Samples per frame, at most `n_fft`.
    pub frame_len: usize,
    /// Samples between the starts of frames.
    pub hop_len: usize,
    /// Offset of the first frame before the first sample, in samples.
    pub pad: usize,
    /// The values before the first and after the last sample.
    pub edge: Edge,
    /// Whether the mean of each frame is removed.
    pub offset: Offset,
    /// The factor of the difference filter, 0 for none.
    pub pre_emphasis: f32,
    /// `frame_len` coefficients.
    pub window: Vec<f64>,
    /// Power or magnitude.
    pub power: Power,
    /// `[F, K]`
    pub filters: Vec<f32>,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Which axis comes first.
    pub order: Order,
}

/// The values beyond the ends of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Zeros.
    Zero,
    /// The samples reflected, without the outermost: 2 1 | 0 1 2.
    Reflect,
    /// The samples reflected, with the outermost: 1 0 | 0 1 2.
    Mirror,
}

/// The treatment of a frame's mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// It stays.
    Keep,
    /// It is subtracted.
    Remove,
}

/// The quantity that the filters weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Power {
    /// |X|^2
    Power,
    /// sqrt(|X|^2 + epsilon)
    Magnitude {
        /// Added below the root.
        epsilon: f32,
    },
}

/// The scaling of the filters' sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// No scaling.
    Linear,
    /// `gain * ln(max(y, floor)) + offset`
    Log {
        /// The smallest value, at least the smallest normal f32.
        floor: f32,
        /// Multiplies the natural logarithm.
        gain: f32,
        /// Added at the end.
        offset: f32,
        /// How far below the item's largest value the output may be.
        range: Option<f32>,
    },
}

/// The order of an item's axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `[F, T]`
    FilterTime,
    /// `[T, F]`
    TimeFilter,
}

/// The size of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// B
    pub n_items: usize,
    /// L
    pub n_samples: usize,
    /// T
    pub n_frames: usize,
}

impl Mel {
    /// Returns K
    pub fn n_bins(&self) -> usize {
        self.n_fft / 2 + 1
    }

    /// Returns F
    pub(crate) fn n_filters(&self) -> usize {
        self.filters.len() / self.n_bins()
    }

    /// Checks the parameters and prepares the tables for `run`.
    ///
    /// # Errors
    /// A size is 0 or beyond its limit, lengths contradict each other, a number is not finite, or the budget or the device refuses.
    pub fn plan(self, device: &Device, budget: &Budget) -> Result<Plan> {
        self.check()?;
        let on = OnDevice::new(device, |_| Ok(cpu::OnCpu::new(&self)), |cuda| cuda::OnCuda::new(cuda, budget, &self))?;
        Ok(Plan { mel: self, on })
    }

    fn check(&self) -> Result<()> {
        let within = |name: &str, value: usize, most: usize| match value {
            0 => Err(Error::invalid(format!("mel: {name} is 0"))),
            _ if value > most => Err(Error::invalid(format!("mel: {name} is {value}; at most {most} are possible"))),
            _ => Ok(()),
        };
        within("n_fft", self.n_fft, MAX_FFT)?;
        within("the frame", self.frame_len, self.n_fft)?;
        within("the hop", self.hop_len, MAX_FFT)?;
        within("the number of filters", self.n_filters(), MAX_FILTERS)?;
        if self.pad > MAX_FFT {
            return Err(Error::invalid(format!("mel: padding of {}; at most {MAX_FFT} is possible", self.pad)));
        }
        check_len("mel: window", self.window.len(), self.frame_len)?;
        check_len("mel: filters", self.filters.len(), self.n_filters() * self.n_bins())?;
        let mut numbers: Vec<f32> = vec![self.pre_emphasis];
        match self.power {
            Power::Magnitude { epsilon } if epsilon.is_nan() || epsilon < 0.0 => {
                return Err(Error::invalid(format!("mel: an epsilon of {epsilon}; it must not be negative")));
            }
            Power::Magnitude { epsilon } => numbers.push(epsilon),
            Power::Power => {}
        }
        if let Scale::Log { floor, gain, offset, range } = self.scale {
            if floor.is_nan() || floor < f32::MIN_POSITIVE {
                return Err(Error::invalid(format!(
                    "mel: a floor of {floor}; at least {} is needed",
                    f32::MIN_POSITIVE
                )));
            }
            numbers.extend([floor, gain, offset]);
            numbers.extend(range);
        }
        let finite = numbers.iter().chain(&self.filters).all(|x| x.is_finite());
        if finite && self.window.iter().all(|x| x.is_finite()) {
            return Ok(());
        }
        Err(Error::invalid("mel: a parameter is not finite"))
    }
}

/// Samples that can be transformed.
pub trait Sample: Element + port::Sample {}
/// Values that can be written.
pub trait Value: Element + port::Value {}

impl Sample for i16 {}
impl Sample for f32 {}
impl Value for f32 {}
impl Value for f16 {}

/// A prepared transform on one device.
#[derive(Debug)]
pub struct Plan {
    mel: Mel,
    on: OnDevice<cpu::OnCpu, cuda::OnCuda>,
}

impl Plan {
    /// Returns its parameters.
    pub fn mel(&self) -> &Mel {
        &self.mel
    }

    /// Returns the bytes of host memory that runs of `batch` take from a queue of `device`, besides
    /// samples and values.
    pub fn scratch_bytes(&self, device: &Device, batch: Batch) -> u64 {
        match (&self.on, device) {
            (OnDevice::Cpu(on), Device::Cpu(cpu)) => on.scratch_bytes(cpu.threads, batch),
            _ => 0,
        }
    }

    /// Transforms `samples` `[B, L]` into `values` `[B, F, T]`, or `[B, T, F]`.
    ///
    /// # Errors
    /// A view's length or place does not match `batch`, or the device fails.
    pub fn run<S: Sample, D: Value>(
        &self,
        queue: &Queue,
        batch: Batch,
        samples: View<'_, S>,
        values: ViewMut<'_, D>,
    ) -> Result<()> {
        let Batch { n_items, n_samples, n_frames } = batch;
        let n_filters = self.mel.n_filters();
        check_len("mel: samples", samples.len(), product([n_items, n_samples, 1])?)?;
        check_len("mel: values", values.len(), product([n_items, n_frames, n_filters])?)?;
        let bytes = samples.len() * size_of::<S>() + values.len() * size_of::<D>();
        let _span = kernel_span!(queue, "mel", [n_items, n_filters, n_frames], bytes);
        if values.is_empty() {
            return Ok(());
        }
        match self.on.with(queue, "mel")? {
            Pair::Cpu(on, queue) => {
                cpu::run(queue, &cpu::Job { mel: &self.mel, on, batch }, samples.host()?, values.host()?)
            }
            Pair::Cuda(on, queue) => on.run(queue, batch, samples.cuda()?, values.cuda()?),
        }
    }
}

fn product(factors: [usize; 3]) -> Result<usize> {
    let product = factors.iter().try_fold(1usize, |product, &factor| product.checked_mul(factor));
    product.ok_or_else(|| Error::invalid(format!("mel: a batch of {factors:?} overflows")))
}
