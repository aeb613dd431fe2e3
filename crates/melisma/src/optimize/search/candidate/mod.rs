//! The candidates: engines, precisions, threads and chunks, as the profile allows.

pub(super) mod bound;
pub(super) mod chunk;
pub(super) mod engines;
pub(super) mod prepare;
mod settings;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use chunk::Chunk;
pub use settings::EngineSettings;

use crate::config::precision::{Format, Lowering};
use crate::config::{Config, Origin, Policy, Profile};
use crate::engine::{EngineName, Options};
use crate::text::count;
use crate::text::word::words;
use crate::{Error, Remedy, Result};

/// How far precision may drop. A lower precision wins only if it is clearly faster and within the
/// tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wanted {
    /// Not at all.
    Fp32,
    /// To FP16.
    Fp16,
    /// To INT8 weights.
    Int8,
    /// To whichever is fastest.
    Auto,
    /// To FP16 on a GPU and to INT8 on a CPU; only settings request this.
    Mixed,
}

impl Wanted {
    /// Returns the precision from the settings, used if no flag names one. `mixed_precision: true`
    /// means [`Wanted::Mixed`] unless the user also set `target_precision`.
    ///
    /// # Errors
    /// `Unsupported` for BF16, in which no engine computes models.
    pub fn of(config: &Config) -> Result<Self> {
        let policy = Policy::new(config);
        let is_mixed = config.enabled.value && config.mixed_precision.value;
        let has_target = !matches!(config.target_precision.origin, Origin::Default | Origin::Profile(_));
        let no_bf16 = || {
            Error::unsupported("no engine runs ONNX models in bf16")
                .with_hint(Remedy::use_precision(&["fp32", "fp16", "int8", "auto"]))
                .or_hint("change precision or target_precision")
        };
        if config.enabled.value && has_target && config.target_precision.value == Format::Bf16 {
            return Err(no_bf16());
        }
        match policy.precision.engine {
            Lowering::To(Format::Bf16) => Err(no_bf16()),
            Lowering::To(_) if is_mixed && !has_target => Ok(Self::Mixed),
            Lowering::Never | Lowering::To(Format::Fp32) => Ok(Self::Fp32),
            Lowering::To(Format::Fp16) => Ok(Self::Fp16),
            Lowering::To(Format::Int8) => Ok(Self::Int8),
            Lowering::Auto => Ok(Self::Auto),
        }
    }

    /// Returns the formats to try with `engine`.
    pub(super) fn formats(self, profile: Profile, engine: EngineName) -> &'static [Format] {
        match self {
            _ if profile == Profile::Training => &[Format::Fp32],
            Self::Fp32 => &[Format::Fp32],
            Self::Fp16 => &[Format::Fp32, Format::Fp16],
            Self::Mixed if engine.is_on_gpu() => &[Format::Fp32, Format::Fp16],
            Self::Int8 | Self::Mixed => &[Format::Fp32, Format::Int8],
            Self::Auto => &[Format::Fp32, Format::Fp16, Format::Int8],
        }
    }

    /// Returns whether an engine in `format` is allowed: INT8 also allows every higher precision.
    pub(super) fn allows(self, profile: Profile, engine: EngineName, format: Format) -> bool {
        let is_above = self == Self::Int8 && profile != Profile::Training && format == Format::Fp16;
        is_above || self.formats(profile, engine).contains(&format)
    }
}

words!(
    Wanted,
    "precision",
    { Fp32 => "fp32", Fp16 => "fp16", Int8 => "int8", Auto => "auto" },
    only shown { Mixed => "mixed" }
);

/// One way to run a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Candidate {
    /// The engine.
    pub engine: EngineName,
    /// The format of weights.
    #[serde(with = "format")]
    pub precision: Format,
    /// CPU threads; 0 if the engine chooses.
    pub threads: usize,
    /// How much of the long axis is computed at once.
    #[serde(default)]
    pub chunk: Chunk,
}

impl Candidate {
    /// Returns `engine` with weights in `precision` on `threads` CPU threads, in pieces of `chunk`.
    pub fn new(engine: EngineName, precision: Format, threads: usize, chunk: Chunk) -> Self {
        Self { engine, precision, threads, chunk }
    }

    /// Returns the options for the engine.
    pub fn options(&self) -> Options {
        Options { threads: self.threads, precision: self.precision, ..Options::default() }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = match self.threads {
            0 => "its own threads".to_owned(),
            threads => count(threads as u64, "thread"),
        };
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

/// Returns the thread counts to try: the maximum, and fewer if the profile leaves a choice.
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
        assert_eq!(Wanted::of(&config).unwrap(), Wanted::Fp32);
        assert_eq!(Wanted::Fp32.formats(Profile::Emergency, EngineName::Rten), [Format::Fp32]);
        assert_eq!(Wanted::Auto.formats(Profile::Training, EngineName::Rten), [Format::Fp32], "training keeps FP32");
        assert_eq!(Wanted::Auto.formats(Profile::Field, EngineName::Rten).len(), 3);
        let training = Config::with_profile(Profile::Training).unwrap();
        assert_eq!(threads(&training), [1]);
    }

    #[test]
    fn mixed_precision_means_fp16_on_a_gpu_and_int8_on_a_cpu() {
        let of = |flags: &[(&'static str, &str)]| Wanted::of(&Config::of_flags(flags)).unwrap();
        let mixed = ("tensor_optimizations.mixed_precision", "true");
        let target = "tensor_optimizations.target_precision";
        assert_eq!(of(&[mixed]), Wanted::Mixed);
        assert_eq!(of(&[mixed, (target, "fp16")]), Wanted::Fp16, "what the user writes counts");
        assert_eq!(of(&[mixed, (target, "int8")]), Wanted::Int8);
        assert_eq!(of(&[mixed, ("tensor_optimizations.enabled", "false")]), Wanted::Fp32);
        assert_eq!(of(&[(target, "int8")]), Wanted::Fp32);
        let formats = |engine| Wanted::Mixed.formats(Profile::Field, engine);
        for engine in [EngineName::Rten, EngineName::MelismaChain, EngineName::Onnxruntime] {
            assert_eq!(formats(engine), [Format::Fp32, Format::Int8], "{engine}");
        }
        for engine in [EngineName::OnnxruntimeCuda, EngineName::OnnxruntimeTensorrt] {
            assert_eq!(formats(engine), [Format::Fp32, Format::Fp16], "{engine}");
        }
    }

    #[test]
    fn a_precision_allows_what_is_not_below_it() {
        let all = [Format::Fp32, Format::Fp16, Format::Int8];
        let allowed = |wanted: Wanted, profile| all.map(|format| wanted.allows(profile, EngineName::Rten, format));
        assert_eq!(allowed(Wanted::Fp32, Profile::Field), [true, false, false]);
        assert_eq!(allowed(Wanted::Fp16, Profile::Field), [true, true, false]);
        assert_eq!(allowed(Wanted::Int8, Profile::Field), [true, true, true]);
        assert_eq!(allowed(Wanted::Auto, Profile::Field), [true, true, true]);
        assert_eq!(allowed(Wanted::Int8, Profile::Training), [true, false, false]);
    }

    #[test]
    fn candidates_survive_json() {
        let candidate =
            Candidate { engine: EngineName::Rten, precision: Format::Int8, threads: 2, chunk: Chunk::Of(64) };
        let json = serde_json::to_string(&candidate).unwrap();
        assert_eq!(serde_json::from_str::<Candidate>(&json).unwrap(), candidate);
        assert_eq!(candidate.to_string(), "rten, int8, 2 threads, chunks of 64");
        let default = Candidate::new(EngineName::Onnxruntime, Format::Fp32, 0, Chunk::Own);
        assert_eq!(default.to_string(), "onnxruntime, fp32, its own threads");
    }
}
