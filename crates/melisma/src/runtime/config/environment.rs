//! The environment as a value, so that tests and servers can give their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{Error, Result};

/// Variables by name; an empty one counts as unset.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, std::ffi::OsString>);

impl Environment {
    /// Those of this process.
    pub fn process() -> Self {
        Self(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect())
    }

    /// These and no others.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    /// The text of `name`.
    ///
    /// # Errors
    /// When it is not UTF-8.
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

    /// `melisma` under the directory in `variable`, else under `fallback` in the home directory.
    pub(super) fn directory(&self, variable: &str, fallback: &str) -> Option<PathBuf> {
        let absolute = self.path(variable).filter(|path| path.is_absolute());
        absolute.or_else(|| Some(self.path("HOME")?.join(fallback))).map(|base| base.join("melisma"))
    }
}
