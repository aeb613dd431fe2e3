//! Merges the layers of settings.

use std::path::{Path, PathBuf};

use super::environment::variable;
use super::{Config, Environment, KEYS, Origin, Raw, Setting, Sources, file, nearest};
use crate::config::profile::Profile;
use crate::{Error, ErrorKind, Remedy, Result};

/// The name of the configuration file.
pub const FILE_NAME: &str = "melisma.yaml";

/// The value of a key in one layer.
struct Given {
    key: String,
    raw: Raw,
    origin: Origin,
}

impl Config {
    /// Reads and merges all layers.
    ///
    /// # Errors
    /// A named file does not exist or is not YAML, a key is unknown or duplicate, or a value has
    /// the wrong type or range. This applies to every layer, even if a later one overrides it. The
    /// message names the file and line, the variable or the flag.
    pub fn load(sources: &Sources) -> Result<Self> {
        let file = find_file(sources)?;
        let mut given = match &file {
            Some(path) => from_file(path)?,
            None => Vec::new(),
        };
        given.extend(from_environment(&sources.environment)?);
        given.extend(sources.flags.iter().map(|(key, flag, text)| Given {
            key: (*key).to_owned(),
            raw: Raw::Word(text.clone()),
            origin: Origin::Flag(flag),
        }));

        let mut config = Self { file, ..Self::default() };
        for profile in given.iter().filter(|given| given.key == "profile") {
            config.give(profile)?;
        }
        let profile = config.profile.value;
        for (key, value) in profile.values() {
            let origin = Origin::Profile(profile);
            config.give(&Given { key: (*key).to_owned(), raw: Raw::Word((*value).to_owned()), origin })?;
        }
        for value in &given {
            config.give(value)?;
        }
        config.complete(&sources.environment);
        Ok(config)
    }

    /// The defaults under `profile`, without a file or the environment.
    ///
    /// # Errors
    /// Never for the existing profiles.
    pub fn with_profile(profile: Profile) -> Result<Self> {
        let flags = vec![("profile", "profile", profile.to_string())];
        Self::load(&Sources { flags, ..Sources::default() })
    }

    /// The settings from this process's file and environment, under the profile called `name`.
    ///
    /// # Errors
    /// The profile is unknown, and as [`Config::load`].
    pub fn load_with_profile(name: &str) -> Result<Self> {
        let flags = vec![("profile", "profile", name.to_owned())];
        Self::load(&Sources { environment: Environment::process(), flags, ..Sources::default() })
    }

    fn give(&mut self, given: &Given) -> Result<()> {
        self.set(&given.key, &given.raw, given.origin.clone()).map_err(|error| match &given.origin {
            Origin::File { .. } => error.at(format!("{}: `{}`", given.origin, given.key)),
            _ => error.at(&given.origin),
        })
    }

    fn complete(&mut self, environment: &Environment) {
        if self.cache_dir.value.is_none() {
            let value = environment.directory("XDG_CACHE_HOME", ".cache");
            self.cache_dir = Setting { value, origin: Origin::Default };
        }
    }
}

fn find_file(sources: &Sources) -> Result<Option<PathBuf>> {
    let named = sources.file.clone().or_else(|| sources.environment.path("MELISMA_CONFIG"));
    match named {
        Some(path) if path.exists() && !path.is_dir() => Ok(Some(path)),
        Some(path) => {
            Err(Error::new(ErrorKind::InvalidArgument, format!("{}: no such configuration file", path.display()))
                .with_hint(Remedy::CheckConfigFile))
        }
        None => Ok(default_file(&sources.environment).filter(|path| path.is_file())),
    }
}

/// The file that is read if none is named, whether or not it exists.
pub fn default_file(environment: &Environment) -> Option<PathBuf> {
    environment.directory("XDG_CONFIG_HOME", ".config").map(|directory| directory.join(FILE_NAME))
}

fn from_file(path: &Path) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for file::Line { key, raw, line } in file::read(path)? {
        let origin = Origin::File { path: path.to_owned(), line };
        if !KEYS.contains(&key.as_str()) {
            return Err(unknown(&key, &raw).at(origin));
        }
        given.push(Given { key, raw, origin });
    }
    Ok(given)
}

fn unknown(key: &str, raw: &Raw) -> Error {
    let section = format!("{key}.");
    if KEYS.iter().any(|known| known.starts_with(&section)) {
        return Error::invalid(format!("`{key}` is a section, not a value ({raw:?})"))
            .with_hint(format!("put its keys below it, indented: {}", below(&section)));
    }
    let error = Error::invalid(format!("the key `{key}` does not exist"));
    let inner = format!(".{key}");
    if let Some(section) = KEYS.iter().find_map(|known| known.strip_suffix(inner.as_str())) {
        return error.with_hint(format!("it belongs under `{section}:`, indented below it"));
    }
    let (head, _) = key.split_at(key.find('.').map_or(0, |dot| dot + 1));
    match nearest(key, KEYS.iter().copied()) {
        Some(known) => error.with_hint(format!("did you mean `{known}`?")),
        None => error.with_hint(format!("the keys here are {}", below(head))),
    }
}

/// The keys directly in `section`, which is empty or ends with a dot.
fn below(section: &str) -> String {
    let mut keys: Vec<&str> = KEYS
        .iter()
        .filter_map(|key| key.strip_prefix(section))
        .map(|key| key.split_once('.').map_or(key, |(section, _)| section))
        .collect();
    keys.dedup();
    if keys.is_empty() { below("") } else { keys.join(", ") }
}

fn from_environment(environment: &Environment) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for key in KEYS {
        let name = variable(key);
        if let Some(text) = environment.text(&name)? {
            given.push(Given { key: (*key).to_owned(), raw: Raw::Word(text.to_owned()), origin: Origin::Env(name) });
        }
    }
    Ok(given)
}
