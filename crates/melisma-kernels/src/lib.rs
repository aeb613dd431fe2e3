//! Tensors, devices, pools and kernels: the only crate of Melisma with `unsafe`, the only one that knows CUDA.

mod budget;
mod error;

pub use budget::{Budget, Reservation, Space, Usage};
pub use error::{Error, Kind, Result};
