//! Memory on the host and on GPUs: [`Budget`]s, [`Buffer`]s and the [`Pool`] that lends them,
//! [`Tensor`]s with a type and a shape, typed views for kernels, and mapped files.

mod block;
mod budget;
mod buffer;
mod direct;
pub(crate) mod dtype;
#[cfg_attr(not(target_os = "linux"), path = "unmapped.rs")]
pub mod mapped;
mod pool;
mod prefetch;
pub mod refusal;
mod shelf;
mod tensor;
pub(crate) mod view;

pub use budget::{ALLOCATION, Budget, Reservation, Space, Usage, Watch};
pub use buffer::Buffer;
pub use dtype::{DType, Element, I24};
pub use pool::Pool;
pub use prefetch::prefetch;
pub use tensor::Tensor;
pub use view::{CudaView, CudaViewMut, View, ViewMut};
