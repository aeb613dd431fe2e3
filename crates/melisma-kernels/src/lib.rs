//! Tensors, devices, pools and kernels: the only crate of Melisma with `unsafe`, the only one that knows CUDA.
//!
//! A kernel is a directory: the contract in `mod.rs`, the obvious loops in `reference.rs`, `cpu.rs` and `cuda.rs` with
//! its `.cu` file side by side, and one suite of cases for every device in `tests.rs`. `plan` checks everything once;
//! `run` allocates nothing.
//!
//! ```
//! use melisma_kernels::{Budget, Device, convert};
//!
//! let device = Device::cpu()?;
//! let queue = device.queue(&Budget::unlimited())?;
//! let samples = [0i16, 16_384, -32_768];
//! let mut floats = [0f32; 3];
//! convert::plan::<i16, f32>(&device, 3)?.run(&queue, samples[..].into(), floats[..].as_mut().into())?;
//! assert_eq!(floats, [0.0, 0.5, -1.0]);
//! # Ok::<(), melisma_kernels::Error>(())
//! ```

pub mod attention;
mod budget;
mod buffer;
pub mod ceiling;
pub mod conv;
pub mod convert;
pub mod cuda;
pub mod depthwise;
mod device;
mod dtype;
pub mod elementwise;
pub mod embed;
mod error;
pub mod feedback;
pub mod head;
mod history;
mod isa;
pub mod mapped;
pub mod matmul;
pub mod mel;
pub mod noise;
pub mod norm;
pub mod nvtx;
mod panel;
pub mod pointwise;
mod pool;
pub mod populate;
pub mod process;
mod queue;
pub mod rans;
pub mod residual;
mod snake;
pub mod step;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod suite;
mod tensor;
pub mod upsample;
mod view;
pub mod voice;
mod workers;

pub use budget::{ALLOCATION, Budget, Reservation, Space, Usage, Watch};
pub use buffer::Buffer;
pub use cuda::{DeviceSpan, Event, Graph};
pub use device::{Cpu, Device, available_threads};
pub use dtype::{DType, Element, I24};
pub use error::{Error, Kind, Result};
pub use isa::{Isa, Level};
pub use pool::Pool;
pub use queue::Queue;
pub use tensor::Tensor;
pub use view::{View, ViewMut};
