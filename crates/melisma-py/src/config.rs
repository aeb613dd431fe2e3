//! `Config`: the settings of a profile, a file and the environment.

use melisma::config::{self, Config, Entry, Layers, Section, Sources};
use melisma_server::upstream;
use pyo3::prelude::*;

use crate::error::raise;
use crate::{array, settings};

/// Settings, from defaults to arguments; later layers win.
///
/// Args:
///     profile: The name of a profile: emergency, field or training.
///     config: The path of a YAML file, or a dict of settings.
///     memory_limit: Bytes, or text such as "2GiB".
#[pyclass(name = "Config", module = "melisma", frozen)]
pub struct PyConfig {
    pub config: Config,
    upstream: upstream::Config,
}

impl PyConfig {
    fn load(sources: &Sources) -> PyResult<Self> {
        let load = || {
            let layers = Layers::read(sources)?;
            Ok(Self { config: Config::of(&layers)?, upstream: layers.section()? })
        };
        load().map_err(raise)
    }

    fn entries(&self) -> Vec<Entry<'_>> {
        [self.config.entries(), self.upstream.entries()].concat()
    }
}

#[pymethods]
impl PyConfig {
    /// The settings of this process's file and environment, under arguments as `TensorOptimizer` takes them.
    #[new]
    #[pyo3(signature = (profile=None, config=None, memory_limit=None))]
    fn new(
        profile: Option<&str>,
        config: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::load(&settings::sources(profile, config, memory_limit)?)
    }

    /// The settings under a profile.
    ///
    /// Args:
    ///     name: emergency, field or training.
    ///
    /// Returns:
    ///     The settings.
    #[staticmethod]
    fn load_with_profile(name: &str) -> PyResult<Self> {
        Self::load(&settings::sources(Some(name), None, None)?)
    }

    /// All settings.
    ///
    /// Returns:
    ///     The value of each key, and where it came from.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::parsed(py, &config::json(self.entries()).to_string())
    }

    /// The value of a key.
    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let key = settings::known(key).map_err(raise)?;
        self.to_dict(py)?.get_item(key)?.get_item("value")
    }

    fn __repr__(&self) -> String {
        config::table(self.entries()).text()
    }
}
