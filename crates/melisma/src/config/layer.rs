//! Merges the layers of settings.

use std::path::{Path, PathBuf};

use super::environment::variable;
use super::section::known_keys;
use super::{Config, Environment, Origin, Raw, Section, Setting, Sources, file, nearest};
use crate::config::profile::Profile;
use crate::{Error, ErrorKind, Remedy, Result};

/// The name of the configuration file.
pub const FILE_NAME: &str = "melisma.yaml";

/// The value of a key in one layer.
#[derive(Debug)]
struct Given {
    key: String,
    raw: Raw,
    origin: Origin,
}

/// The file, the environment and the flags, with the keys of every [`Section`].
#[derive(Debug)]
pub struct Layers {
    file: Option<PathBuf>,
    given: Vec<Given>,
    environment: Environment,
}

impl Layers {
    /// Reads all layers.
    ///
    /// # Errors
    /// A named file does not exist or is not YAML, or a key is unknown or duplicate. The message
    /// names the file and line, the variable or the flag.
    pub fn read(sources: &Sources) -> Result<Self> {
        let known = known_keys();
        let file = find_file(sources)?;
        let mut given = match &file {
            Some(path) => from_file(path, &known)?,
            None => Vec::new(),
        };
        given.extend(from_environment(&sources.environment, &known)?);
        for (key, flag, text) in &sources.flags {
            let (raw, origin) = (Raw::Word(text.clone()), Origin::Flag(flag));
            if !known.contains(key) {
                return Err(unknown(key, &raw, &known).at(origin));
            }
            given.push(Given { key: (*key).to_owned(), raw, origin });
        }
        Ok(Self { file, given, environment: sources.environment.clone() })
    }

    /// Returns the settings of one crate.
    ///
    /// # Errors
    /// A value has the wrong type or range. This applies to every layer, even if a later one
    /// overrides it. The message names the file and line, the variable or the flag.
    pub fn section<S: Section>(&self) -> Result<S> {
        let mut section = S::default();
        self.give(&mut section)?;
        Ok(section)
    }

    fn give<S: Section>(&self, section: &mut S) -> Result<()> {
        let mut given = self.given.iter().filter(|given| S::KEYS.contains(&given.key.as_str()));
        given.try_for_each(|given| give(section, given))
    }
}

fn give<S: Section>(section: &mut S, given: &Given) -> Result<()> {
    section.set(&given.key, &given.raw, given.origin.clone()).map_err(|error| match &given.origin {
        Origin::File { .. } => error.at(format!("{}: `{}`", given.origin, given.key)),
        _ => error.at(&given.origin),
    })
}

impl Config {
    /// Reads and merges all layers.
    ///
    /// # Errors
    /// A named file does not exist or is not YAML, a key is unknown or duplicate, or a value has
    /// the wrong type or range. This applies to every layer, even if a later one overrides it. The
    /// message names the file and line, the variable or the flag.
    pub fn load(sources: &Sources) -> Result<Self> {
        Self::of(&Layers::read(sources)?)
    }

    /// Returns the library's settings in `layers`, over those of the profile.
    ///
    /// # Errors
    /// A value has the wrong type or range.
    #[doc(hidden)]
    pub fn of(layers: &Layers) -> Result<Self> {
        let mut config = Self { file: layers.file.clone(), ..Self::default() };
        for profile in layers.given.iter().filter(|given| given.key == "profile") {
            give(&mut config, profile)?;
        }
        let profile = config.profile.value;
        for (key, value) in profile.values() {
            let origin = Origin::Profile(profile);
            give(&mut config, &Given { key: (*key).to_owned(), raw: Raw::Word((*value).to_owned()), origin })?;
        }
        layers.give(&mut config)?;
        config.complete(&layers.environment);
        Ok(config)
    }

    /// Returns the defaults under `profile`, without a file or the environment.
    ///
    /// # Errors
    /// Never for the existing profiles.
    pub fn with_profile(profile: Profile) -> Result<Self> {
        let flags = vec![("profile", "profile", profile.to_string())];
        Self::load(&Sources { flags, ..Sources::default() })
    }

    /// Returns the settings under `flags` alone.
    #[cfg(test)]
    pub(crate) fn of_flags(flags: &[(&'static str, &str)]) -> Self {
        let flags = flags.iter().map(|(key, value)| (*key, "--test", (*value).to_owned())).collect();
        Self::load(&Sources { flags, ..Sources::default() }).unwrap()
    }

    /// Returns the settings from this process's file and environment, under the profile called
    /// `name`.
    ///
    /// # Errors
    /// The profile is unknown, and as [`Config::load`].
    pub fn load_with_profile(name: &str) -> Result<Self> {
        let flags = vec![("profile", "profile", name.to_owned())];
        Self::load(&Sources { environment: Environment::process(), flags, ..Sources::default() })
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

/// Returns the file that is read if none is named, whether or not it exists.
pub fn default_file(environment: &Environment) -> Option<PathBuf> {
    environment.directory("XDG_CONFIG_HOME", ".config").map(|directory| directory.join(FILE_NAME))
}

fn from_file(path: &Path, known: &[&str]) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for file::Line { key, raw, line } in file::read(path)? {
        let origin = Origin::File { path: path.to_owned(), line };
        if !known.contains(&key.as_str()) {
            return Err(unknown(&key, &raw, known).at(origin));
        }
        given.push(Given { key, raw, origin });
    }
    Ok(given)
}

fn unknown(key: &str, raw: &Raw, known: &[&str]) -> Error {
    let section = format!("{key}.");
    if known.iter().any(|known| known.starts_with(&section)) {
        return Error::invalid(format!("`{key}` is a section, not a value ({raw:?})"))
            .with_hint(format!("put its keys below it, indented: {}", below(&section, known)));
    }
    let error = Error::invalid(format!("the key `{key}` does not exist"));
    let inner = format!(".{key}");
    if let Some(section) = known.iter().find_map(|known| known.strip_suffix(inner.as_str())) {
        return error.with_hint(format!("it belongs under `{section}:`, indented below it"));
    }
    let (head, _) = key.split_at(key.find('.').map_or(0, |dot| dot + 1));
    match nearest(key, known.iter().copied()) {
        Some(known) => error.with_hint(format!("did you mean `{known}`?")),
        None => error.with_hint(format!("the keys here are {}", below(head, known))),
    }
}

/// Returns the keys directly in `section`, which is empty or ends with a dot.
fn below(section: &str, known: &[&str]) -> String {
    let mut keys: Vec<&str> = known
        .iter()
        .filter_map(|key| key.strip_prefix(section))
        .map(|key| key.split_once('.').map_or(key, |(section, _)| section))
        .collect();
    keys.dedup();
    if keys.is_empty() { below("", known) } else { keys.join(", ") }
}

fn from_environment(environment: &Environment, known: &[&str]) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for key in known {
        let name = variable(key);
        if let Some(text) = environment.text(&name)? {
            given.push(Given { key: (*key).to_owned(), raw: Raw::Word(text.to_owned()), origin: Origin::Env(name) });
        }
    }
    Ok(given)
}
