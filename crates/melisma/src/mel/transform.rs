//! Spectrograms on a device.

use half::f16;
use melisma_kernels::signal::mel::{Batch, Plan, Sample, Value};
use melisma_kernels::{Element, Tensor};

use super::config::{Config, OutputPrecision};
use crate::runtime::device::Queue;
use crate::{Context, DType, Error, Remedy, Result};

/// Makes spectrograms.
///
/// ```
/// use melisma::mel::{Config, Transform};
///
/// let transform = Transform::new(Config::preset("hifigan")?)?;
/// let mel = transform.run(&[0.1; 22_050])?;
/// println!("{} bands of {} frames", mel.shape[0], mel.shape[1]);
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Transform {
    config: Config,
    plan: Plan,
    queue: Queue,
}

/// A spectrogram in memory.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Spectrogram {
    /// `[F, T]`, or `[T, F]` for Kaldi.
    pub shape: [usize; 2],
    /// Its values, row by row.
    pub values: Values,
}

/// Values of either type.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// Half precision.
    F16(Vec<f16>),
    /// Single precision.
    F32(Vec<f32>),
}

impl Spectrogram {
    /// Creates a spectrogram of `shape`, in the order of [`Spectrogram::shape`].
    pub fn new(shape: [usize; 2], values: Values) -> Self {
        Self { shape, values }
    }
}

impl Values {
    /// Returns the values as single precision.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::F16(values) => values.iter().map(|value| value.to_f32()).collect(),
            Self::F32(values) => values.clone(),
        }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F16(_) => DType::F16,
            Self::F32(_) => DType::F32,
        }
    }

    /// Returns the values as the machine stores them, which is little-endian on every machine that this is built for.
    pub fn bytes(&self) -> &[u8] {
        const { assert!(cfg!(target_endian = "little")) };
        match self {
            Self::F16(values) => bytemuck::cast_slice(values),
            Self::F32(values) => bytemuck::cast_slice(values),
        }
    }

    /// Returns whether no value is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        match self {
            Self::F16(values) => values.iter().all(|value| value.is_finite()),
            Self::F32(values) => values.iter().all(|value| value.is_finite()),
        }
    }
}

impl Transform {
    /// Prepares spectrograms on the CPU.
    ///
    /// # Errors
    /// Those of [`Transform::new_in`] and [`Context::cpu`].
    pub fn new(config: Config) -> Result<Self> {
        Self::new_in(&Context::cpu()?, config)
    }

    /// Checks `config` and makes its tables in `context`.
    ///
    /// # Errors
    /// A value is out of its bounds, the budget refuses, or the device cannot do it.
    pub fn new_in(context: &Context, config: Config) -> Result<Self> {
        let plan = config.plan(context.device(), context.budget())?;
        Ok(Self { config, plan, queue: context.queue().clone() })
    }

    /// Returns its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the bytes of host memory that a run takes besides samples and the values of
    /// `n_frames` frames.
    pub fn scratch_bytes(&self, n_frames: usize) -> u64 {
        self.plan.scratch_bytes(&self.queue.device(), Batch { n_items: 1, n_samples: 0, n_frames })
    }

    /// Returns the spectrogram of `samples`, which have the configured rate. Memory of the device counts in the
    /// queue's budget.
    ///
    /// # Errors
    /// The sound is too short, a value does not fit half precision, the budget refuses, or the device fails.
    pub fn run<S: Sample>(&self, samples: &[S]) -> Result<Spectrogram> {
        let n_frames = self.config.n_frames(samples.len())?;
        let len = self.config.n_mels * n_frames;
        let values = match self.config.dtype {
            OutputPrecision::F16 => Values::F16(self.values(samples, len)?),
            OutputPrecision::F32 => Values::F32(self.values(samples, len)?),
        };
        Ok(Spectrogram { shape: self.config.shape(n_frames), values })
    }

    fn values<S: Sample, D: Value>(&self, samples: &[S], len: usize) -> Result<Vec<D>> {
        let mut values = vec![D::zeroed(); len];
        self.run_into(samples, &mut values)?;
        Ok(values)
    }

    /// Works like [`Transform::run`], into `values`, row by row, which are of the configured precision.
    ///
    /// # Errors
    /// As [`Transform::run`]; also if `values` has another length or precision.
    pub fn run_into<S: Sample, D: Value>(&self, samples: &[S], values: &mut [D]) -> Result<()> {
        self.run_on(&self.queue, samples, values)
    }

    /// Works like [`Transform::run_into`], on another queue of the same device.
    ///
    /// # Errors
    /// As [`Transform::run_into`]; also if `queue` is stopped.
    pub fn run_on<S: Sample, D: Value>(&self, queue: &Queue, samples: &[S], values: &mut [D]) -> Result<()> {
        let n_frames = self.config.n_frames(samples.len())?;
        let batch = Batch { n_items: 1, n_samples: samples.len(), n_frames };
        let is_half = D::DTYPE == f16::DTYPE;
        if is_half != (self.config.dtype == OutputPrecision::F16) {
            let bits = 8 * self.config.dtype.bytes();
            return Err(Error::invalid(format!("cannot write {bits}-bit values as {}", D::DTYPE.name())));
        }
        match queue {
            Queue::Cpu(_) => self.plan.run(queue, batch, samples.into(), (&mut *values).into())?,
            Queue::Cuda(_) => {
                let on_device = |dtype, len: usize| Tensor::new(&queue.device(), queue.budget(), dtype, &[len]);
                let (mut input, mut output) = (on_device(S::DTYPE, samples.len())?, on_device(D::DTYPE, values.len())?);
                queue.copy(samples.into(), input.view_mut::<S>()?)?;
                self.plan.run(queue, batch, input.view::<S>()?, output.view_mut::<D>()?)?;
                queue.copy(output.view::<D>()?, (&mut *values).into())?;
            }
        }
        if is_half && !bytemuck::cast_slice::<D, f16>(values).iter().all(|value| value.is_finite()) {
            return Err(
                Error::invalid("a value does not fit half precision").with_hint(Remedy::set_mel("dtype", "f32"))
            );
        }
        Ok(())
    }
}
