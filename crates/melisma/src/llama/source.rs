//! Where a model's files lie: in a folder, or in the program.

use std::path::Path;

use crate::format::read_text;
use crate::{Error, Result};

/// The name of the voice that is part of this library.
pub(crate) const BUILTIN: &str = "builtin:voice";

/// Where the files of a model lie.
pub(crate) enum Source<'a> {
    /// The voice that is part of this library.
    Builtin(Builtin),
    Folder(&'a Path),
}

/// The files of the voice that is part of this library.
pub(crate) struct Builtin {
    /// Names and texts.
    pub(crate) texts: [(&'static str, &'static str); 3],
    /// Packed safetensors files.
    pub(crate) shards: [&'static [u8]; 2],
}

impl<'a> Source<'a> {
    /// Finds `builtin:voice`, or takes the path of a folder.
    ///
    /// # Errors
    /// There is no such built-in voice, or this build has none.
    pub(crate) fn find(path: &'a Path) -> Result<Self> {
        match path.to_str().and_then(|name| name.strip_prefix("builtin:")) {
            None => Ok(Self::Folder(path)),
            Some("voice") => builtin().map(Self::Builtin),
            Some(_) => Err(Error::invalid(format!("{}: unknown built-in voice model", path.display()))
                .with_hint(format!("{BUILTIN} is the only one"))),
        }
    }

    /// Returns the text of one of the files, which may have up to `most` bytes.
    ///
    /// # Errors
    /// `Io` when it cannot be read; it is longer, or not text.
    pub(crate) fn text(&self, name: &str, most: u64) -> Result<String> {
        match self {
            Self::Folder(folder) => read_text(&folder.join(name), most),
            Self::Builtin(builtin) => {
                let text = builtin.texts.iter().find(|(own, _)| *own == name);
                let text = text.ok_or_else(|| Error::invalid(format!("{BUILTIN} has no {name}")))?;
                Ok(text.1.to_owned())
            }
        }
    }

    /// Returns whether one of the files is there.
    #[cfg(feature = "speak")]
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Folder(folder) => folder.join(name).is_file(),
            Self::Builtin(builtin) => builtin.texts.iter().any(|(own, _)| *own == name),
        }
    }
}

#[cfg(feature = "voice")]
fn builtin() -> Result<Builtin> {
    use melisma_voice::voice;
    let texts = [("config.json", voice::CONFIG), ("speak.yaml", voice::SPEAK), ("tokenizer.json", voice::TOKENIZER)];
    Ok(Builtin { texts, shards: voice::shards() })
}

#[cfg(not(feature = "voice"))]
fn builtin() -> Result<Builtin> {
    Err(Error::unsupported(format!("{BUILTIN}: this build has no built-in voice"))
        .with_hint("name a voice model's folder, or build with the feature `voice`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str) -> String {
        let error = Source::find(Path::new(name)).err().unwrap();
        format!("{error}; {}", error.hint().unwrap())
    }

    #[test]
    fn only_one_voice_is_built_in() {
        assert!(matches!(Source::find(Path::new("voices/ann")), Ok(Source::Folder(_))));
        let unknown = refused("builtin:mini24");
        assert!(unknown.starts_with("builtin:mini24: unknown built-in voice model; builtin:voice is the"), "{unknown}");
    }

    #[cfg(feature = "voice")]
    #[test]
    fn the_files_of_the_voice_are_there_without_a_folder() {
        let source = Source::find(Path::new(BUILTIN)).unwrap();
        assert!(source.text("config.json", 1 << 20).unwrap().contains("LlamaForCausalLM"));
        assert!(source.text("model.safetensors", 1 << 20).is_err());
    }

    #[cfg(not(feature = "voice"))]
    #[test]
    fn a_build_without_the_voice_says_so() {
        let missing = refused(BUILTIN);
        assert!(missing.starts_with("builtin:voice: this build has no built-in voice; name a voice"), "{missing}");
    }
}
