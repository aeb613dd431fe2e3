//! Devices that kernels run on.

use std::fmt;

use crate::Result;
use cuda::Cuda;
pub use isa::{Isa, Level};

/// A device that kernels run on: one enum, one two-arm `match` per kernel.
#[derive(Debug, Clone)]
pub enum Device {
    /// The host's processor.
    Cpu(Cpu),
    /// An NVIDIA GPU.
    Cuda(Cuda),
}

/// The host's processor: an instruction set and a number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// The instruction set that kernels use. Results are bit-stable per instruction set.
    pub isa: Isa,
    /// The number of threads of a queue. Results do not depend on it.
    pub threads: usize,
}

impl Device {
    /// Returns the CPU with the instruction set of `MELISMA_ISA` (else the best) and all threads
    /// available to the process.
    ///
    /// # Errors
    /// `MELISMA_ISA` names an unknown or missing instruction set.
    pub fn cpu() -> Result<Self> {
        Ok(Self::Cpu(Cpu { isa: Isa::from_env()?, threads: available_threads() }))
    }

    /// Returns GPU number `ordinal`.
    ///
    /// # Errors
    /// No driver, no such GPU, or a GPU that cannot be used.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Cuda::new(ordinal).map(Self::Cuda)
    }

    /// Returns the product name of a GPU, or the instruction set and threads of the CPU.
    pub fn description(&self) -> String {
        match self {
            Self::Cpu(cpu) => format!("{} x {}", cpu.isa.level().name(), cpu.threads),
            Self::Cuda(cuda) => cuda.name().to_owned(),
        }
    }
}

/// The name that `--device` takes: `cpu` or `cuda:N`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(_) => f.write_str("cpu"),
            Self::Cuda(cuda) => write!(f, "cuda:{}", cuda.ordinal()),
        }
    }
}

pub mod ceiling;
pub mod cuda;
pub(crate) mod isa;
pub mod nvtx;
pub(crate) mod vector;
pub(crate) mod workers;

/// Returns the number of threads this process may use at once.
pub fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::{Device, cuda, nvtx};
    use crate::{ErrorKind, suite};

    /// A machine or a build without CUDA: every way to ask for it is a plain error.
    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no libraries")]
    fn absent_libraries_are_errors() {
        let probe = cuda::probe();
        match Device::cuda(0) {
            Ok(_) => suite::skip("this machine has a GPU"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Device);
                assert!(error.hint().is_some(), "{error}");
                if !cfg!(any(feature = "cuda-12", feature = "cuda-13")) {
                    assert_eq!(error.to_string(), "this build has no CUDA");
                    assert!(probe.libraries.iter().all(|library| library.place.as_ref() == Err(&error.to_string())));
                }
                assert!(probe.gpus.is_err() || probe.gpus.is_ok_and(|gpus| gpus.is_empty()));
            }
        }
        assert_eq!(probe.libraries.len(), 5);
        nvtx::push("range");
        nvtx::pop();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no libraries")]
    fn a_gpu_that_does_not_exist_is_refused() {
        let error = Device::cuda(4096).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.hint().is_some());
    }
}
