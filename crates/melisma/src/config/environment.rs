//! The environment as a value, so that tests and servers can provide their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{KEYS, nearest};
use crate::{Error, Result};

/// Prefix of our variables.
const PREFIX: &str = "MELISMA_";
/// Prefixes of variables for tests and benchmarks.
const INTERNAL: [&str; 3] = ["MELISMA_BENCH_", "MELISMA_SHIM_", "MELISMA_TEST_"];
/// Variables that do not mirror a setting.
const OTHERS: [&str; 21] = [
    "MELISMA_ALLOW_HOST",
    "MELISMA_ALLOW_ORIGIN",
    "MELISMA_API_KEY",
    "MELISMA_API_KEY_FILE",
    "MELISMA_CONFIG",
    "MELISMA_CUDA_PATH",
    "MELISMA_HOST",
    "MELISMA_ISA",
    "MELISMA_JSON",
    "MELISMA_MAX_STREAMS",
    "MELISMA_MODEL",
    "MELISMA_NVTX",
    "MELISMA_ONNXRUNTIME",
    "MELISMA_PORT",
    "MELISMA_PRINT_CONFIG",
    "MELISMA_PYTHON",
    "MELISMA_SHIM",
    "MELISMA_SOUNDFONT",
    "MELISMA_UPSTREAM",
    "MELISMA_UPSTREAM_KEY",
    "MELISMA_UPSTREAM_KEY_FILE",
];

/// Variables by name; an empty one counts as unset.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, std::ffi::OsString>);

impl Environment {
    /// The variables of this process.
    pub fn process() -> Self {
        Self(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect())
    }

    /// Only these variables.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// The text of `name`.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.0.get(name).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => match value.to_str() {
                Some(text) => Ok(Some(text)),
                None => Err(Error::invalid(format!("{name}: the value is not UTF-8"))),
            },
        }
    }

    /// The path in `name`.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Variables with our prefix that nothing reads, each with the known name that was probably
    /// meant.
    pub fn misspelt(&self) -> Vec<(&str, String)> {
        let known: Vec<String> =
            KEYS.iter().map(|key| variable(key)).chain(OTHERS.iter().map(|&name| name.into())).collect();
        // The common prefix is removed, because it would make all names look similar.
        let bare = |name: &str| name.strip_prefix(PREFIX).map(str::to_lowercase);
        let words: Vec<String> = known.iter().filter_map(|name| bare(name)).collect();
        let is_known = |name: &String| known.contains(name) || INTERNAL.iter().any(|prefix| name.starts_with(prefix));
        let ours = self.0.keys().filter(|name| !is_known(name));
        let meant =
            |name| Some(format!("{PREFIX}{}", nearest(&bare(name)?, words.iter().map(String::as_str))?.to_uppercase()));
        ours.filter_map(|name| Some((name.as_str(), meant(name)?))).collect()
    }

    /// `melisma` below the directory in `variable`, otherwise below `fallback` in the home
    /// directory.
    pub(super) fn directory(&self, variable: &str, fallback: &str) -> Option<PathBuf> {
        let absolute = self.path(variable).filter(|path| path.is_absolute());
        absolute.or_else(|| Some(self.path("HOME")?.join(fallback))).map(|base| base.join("melisma"))
    }
}

/// The environment variable of `key`.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}
