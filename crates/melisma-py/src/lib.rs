//! The native part of the Python package `melisma`: the library's tensor tools on numpy arrays.
//!
//! It contains no logic: it converts arguments, releases the interpreter while the library works,
//! and turns errors into exceptions with their kind, message and hint.
//!
//! # Why is the package built by name only?
//!
//! It is not a default member, so a plain build does not need PyO3. `.cargo/config.toml` tells PyO3
//! that the module links no Python, so every check of the workspace includes it, also for Arm. The
//! crate has no unsafe code: arrays are borrowed through the numpy crate's own checks, and results
//! are new arrays.
#![forbid(unsafe_code)]

mod array;
mod element;
mod error;
mod memory;
mod onnx;
mod optimizer;
mod remedy;
mod settings;
mod tensor;
mod weights;

use pyo3::prelude::*;

/// The classes of the package.
#[pymodule]
mod _melisma {
    #[pymodule_export]
    use crate::memory::{MemoryTracker, Track};
    #[pymodule_export]
    use crate::onnx::work;
    #[pymodule_export]
    use crate::optimizer::{PrecisionScope, PyTensorOptimizer};
    #[pymodule_export]
    use crate::tensor::PyTensor;
    #[pymodule_export]
    use crate::weights::PyWeights;
}
