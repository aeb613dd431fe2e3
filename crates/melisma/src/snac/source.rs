//! Where a model's files lie.

use std::path::{Path, PathBuf};

use super::builtin;
use super::config::Config;
use crate::{Error, Result};

const WEIGHT_FILES: [&str; 3] = ["model.safetensors", "model.packed.safetensors", "pytorch_model.bin"];

/// What the name of a model stands for.
pub(super) enum Source {
    /// The small model that is part of this library.
    Mini24,
    /// Two files of one folder.
    Files { config: PathBuf, weights: PathBuf },
}

impl Source {
    /// Opens `builtin:mini24`, a directory, or a file of weights.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let source = path.display();
        if let Some(name) = path.to_str().and_then(|source| source.strip_prefix("builtin:")) {
            return match name {
                "mini24" => Ok(Self::Mini24),
                _ => Err(Error::invalid(format!("{source}: unknown built-in model"))
                    .with_hint("builtin:mini24 is the only one")),
            };
        }
        // A pipe or a device file may never end.
        if std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
            return Err(Error::invalid(format!("{source}: this is neither a file nor a directory")));
        }
        if !path.is_dir() {
            let config = path.parent().unwrap_or(Path::new("")).join("config.json");
            return Ok(Self::Files { config, weights: path.to_owned() });
        }
        let weights = WEIGHT_FILES.iter().map(|name| path.join(name)).find(|file| file.is_file());
        let missing =
            || Error::invalid(format!("{source}: no model.safetensors or pytorch_model.bin in this directory"));
        Ok(Self::Files { config: path.join("config.json"), weights: weights.ok_or_else(missing)? })
    }
}

/// Returns the text of a `config.json`.
pub(super) fn read_config(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::io(path.display(), error).with_hint("the model's config.json belongs beside its weights")
    })
}

impl Config {
    /// Returns the configuration of the model that [`Model::open`](super::Model::open) would open; its weights are
    /// not read.
    ///
    /// # Errors
    /// `Io` when the file cannot be read, or those of [`Config::from_json`].
    pub fn open(source: impl AsRef<Path>) -> Result<Self> {
        match Source::find(source.as_ref())? {
            Source::Mini24 => Self::from_json(builtin::mini24()?.config),
            Source::Files { config, .. } => Self::from_json(&read_config(&config)?),
        }
    }
}
