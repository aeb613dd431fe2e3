//! `Config`: the settings of a profile, a file and the environment.

use melisma::config::{self, Config, Entry, Layers, Section, Sources};
use melisma::speak;
use melisma_server::upstream;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

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
    serve: melisma_server::Config,
    speak: speak::Config,
}

impl PyConfig {
    fn load(sources: &Sources) -> PyResult<Self> {
        let load = || {
            let layers = Layers::read(sources)?;
            let (upstream, serve, speak) = (layers.section()?, layers.section()?, layers.section()?);
            Ok(Self { config: Config::of(&layers)?, upstream, serve, speak })
        };
        load().map_err(raise)
    }

    fn entries(&self) -> Vec<Entry<'_>> {
        [self.config.entries(), self.serve.entries(), self.upstream.entries(), self.speak.entries()].concat()
    }
}

#[pymethods]
impl PyConfig {
    /// Reads the settings of this process's file and environment, under arguments as `TensorOptimizer` takes them.
    #[new]
    #[pyo3(signature = (profile=None, config=None, memory_limit=None))]
    fn new(
        profile: Option<&str>,
        config: Option<&Bound<'_, PyAny>>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::load(&settings::sources(profile, config, memory_limit)?)
    }

    /// Reads the settings under a profile.
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

    /// Returns all settings.
    ///
    /// Returns:
    ///     The value of each key, and where it came from.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::parsed(py, &config::json(self.entries()).to_string())
    }

    /// Returns the names of all settings.
    ///
    /// Returns:
    ///     The keys of `to_dict`.
    fn keys(&self) -> Vec<String> {
        self.entries().iter().map(|entry| entry.key.to_string()).collect()
    }

    /// Returns the value of a key.
    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let key = settings::known(key).map_err(raise)?;
        self.to_dict(py)?.get_item(key)?.get_item("value")
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> bool {
        key.extract::<String>().is_ok_and(|key| settings::known(&key).is_ok())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys().into_pyobject(py)?.try_iter()
    }

    fn __len__(&self) -> usize {
        self.entries().len()
    }

    fn __repr__(&self) -> String {
        config::table(self.entries()).text()
    }
}
