//! The plan of layers that remember the last rows of their input: `depthwise`, `downsample`, `entry`,
//! `head`, `residual` and `upsample`.

use std::fmt::Debug;

use crate::device::Cpu;
use crate::device::cuda::Cuda;
use crate::layer::cuda::{LayerArgument, MemoryArgument};
use crate::layer::history::{Histories, History};
use crate::layer::step::{Activations, Arena, Step, Timeline};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CpuQueue, CudaQueue, KernelSpan, OnDevice, Pair};
use crate::{Device, Queue, Result};

/// The shape of a layer in a step: x `[B, T · rate_in, C_in]` to y `[B, T · rate, C_out]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Opens the span of one run, for a shape and a number of bytes.
    pub(crate) span: for<'a> fn(&'a Queue, [usize; 3], usize) -> KernelSpan<'a>,
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
    /// Rows of x per latent.
    pub(crate) rate_in: usize,
    /// Rows of x that it remembers.
    pub(crate) n_past: usize,
    /// Floats of dense weights.
    pub(crate) n_weights: usize,
    /// Timeline of the output.
    pub(crate) timeline: Timeline,
}

/// A layer's input in one step on the CPU.
pub(crate) struct Input<'a> {
    pub(crate) step: Step<'a>,
    pub(crate) timeline: Timeline,
    histories: &'a Histories<'a>,
    x: &'a [f32],
    n_channels: usize,
}

impl Input<'_> {
    /// Returns the rows that stream `stream` of the step sees.
    #[inline(always)]
    pub(crate) fn history(&self, stream: usize) -> History<'_> {
        self.histories.of(&self.step, self.x, stream, self.n_channels)
    }
}

/// A layer's input and output in one step on a GPU.
pub(crate) struct CudaPass<'a> {
    pub(crate) step: Step<'a>,
    pub(crate) timeline: Timeline,
    pub(crate) layer: LayerArgument,
    pub(crate) x: CudaView<'a, f32>,
    pub(crate) y: CudaViewMut<'a, f32>,
}

/// A layer prepared for the CPU.
pub(crate) trait CpuLayer: Debug + Send + Sync {
    /// Writes all of `y`, which is not empty.
    fn run(&self, queue: &CpuQueue, input: &Input<'_>, y: &mut [f32]) -> Result<()>;
}

/// A layer prepared for a GPU.
pub(crate) trait CudaLayer: Debug + Send + Sync {
    /// Writes all of y and the memory; the step has at least one row.
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()>;
}

/// A layer prepared for one device.
#[derive(Debug)]
pub struct Plan {
    form: Form,
    state_len: usize,
    on: OnDevice<Box<dyn CpuLayer>, Box<dyn CudaLayer>>,
}

impl Plan {
    pub(crate) fn new<C: CpuLayer + 'static, G: CudaLayer + 'static>(
        device: &Device,
        form: Form,
        cpu: impl FnOnce(Cpu) -> Result<C>,
        cuda: impl FnOnce(&Cuda) -> Result<G>,
    ) -> Result<Self> {
        let on = OnDevice::new(
            device,
            |processor| cpu(processor).map(|layer| Box::new(layer) as Box<dyn CpuLayer>),
            |gpu| cuda(gpu).map(|layer| Box::new(layer) as Box<dyn CudaLayer>),
        )?;
        let state_len = match on {
            OnDevice::Cpu(_) => form.n_past * form.n_in,
            OnDevice::Cuda(_) => MemoryArgument::state_len([form.n_past, form.n_in]),
        };
        Ok(Self { form, state_len, on })
    }

    /// Returns the number of floats of state per slot.
    pub fn state_len(&self) -> usize {
        self.state_len
    }

    /// Runs one step.
    ///
    /// # Errors
    /// A view's length or place does not match the step, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, arena: Arena<'_>, activations: Activations<'_>) -> Result<()> {
        let (Form { name, n_in, n_out, rate_in, n_past, timeline, .. }, Activations { x, y }) =
            (self.form, activations);
        step.check(&format_args!("{name}: x"), x.len(), rate_in, n_in)?;
        step.check(&format_args!("{name}: y"), y.len(), timeline.rate, n_out)?;
        arena.check(name, step.rows, self.state_len)?;
        let bytes = size_of::<f32>() * (x.len() + y.len() + self.form.n_weights);
        let _span = (self.form.span)(queue, [step.n_columns(rate_in), n_in, n_out], bytes);
        match self.on.with(queue, name)? {
            Pair::Cpu(layer, queue) => {
                let (x, y) = (x.host()?, y.host()?);
                if y.is_empty() {
                    return Ok(());
                }
                let mut histories = Histories::new(arena, n_past * n_in)?;
                let input = Input { step, timeline, histories: &histories, x, n_channels: n_in };
                layer.run(queue, &input, y)?;
                histories.roll(&step, x);
                Ok(())
            }
            Pair::Cuda(layer, queue) => {
                let (x, y) = (x.cuda()?, y.cuda()?);
                if step.rows.is_empty() {
                    return Ok(());
                }
                let argument = LayerArgument::new(step, timeline, arena, [n_past, n_in])?;
                layer.run(queue, CudaPass { step, timeline, layer: argument, x, y })
            }
        }
    }
}
