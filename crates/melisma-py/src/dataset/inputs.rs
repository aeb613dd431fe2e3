//! The input files of a dataset.

use std::path::PathBuf;

use melisma::Existing;
use melisma::dataset::{Inputs, Search};
use pyo3::prelude::*;

use crate::error::raise;
use crate::signal;

/// All input files, in order.
#[pyclass(name = "_Inputs", module = "melisma._melisma", frozen)]
pub struct PyInputs {
    pub inputs: Inputs,
}

#[pymethods]
impl PyInputs {
    /// Searches folders, audio files and lists, whose relative paths begin at `root`; `list` may have any name.
    #[staticmethod]
    fn find(py: Python<'_>, places: Vec<PathBuf>, list: Option<PathBuf>, root: Option<PathBuf>) -> PyResult<Self> {
        let search = Search::new(&places).with_list(list).with_root(root);
        Ok(Self { inputs: signal::alone(py, move |_| search.run())? })
    }

    /// Finds the audio files among `names`, which will lie below `folder`.
    #[staticmethod]
    fn within(py: Python<'_>, folder: PathBuf, names: Vec<PathBuf>) -> PyResult<Self> {
        Ok(Self { inputs: py.detach(|| Inputs::within(&folder, &names)).map_err(raise)? })
    }

    /// Reads a list that `save` wrote.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { inputs: py.detach(|| Inputs::load(&path)).map_err(raise)? })
    }

    /// Writes the list to `path`, and replaces an earlier one.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.inputs.save(&path, Existing::Replace)).map_err(raise)
    }

    /// Says in words what was left out.
    fn skipped(&self) -> Vec<String> {
        self.inputs.skipped.lines()
    }

    /// Returns the paths of shard `index` of `count`.
    fn paths(&self, index: usize, count: usize) -> Vec<PathBuf> {
        let part = self.inputs.shard(index, count);
        self.inputs.files[part].iter().map(|file| file.path().to_owned()).collect()
    }

    fn __len__(&self) -> usize {
        self.inputs.files.len()
    }
}
