//! NVIDIA GPUs, through libraries loaded at run time: the same binary also runs without them.

#[cfg(not(any(feature = "cuda-12", feature = "cuda-13")))]
pub(crate) mod absent;
mod cache;
mod context;
mod cublaslt;
mod driver;
mod event;
mod in_flight;
mod library;
mod module;
mod nvml;
mod nvrtc;
mod probe;
mod source;
mod stream;
mod timing;

#[cfg(any(feature = "cuda-12", feature = "cuda-13"))]
pub(crate) use ::cudarc as bindings;
#[cfg(not(any(feature = "cuda-12", feature = "cuda-13")))]
pub(crate) use absent as bindings;
pub use cache::{
    CacheReport, CachedKernel, cached, clear_cache, report as cache_report, set_directory as set_cache_directory,
};
pub(crate) use context::Address;
pub use context::Cuda;
pub(crate) use cublaslt::cublaslt_failed;
pub(crate) use driver::failed;
pub use event::Event;
pub(crate) use in_flight::InFlight;
pub(crate) use library::{Library, require};
pub(crate) use module::Function;
pub use nvml::GpuUsage;
pub use probe::{Gpu, LibraryReport, Probe, probe};
pub(crate) use source::{DEVICE, Header, Source};
pub(crate) use stream::Stream;
pub use timing::{Detail, DeviceSpan, Timeline};
pub(crate) use timing::{Timer, Timing};
