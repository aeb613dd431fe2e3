//! `Codec`: a model on a device, for whole clips.

use std::ffi::CStr;
use std::path::PathBuf;

use melisma::snac::{Codes, MINI24};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use super::codes::CodesArg;
use super::opened::{Codec, Opened};
use super::{decoder, encoder};
use crate::error::raise;
use crate::exec_context::ExecOptions;
use crate::local::Shared;

/// A warning about text that the built-in model made.
const MADE: &CStr = c"these tokens are codes of builtin:mini24; a language model such as Orpheus needs those of its \
                      own codec: Encoder(model)";

/// A codec model on a device. Subclasses name the directions whose engines are made at once; others are made when they
/// are first used.
#[pyclass(name = "Codec", module = "melisma.snac", frozen, subclass)]
pub struct PyCodec {
    pub(super) opened: Shared<Opened>,
}

#[pymethods]
impl PyCodec {
    #[classattr]
    #[pyo3(name = "_directions")]
    const DIRECTIONS: (&'static str, &'static str) = ("decode", "encode");

    /// Opens `builtin:mini24`, a folder with `config.json` and weights, or a file of weights with `config.json` beside
    /// it.
    #[new]
    #[classmethod]
    #[pyo3(
        signature = (model=PathBuf::from(MINI24), *, device=None, threads=None, memory_limit=None),
        text_signature = "(model=\"builtin:mini24\", *, device=None, threads=None, memory_limit=None)"
    )]
    fn new(
        cls: &Bound<'_, PyType>,
        model: PathBuf,
        device: Option<&str>,
        threads: Option<usize>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = cls.py();
        let directions: Vec<String> = cls.getattr("_directions")?.extract()?;
        let opened = Opened::new(Codec::open(py, model, ExecOptions { device, threads, memory_limit })?);
        py.detach(|| {
            directions.iter().try_for_each(|direction| match direction.as_str() {
                "decode" => opened.with_decoder(|_| Ok(())),
                _ => opened.with_encoder(|_| Ok(())),
            })
        })?;
        Ok(Self { opened: Shared::new(opened) })
    }

    /// Returns the number of samples per second.
    #[getter]
    fn sample_rate(&self) -> PyResult<u32> {
        Ok(self.opened.get()?.codec.model.config().sampling_rate)
    }

    /// Returns the number of samples of a frame.
    #[getter]
    fn frame_len(&self) -> PyResult<usize> {
        Ok(self.opened.get()?.codec.model.config().frame_len())
    }

    /// Returns the number of codes per frame on each level, coarsest first.
    #[getter]
    fn frame_codes(&self) -> PyResult<Vec<usize>> {
        Ok(self.opened.get()?.codec.model.config().frame_codes().collect())
    }

    /// Returns the number of codes in each codebook.
    #[getter]
    fn codebook_size(&self) -> PyResult<usize> {
        Ok(self.opened.get()?.codec.model.config().codebook_size)
    }

    /// Identifies the model: 32 hexadecimal digits of a hash over all weights.
    #[getter]
    fn model_hash(&self) -> PyResult<String> {
        Ok(self.opened.get()?.codec.model.hash().to_owned())
    }

    #[pyo3(name = "_decode")]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        clips: Vec<CodesArg<'py>>,
        noise: Option<u64>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let opened = self.opened.get()?;
        let config = opened.codec.model.config();
        let clips: Vec<Codes> = clips.iter().map(|clip| clip.codes(config)).collect::<PyResult<_>>()?;
        decoder::decode(py, opened, &clips, (&super::noise(noise), out))
    }

    /// Fails if codes whose model has the hash `stamp` are of another model.
    #[pyo3(name = "_check_stamp")]
    fn check_stamp(&self, stamp: &str) -> PyResult<()> {
        self.opened.get()?.codec.model.check_stamp(stamp).map_err(raise)
    }

    #[pyo3(name = "_encode")]
    fn encode<'py>(&self, py: Python<'py>, clips: Vec<PyReadonlyArray1<'py, f32>>) -> PyResult<Bound<'py, PyList>> {
        encoder::encode(py, self.opened.get()?, &clips)
    }

    #[pyo3(name = "_text")]
    fn text(&self, py: Python<'_>, codes: CodesArg<'_>, format: &str) -> PyResult<String> {
        let opened = self.opened.get()?;
        let text = encoder::text(opened, &codes, format)?;
        opened.codec.warn_of_builtin(py, MADE, 2)?;
        Ok(text)
    }
}
