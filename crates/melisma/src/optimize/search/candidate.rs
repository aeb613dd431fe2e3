//! What is tried: engines, precisions, threads and chunks, as the profile allows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::chunk::Chunk;
use crate::optimize::engine::Options;
use crate::runtime::precision::{Format, Lowering};
use crate::runtime::{Config, Policy, Profile};
use crate::{Error, Result};

/// How far precision may be lowered. Lower ones win only when they are faster and inside of the tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Not at all.
    Fp32,
    /// To FP16.
    Fp16,
    /// To INT8 weights.
    Int8,
    /// To whichever is fastest.
    Auto,
}

impl Wanted {
    /// What the settings ask for where no flag does: `mixed_precision: true` and `precision` are requests to lower.
    pub fn of(policy: &Policy) -> Self {
        match policy.precision.engine {
            Lowering::Never | Lowering::To(Format::Fp32 | Format::Bf16) => Self::Fp32,
            Lowering::To(Format::Fp16) => Self::Fp16,
            Lowering::To(Format::Int8) => Self::Int8,
            Lowering::Auto => Self::Auto,
        }
    }

    pub(super) fn formats(self, profile: Profile) -> &'static [Format] {
        match self {
            _ if profile == Profile::Training => &[Format::Fp32],
            Self::Fp32 => &[Format::Fp32],
            Self::Fp16 => &[Format::Fp32, Format::Fp16],
            Self::Int8 => &[Format::Fp32, Format::Int8],
            Self::Auto => &[Format::Fp32, Format::Fp16, Format::Int8],
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Int8 => "int8",
            Self::Auto => "auto",
        })
    }
}

impl FromStr for Wanted {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Fp32, Self::Fp16, Self::Int8, Self::Auto];
        let found = all.into_iter().find(|wanted| wanted.to_string() == text);
        found.ok_or_else(|| {
            Error::invalid(format!("`{text}` is not a precision")).with_hint("use fp32, fp16, int8 or auto")
        })
    }
}

/// One way to run a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// The engine's name.
    pub engine: String,
    /// The format of weights.
    #[serde(with = "format")]
    pub precision: Format,
    /// CPU threads.
    pub threads: usize,
    /// How much of the long axis is computed at a time.
    #[serde(default)]
    pub chunk: Chunk,
}

impl Candidate {
    /// What the engine is told.
    pub fn options(&self) -> Options {
        Options { threads: self.threads, precision: self.precision }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        write!(f, "{}, {}, {threads}{}", self.engine, self.precision, self.chunk)
    }
}

mod format {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Format;

    pub fn serialize<S: Serializer>(format: &Format, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(format)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Format, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Numbers of threads to try: all that are allowed, and where the profile leaves a choice, fewer.
pub(super) fn threads(config: &Config) -> Vec<usize> {
    let most = config.threads.value.count();
    match config.profile.value {
        Profile::Emergency | Profile::Training => vec![most],
        Profile::Field => {
            let mut all = vec![most, most / 2, 1];
            all.retain(|threads| *threads > 0);
            all.dedup();
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lowered_without_being_asked_for() {
        let config = Config::default();
        assert_eq!(Wanted::of(&Policy::new(&config)), Wanted::Fp32);
        assert_eq!(Wanted::Fp32.formats(Profile::Emergency), [Format::Fp32]);
        assert_eq!(Wanted::Auto.formats(Profile::Training), [Format::Fp32], "training keeps FP32");
        assert_eq!(Wanted::Auto.formats(Profile::Field).len(), 3);
        let training = Config::with_profile(Profile::Training).unwrap();
        assert_eq!(threads(&training), [1]);
    }

    #[test]
    fn candidates_survive_json() {
        let candidate = Candidate { engine: "rten".into(), precision: Format::Int8, threads: 2, chunk: Chunk::Of(64) };
        let json = serde_json::to_string(&candidate).unwrap();
        assert_eq!(serde_json::from_str::<Candidate>(&json).unwrap(), candidate);
        assert_eq!(candidate.to_string(), "rten, int8, 2 threads, chunks of 64");
    }
}
