//! A hash of everything that the speech of a model depends on: files of its folder, and settings.

use serde_json::Value;

use super::{FILE_NAME, Speaker};
use crate::format::hash;
use crate::llama::{Builtin, Source};
use crate::{Error, Result};

impl Speaker {
    /// Returns 64 hexadecimal digits of a hash over the model's files: `config.json`, `tokenizer.json`, `speak.yaml`,
    /// weights and their index, and over the settings that win over `speak.yaml`. `threads` threads read them.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn hash(&self, threads: usize) -> Result<String> {
        if let Source::Builtin(builtin) = Source::find(self.folder())? {
            return Ok(self.hash_of(builtin));
        }
        let failed = |error| Error::io(self.folder().display(), error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.folder()).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let is_weight = name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
            if is_weight || ["config.json", "tokenizer.json", FILE_NAME].contains(&name.as_str()) {
                names.push(name);
            }
        }
        names.sort();
        let mut whole = blake3::Hasher::new_derive_key("melisma voice model v1");
        for name in names {
            whole.update(&(name.len() as u64).to_le_bytes());
            whole.update(name.as_bytes());
            whole.update(hash::file(self.folder().join(name), threads)?.as_bytes());
        }
        Ok(self.with_settings(whole))
    }

    /// Returns the hash of the built-in voice.
    fn hash_of(&self, builtin: Builtin) -> String {
        let mut whole = blake3::Hasher::new_derive_key("melisma built-in voice v1");
        let texts = builtin.texts.iter().map(|(_, text)| text.as_bytes());
        for bytes in texts.chain(builtin.shards) {
            whole.update(blake3::hash(bytes).as_bytes());
        }
        self.with_settings(whole)
    }

    /// Returns the hash with the settings that win over the model's own.
    fn with_settings(&self, mut whole: blake3::Hasher) -> String {
        let given = self.config().given();
        if !given.is_empty() {
            whole.update(Value::Object(given).to_string().as_bytes());
        }
        whole.finalize().to_hex().to_string()
    }
}
