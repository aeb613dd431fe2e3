//! The machine and its devices: hardware facts, device selection and memory tracking.
//!
//! ```
//! use melisma::Context;
//!
//! let context = Context::cpu()?;
//! let buffer = context.memory().track("buffer", || context.budget().reserve(melisma::runtime::Space::Host, 4096))?;
//! println!("{}\n{}", context.device(), context.memory().summary());
//! # Ok::<(), melisma::Error>(())
//! ```

mod available;
pub mod device;
#[doc(hidden)]
pub mod machine;
pub mod memory;
#[doc(hidden)]
pub mod resident;
mod self_check;
#[doc(hidden)]
pub mod thread;

pub use melisma_kernels::memory::{CudaView, CudaViewMut};
pub use melisma_kernels::queue::{CpuQueue, CudaQueue};
pub use melisma_kernels::{Buffer, Cpu, I24, Isa, Level, Pool, Reservation, Space, Usage, Watch};
pub use memory::MemoryTracker;
pub use self_check::SelfCheck;
