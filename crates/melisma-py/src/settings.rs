//! Converts Python arguments to layers of the settings.

use std::path::PathBuf;

use melisma::Error;
use melisma::config::{Config, Environment, Section, Sources, nearest};
use melisma::speak;
use melisma_server::upstream;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::error::raise;

const SECTION: &str = "tensor_optimizations";

/// Reads the process's file and environment, overridden by these arguments.
pub fn sources(
    profile: Option<&str>,
    config: Option<&Bound<'_, PyAny>>,
    memory_limit: Option<&Bound<'_, PyAny>>,
) -> PyResult<Sources> {
    let mut sources = Sources::default().with_environment(Environment::process());
    match config.map(|config| (config, config.cast::<PyDict>())) {
        Some((_, Ok(settings))) => add(&mut sources, settings)?,
        Some((path, Err(_))) => sources.file = Some(path.extract::<PathBuf>()?),
        None => {}
    }
    if let Some(profile) = profile {
        sources.flags.push(("profile", "profile", profile.to_owned()));
    }
    if let Some(limit) = memory_limit {
        sources.flags.push(("memory_limit", "memory_limit", text(limit)?));
    }
    Ok(sources)
}

/// Adds keys as written in the file; keys of the section also work without its name.
fn add(sources: &mut Sources, settings: &Bound<'_, PyDict>) -> PyResult<()> {
    for (key, value) in settings {
        let key: String = key.extract()?;
        match value.cast::<PyDict>() {
            Ok(section) if key == SECTION => add(sources, section)?,
            _ => {
                let key = known(&key).map_err(raise)?;
                sources.flags.push((key, key, text(&value)?));
            }
        }
    }
    Ok(())
}

/// Returns the whole name of a key.
pub fn known(key: &str) -> melisma::Result<&'static str> {
    let short = |known: &'static str| known.strip_prefix(SECTION).and_then(|rest| rest.strip_prefix('.'));
    let fronts = [melisma_server::Config::KEYS, upstream::Config::KEYS, speak::Config::KEYS].concat();
    let keys = || [Config::KEYS, &fronts].concat().into_iter();
    let found = keys().find(|known| *known == key || short(known) == Some(key));
    found.ok_or_else(|| {
        let error = Error::invalid(format!("config: the key `{key}` does not exist"));
        match nearest(key, keys().map(|known| short(known).unwrap_or(known))) {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error.with_hint(format!("the keys are {}", keys().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// Writes a value as settings do.
pub fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.cast::<PyBool>() {
        Ok(value) => Ok(value.is_true().to_string()),
        Err(_) => Ok(value.str()?.to_string()),
    }
}
