//! Where a model's files lie.

use std::path::{Path, PathBuf};

use super::builtin::{self, MINI24, SOLO24};
use super::config::Config;
use crate::{Error, Result, pack};

const WEIGHT_FILES: [&str; 3] = ["model.safetensors", "model.packed.safetensors", "pytorch_model.bin"];

/// What the name of a model stands for.
pub(super) enum Source {
    /// A model that is part of this library, by its name.
    Builtin(&'static str),
    /// Two files of one folder.
    Files { config: PathBuf, weights: PathBuf },
}

impl Source {
    /// Opens `builtin:mini24`, a folder, or a file of weights.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let source = path.display();
        if let Some(name) = path.to_str().and_then(|source| source.strip_prefix("builtin:")) {
            return match name {
                "mini24" => Ok(Self::Builtin(MINI24)),
                "solo24" => Ok(Self::Builtin(SOLO24)),
                _ => Err(Error::invalid(format!("{source}: unknown built-in model"))
                    .with_hint(format!("the built-in codecs are {MINI24} and {SOLO24}"))),
            };
        }
        // A pipe or a device file may never end.
        if std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
            return Err(Error::invalid(format!("{source}: this is neither a file nor a folder")));
        }
        if !path.is_dir() {
            let config = path.parent().unwrap_or(Path::new("")).join("config.json");
            return Ok(Self::Files { config, weights: path.to_owned() });
        }
        let weights = match WEIGHT_FILES.iter().map(|name| path.join(name)).find(|file| file.is_file()) {
            Some(weights) => Some(weights),
            None => pack::only_weights(path)?,
        };
        let missing = || Error::invalid(format!("{source}: no model.safetensors or pytorch_model.bin in this folder"));
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
            Source::Builtin(name) => Self::from_json(builtin::open(name)?.config),
            Source::Files { config, .. } => Self::from_json(&read_config(&config)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;

    fn weights(names: &[&str]) -> Result<String> {
        weights_among(names, &[])
    }

    /// Returns the weights that are found among files that hold nothing, and others that are packed.
    fn weights_among(names: &[&str], packed: &[&str]) -> Result<String> {
        let folder = tempfile::tempdir().map_err(|error| Error::io("a folder", error))?;
        for name in names {
            std::fs::write(folder.path().join(name), b"x").map_err(|error| Error::io(*name, error))?;
        }
        for name in packed {
            let bytes = pack::compress(&pack::Array::new(&[0f32; 8], &[8])?, &Budget::unlimited())?;
            std::fs::write(folder.path().join(name), bytes).map_err(|error| Error::io(*name, error))?;
        }
        match Source::find(folder.path())? {
            Source::Files { weights, .. } => Ok(weights.file_name().unwrap_or_default().to_string_lossy().into_owned()),
            Source::Builtin(name) => Ok(name.to_owned()),
        }
    }

    #[test]
    fn packed_weights_are_found_under_any_name() {
        assert_eq!(weights(&["config.json", "voice.packed.safetensors"]).unwrap(), "voice.packed.safetensors");
        let both = ["voice.packed.safetensors", "pytorch_model.bin"];
        assert_eq!(weights(&both).unwrap(), "pytorch_model.bin", "the usual names come first");
        let several = ["b.packed.safetensors", "a.packed.safetensors", "config.json"];
        let error = weights(&several).unwrap_err().to_string();
        assert!(error.ends_with(": several packed models: a.packed.safetensors, b.packed.safetensors"), "{error}");
        assert!(weights(&["voice.safetensors"]).unwrap_err().to_string().contains("no model.safetensors"));
        let hidden = weights_among(&["config.json", "plain.safetensors"], &["tuned.safetensors"]).unwrap();
        assert_eq!(hidden, "tuned.safetensors");
        let named = weights_among(&["voice.packed.safetensors"], &["tuned.safetensors"]).unwrap();
        assert_eq!(named, "voice.packed.safetensors", "a name that says so comes first");
        let error = weights_among(&[], &["b.safetensors", "a.safetensors", "notes.bin"]).unwrap_err().to_string();
        assert!(error.ends_with(": several packed models: a.safetensors, b.safetensors"), "{error}");
    }
}
