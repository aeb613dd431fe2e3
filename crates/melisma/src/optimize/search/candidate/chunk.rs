//! How much of a long signal is computed at once, and which lengths are tried.

use std::fmt;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::policy::Chunking;
use crate::config::{Config, Origin, Policy, Profile};
use crate::engine::EngineName;

/// Chunk length on the long axis for our own engine, which computes nothing twice, when memory
/// matters most.
pub const SMALL_CHUNK: usize = 16;
/// Chunk length on the long axis for other engines, which compute the edges twice.
pub(in crate::optimize::search) const PIECE: usize = 64;

/// How much of the long axis is computed at once. In JSON: null, `"whole"`, or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Chunk {
    /// The engine's default: ours takes steps that fit into the processor's cache, others compute
    /// all of it.
    #[default]
    Own,
    /// All of it.
    Whole,
    /// This many elements.
    Of(usize),
}

impl Chunk {
    /// Returns the lengths that the search tries first for `engine` under these settings.
    pub fn tried(config: &Config, engine: EngineName) -> Vec<Self> {
        Splitting::of(config).chunks(engine)
    }
}

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => Ok(()),
            Self::Whole => f.write_str(", in one piece"),
            Self::Of(len) => write!(f, ", chunks of {len}"),
        }
    }
}

impl Serialize for Chunk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Own => serializer.serialize_none(),
            Self::Whole => serializer.serialize_str("whole"),
            Self::Of(len) => serializer.serialize_u64(*len as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Len(usize),
            Word(String),
        }
        match Option::<Written>::deserialize(deserializer)? {
            None => Ok(Self::Own),
            Some(Written::Len(len)) => Ok(Self::Of(len)),
            Some(Written::Word(word)) if word == "whole" => Ok(Self::Whole),
            Some(Written::Word(word)) => Err(D::Error::invalid_value(Unexpected::Str(&word), &"`whole`")),
        }
    }
}

/// When a signal is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::optimize::search) enum Splitting {
    /// Never.
    Off,
    /// Only if memory requires it, into the longest pieces that fit.
    AsNeeded,
    /// Into short pieces, if the model allows it.
    Short,
    /// Into pieces of this length, if the model allows it.
    Of(usize),
}

impl Splitting {
    /// Returns how candidates are split: `emergency` never splits; otherwise `chunk_large_tensors`
    /// and a user-set `chunk_size` decide.
    pub(in crate::optimize::search) fn of(config: &Config) -> Self {
        let is_written = !matches!(config.chunk_size.origin, Origin::Default | Origin::Profile(_));
        match (config.profile.value, Policy::new(config).chunking) {
            (Profile::Emergency, _) | (_, Chunking::Off) => Self::Off,
            (_, Chunking::Rows(rows)) if is_written => Self::Of(usize::try_from(rows).unwrap_or(usize::MAX)),
            (Profile::Training, _) => Self::Short,
            (Profile::Field, _) => Self::AsNeeded,
        }
    }

    /// Returns the chunks to try first with `engine`.
    pub(in crate::optimize::search) fn chunks(self, engine: EngineName) -> Vec<Chunk> {
        let is_ours = engine.is_ours();
        match self {
            Self::Off if is_ours => vec![Chunk::Whole],
            Self::Off | Self::AsNeeded => vec![Chunk::Own],
            Self::Short if is_ours => vec![Chunk::Of(SMALL_CHUNK), Chunk::Of(4 * SMALL_CHUNK)],
            Self::Short => vec![Chunk::Of(PIECE)],
            Self::Of(len) => vec![Chunk::Of(len)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    #[test]
    fn profiles_and_settings_decide() {
        let of = |flags: &[(&'static str, &str)]| Splitting::of(&Config::of_flags(flags));
        let (on, size) = ("tensor_optimizations.chunk_large_tensors", "tensor_optimizations.chunk_size");
        assert_eq!(of(&[]), Splitting::AsNeeded);
        assert_eq!(of(&[("profile", "training")]), Splitting::Short);
        assert_eq!(of(&[("profile", "emergency"), (on, "true"), (size, "7")]), Splitting::Off);
        for profile in ["field", "training"] {
            assert_eq!(of(&[("profile", profile), (size, "7")]), Splitting::Of(7));
            assert_eq!(of(&[("profile", profile), (size, "7"), (on, "false")]), Splitting::Off);
        }
        assert_eq!(of(&[(size, "auto")]), Splitting::AsNeeded);
        assert_eq!(Splitting::Off.chunks(EngineName::Melisma), [Chunk::Whole], "its own steps would be chunks");
        assert_eq!(Splitting::Off.chunks(EngineName::Rten), [Chunk::Own]);
        assert_eq!(Splitting::Of(7).chunks(EngineName::Melisma), Splitting::Of(7).chunks(EngineName::Rten));
    }

    /// The file that the tensor tools were specified with, unchanged and with changed keys.
    #[test]
    fn the_original_keys_change_what_is_tried() {
        let seed = crate::golden::TENSOR_OPTIMIZATIONS;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("melisma.yaml");
        let of = |from: &str, to: &str| {
            assert!(seed.contains(from));
            std::fs::write(&path, seed.replace(from, to)).unwrap();
            Splitting::of(&Config::load(&Sources { file: Some(path.clone()), ..Sources::default() }).unwrap())
        };
        assert_eq!(of("chunk_size: 512 ", "chunk_size: 512 "), Splitting::Of(512));
        assert_eq!(of("chunk_size: 512 ", "chunk_size: 64 "), Splitting::Of(64));
        assert_eq!(of("chunk_size: 512 ", "chunk_size: auto"), Splitting::AsNeeded);
        assert_eq!(of("chunk_large_tensors: true", "chunk_large_tensors: false"), Splitting::Off);
        assert_eq!(of("  enabled: true", "  enabled: false"), Splitting::Off);
    }

    #[test]
    fn chunks_survive_json() {
        for (chunk, json) in [(Chunk::Own, "null"), (Chunk::Whole, "\"whole\""), (Chunk::Of(64), "64")] {
            assert_eq!(serde_json::to_string(&chunk).unwrap(), json);
            assert_eq!(serde_json::from_str::<Chunk>(json).unwrap(), chunk);
        }
        assert!(serde_json::from_str::<Chunk>("\"half\"").is_err());
    }
}
