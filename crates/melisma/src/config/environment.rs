//! The environment as a value, so that tests and servers can provide their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{Error, Result};

/// Prefix of our variables.
const PREFIX: &str = "MELISMA_";
/// Variables by name; an empty one counts as unset.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, std::ffi::OsString>);

impl Environment {
    /// Returns the variables of this process.
    pub fn process() -> Self {
        Self(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect())
    }

    /// Creates an environment of these variables alone.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// Returns the text of `name`.
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

    /// Returns the path in `name`.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Returns the names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns `melisma` below the directory in `variable`, otherwise below `fallback` in the home
    /// directory.
    pub(super) fn directory(&self, variable: &str, fallback: &str) -> Option<PathBuf> {
        let absolute = self.path(variable).filter(|path| path.is_absolute());
        absolute.or_else(|| Some(self.path("HOME")?.join(fallback))).map(|base| base.join("melisma"))
    }
}

/// Returns the environment variable of `key`.
pub fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}
