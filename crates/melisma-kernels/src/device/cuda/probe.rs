//! The CUDA facts that `melisma doctor` shows.

use super::bindings::driver::result as driver;
use super::context::Cuda;
use super::driver::{driver_version, failed};
use super::library::{Library, require};
use super::nvrtc;
use crate::Result;

/// The CUDA libraries and GPUs found on this machine.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Each library we use, and its place or why it is not used.
    pub libraries: Vec<LibraryReport>,
    /// The driver's CUDA version, 13000 for 13.0.
    pub driver_version: Option<i32>,
    /// The compiler's version.
    pub nvrtc_version: Option<(i32, i32)>,
    /// The GPUs, or why none was found.
    pub gpus: std::result::Result<Vec<Gpu>, String>,
}

/// One library and its place.
#[derive(Debug, Clone)]
pub struct LibraryReport {
    /// `driver`, `nvrtc`, `cublaslt`, `nvtx` or `nvml`.
    pub name: &'static str,
    /// Its path or the name that the loader resolved, or why it was not found.
    pub place: std::result::Result<String, String>,
}

/// One GPU.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// Its index, from 0.
    pub ordinal: usize,
    /// Its product name.
    pub name: String,
    /// Its compute capability, 90 for 9.0.
    pub architecture: u32,
    /// The number of multiprocessors.
    pub n_processors: u32,
    /// Total bytes of its memory.
    pub memory_bytes: u64,
    /// Bytes free now.
    pub free_bytes: u64,
    /// Whether it shares the host's memory.
    pub shares_memory: bool,
}

/// Probes every library and GPU. Missing ones are not errors.
pub fn probe() -> Probe {
    let report = |library: Library| {
        let place = require(library).map(|found| found.place.clone()).map_err(|error| error.to_string());
        LibraryReport { name: library.name(), place }
    };
    let libraries: Vec<LibraryReport> = Library::ALL.map(report).to_vec();
    let gpus = gpus().map_err(|error| error.to_string());
    Probe {
        libraries,
        driver_version: gpus.as_ref().ok().and_then(|_| driver_version().ok()),
        nvrtc_version: nvrtc::version().ok(),
        gpus,
    }
}

fn gpus() -> Result<Vec<Gpu>> {
    require(Library::Driver)?;
    driver::init().map_err(|error| failed("initialise the driver", error))?;
    let count = driver::device::get_count().map_err(|error| failed("count the GPUs", error))?;
    (0..count.max(0) as usize).map(|ordinal| Cuda::new(ordinal)?.describe()).collect()
}

impl Cuda {
    fn describe(&self) -> Result<Gpu> {
        let (free_bytes, memory_bytes) = self.memory()?;
        Ok(Gpu {
            ordinal: self.ordinal(),
            name: self.name().to_owned(),
            architecture: self.architecture(),
            n_processors: self.n_processors(),
            memory_bytes,
            free_bytes,
            shares_memory: self.shares_memory(),
        })
    }
}
