//! The native part of the Python package `melisma`: the library's rooms on numpy arrays.
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
mod audio;
mod config;
mod dataset;
mod element;
mod error;
mod exec_context;
mod local;
mod log;
mod mel;
mod memory;
mod onnx;
mod optimizer;
mod out;
mod pack;
mod remedy;
mod server;
mod session;
mod settings;
mod signal;
mod snac;
mod span;
mod speak;
mod synth;
mod tensor;
mod trace;
mod weights;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the version of the package.
#[pyfunction(name = "_version")]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns what the package was built from.
///
/// Returns:
///     `version`, the `commit` or `None` where the build did not know it, and the list of `features`.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = server::build_info();
    let told = PyDict::new(py);
    told.set_item("version", info.version())?;
    told.set_item("commit", info.commit())?;
    told.set_item("features", info.features())?;
    Ok(told)
}

/// The classes of the package.
#[pymodule]
mod _melisma {
    #[pymodule_export]
    use crate::audio::{read, resample, stretch, write};
    #[pymodule_export]
    use crate::build_info;
    #[pymodule_export]
    use crate::config::PyConfig;
    #[pymodule_export]
    use crate::dataset::{PyBuilder, PyInputs, columns, merge_shards, verify_dataset};
    #[pymodule_export]
    use crate::mel::{PyTransform, keys, presets};
    #[pymodule_export]
    use crate::memory::{MemoryTracker, Track};
    #[pymodule_export]
    use crate::onnx::work;
    #[pymodule_export]
    use crate::optimizer::{PrecisionScope, PyTensorOptimizer};
    #[pymodule_export]
    use crate::pack::{
        PyDeviceTensor, PyPackFile, PyTileDecoder, PyTileEncoder, compress, compressed, decompress, index,
        load_to_device, pack_file, save, write_index,
    };
    #[pymodule_export]
    use crate::server::{PyServer, serve};
    #[pymodule_export]
    use crate::session::PySession;
    #[pymodule_export]
    use crate::signal::PyCancel;
    #[pymodule_export]
    use crate::snac::{PyCodec, PyStreamDecoder, PyStreamEncoder, populate, validate};
    #[pymodule_export]
    use crate::span::PySpan;
    #[pymodule_export]
    use crate::speak::{PySpeaker, PySpeechStream};
    #[pymodule_export]
    use crate::synth::{PyScore, PyStream, make_clips, preset_yaml, render, seed, stems, styles, voices};
    #[pymodule_export]
    use crate::tensor::PyTensor;
    #[pymodule_export]
    use crate::trace::PyTrace;
    #[pymodule_export]
    use crate::version;
    #[pymodule_export]
    use crate::weights::PyWeights;
    use pyo3::types::PyModule;
    use pyo3::{Bound, PyResult};

    /// Measures what Python and this package take, before they work.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = melisma::runtime::memory::program_bytes();
        Ok(())
    }
}
