//! Tensors, devices, pools and kernels: the only Melisma crate with `unsafe` code and the only one
//! that knows CUDA.
//!
//! A kernel is a directory. `mod.rs` holds the contract, `reference.rs` the obvious loops, `cpu.rs`
//! the CPU code, `cuda.rs` with its `.cu` file the GPU code, and `tests.rs` one suite of cases for
//! every device. `plan` checks everything once; `run` allocates nothing.
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

pub mod conv;
pub mod convert;
pub mod device;
pub mod elementwise;
mod error;
pub mod language;
pub mod layer;
pub mod lock;
pub mod matmul;
pub mod memory;
pub mod process;
pub mod queue;
pub mod random;
pub mod rans;
mod remedy;
pub mod signal;
#[cfg(test)]
mod suite;

pub use device::cuda::{DeviceSpan, Event};
pub use device::{Cpu, Device, Isa, Level, available_threads};
pub use error::{Error, ErrorKind, Result};
pub use memory::{
    ALLOCATION, Budget, Buffer, DType, Element, I24, Pool, Reservation, Space, Tensor, Usage, View, ViewMut, Watch,
};
pub use queue::{Graph, Queue};
pub use remedy::{Remedy, Special};
