//! Typed remedies for errors: the library says what to change, and each front says how.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use melisma_kernels::{Remedy as General, Special};
use serde::{Deserialize, Serialize};

use crate::Error;

/// One way to fix the cause of an [`Error`]; [`Remedy::of`] lists those of an error.
///
/// `Display` words it without flags or arguments, for programs that call the library.
// Each front has its own wording for every variant. For them the enum is exhaustive, so a new
// variant does not compile until every front words it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "front"), non_exhaustive)]
pub enum Remedy {
    /// Advice in words.
    Words(String),
    /// A higher memory limit, of at least `least` bytes if that is known: see
    /// [`ContextBuilder::with_memory_limit`](crate::ContextBuilder::with_memory_limit).
    RaiseMemoryLimit {
        /// Bytes that suffice.
        least: Option<u64>,
    },
    /// A lower memory limit, so that the work is split.
    LowerMemoryLimit,
    /// One of these devices.
    UseDevice(Vec<String>),
    /// This engine for ONNX models, or any other engine.
    UseEngine(Option<String>),
    /// One of these precisions.
    UsePrecision(Vec<String>),
    /// A larger tolerance for the error of an engine's outputs.
    RaiseTolerance,
    /// This profile.
    UseProfile(String),
    /// Another value of a setting, written as in the configuration file.
    Set {
        /// The key, without its section.
        key: String,
        /// The value.
        value: String,
    },
    /// A different configuration file, or none.
    CheckConfigFile,
    /// Permission to replace the existing output: [`Existing::Replace`](crate::Existing::Replace).
    Replace,
    /// Permission to replace the files of an earlier build and start over.
    StartOver,
    /// The damaged rows, made again from the audio.
    RepairRows,
    /// The shape of this input of an ONNX model.
    NameInputShape(String),
    /// Real values for the inputs of an ONNX model.
    GiveInputValues,
    /// An engine that the search found and cached for the model.
    OptimizeFirst {
        /// The engine to search with.
        engine: String,
    },
    /// This value of a key of a mel preset.
    SetMel {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Other values of these keys of a mel preset.
    ChangeMel(Vec<String>),
    /// The explanation of all mel presets and keys.
    ExplainMel,
    /// The GPUs and libraries that were found.
    ShowDevices,
    /// Packing the file.
    Pack,
    /// Unpacking the file.
    Unpack,
    /// The file that a delta was made against.
    GiveBase,
    /// Packing all of the file instead of a delta.
    PackWhole,
    /// Unpacking the undamaged tensors one at a time.
    UnpackTensors,
    /// The names of a packed file's tensors.
    ListTensors,
    /// A dataset build, which reads folders.
    BuildDataset,
    /// The same dataset build again, which resumes.
    ResumeBuild,
    /// Listing input files that fail, instead of stopping at the first.
    SkipFailures,
    /// A dataset in several shards: [`Request::with_shard`](crate::dataset::Request::with_shard).
    UseShards,
    /// Merging without the missing shards.
    AllowMissing,
    /// Another column of a table, with the names of the audio files.
    NamePathColumn,
    /// One of these kinds of dataset.
    UseStore(Vec<String>),
    /// Dataset rows of this element type.
    UseRowType(String),
    /// A key that clients of a server must know.
    GiveKey,
    /// The codec that a voice model was trained with.
    NameCodec,
}

impl Remedy {
    /// Returns the known remedies of `error`, best first.
    ///
    /// ```
    /// use melisma::Remedy;
    /// use melisma::mel::Config;
    ///
    /// let error = Config::preset("loud").unwrap_err();
    /// assert!(Remedy::of(&error).contains(&Remedy::ExplainMel));
    /// ```
    pub fn of(error: &Error) -> Vec<Self> {
        error.remedies().iter().map(Self::from).collect()
    }

    /// Advises one of these devices.
    #[doc(hidden)]
    pub fn use_device(names: &[&str]) -> Self {
        Self::UseDevice(owned(names))
    }

    /// Advises this engine for ONNX models.
    #[doc(hidden)]
    pub fn use_engine(name: &str) -> Self {
        Self::UseEngine(Some(name.to_owned()))
    }

    /// Advises one of these precisions.
    #[doc(hidden)]
    pub fn use_precision(names: &[&str]) -> Self {
        Self::UsePrecision(owned(names))
    }

    /// Advises one of these kinds of dataset.
    #[doc(hidden)]
    pub fn use_store(names: &[&str]) -> Self {
        Self::UseStore(owned(names))
    }

    /// Advises another value of a setting.
    #[doc(hidden)]
    pub fn set(key: &str, value: &str) -> Self {
        Self::Set { key: key.to_owned(), value: value.to_owned() }
    }

    /// Advises this value of a key of a mel preset.
    #[doc(hidden)]
    pub fn set_mel(key: &str, value: &str) -> Self {
        Self::SetMel { key: key.to_owned(), value: value.to_owned() }
    }

    /// Advises other values of these keys of a mel preset.
    #[doc(hidden)]
    pub fn change_mel(keys: &[&str]) -> Self {
        Self::ChangeMel(owned(keys))
    }

    /// Returns examples of every variant, for tests of their wording.
    #[cfg(any(test, feature = "front"))]
    #[doc(hidden)]
    pub fn examples() -> Vec<Self> {
        vec![
            Self::Words("wait".to_owned()),
            Self::RaiseMemoryLimit { least: Some(7) },
            Self::RaiseMemoryLimit { least: None },
            Self::LowerMemoryLimit,
            Self::use_device(&["cpu", "cuda", "auto"]),
            Self::use_engine("rten"),
            Self::UseEngine(None),
            Self::use_precision(&["fp32", "fp16"]),
            Self::RaiseTolerance,
            Self::UseProfile("field".to_owned()),
            Self::set("use_tensorrt", "true"),
            Self::CheckConfigFile,
            Self::Replace,
            Self::StartOver,
            Self::RepairRows,
            Self::NameInputShape("x".to_owned()),
            Self::GiveInputValues,
            Self::OptimizeFirst { engine: "rten".to_owned() },
            Self::set_mel("dtype", "f32"),
            Self::change_mel(&["f_min", "f_max"]),
            Self::ExplainMel,
            Self::ShowDevices,
            Self::Pack,
            Self::Unpack,
            Self::GiveBase,
            Self::PackWhole,
            Self::UnpackTensors,
            Self::ListTensors,
            Self::BuildDataset,
            Self::ResumeBuild,
            Self::SkipFailures,
            Self::UseShards,
            Self::AllowMissing,
            Self::NamePathColumn,
            Self::use_store(&["hdf5", "npy"]),
            Self::UseRowType("f32".to_owned()),
            Self::GiveKey,
            Self::NameCodec,
        ]
    }

    /// Joins names as `a`, `a or b`, or `a, b or c`.
    #[doc(hidden)]
    pub fn alternatives<S: Borrow<str>>(names: &[S]) -> String {
        General::alternatives(names)
    }
}

impl Special for Remedy {
    fn is_reference(&self) -> bool {
        matches!(self, Self::ExplainMel | Self::ShowDevices | Self::ListTensors | Self::BuildDataset)
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

impl From<&str> for Remedy {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl From<String> for Remedy {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<Remedy> for General {
    fn from(remedy: Remedy) -> Self {
        match remedy {
            Remedy::Words(words) => Self::Words(words),
            Remedy::RaiseMemoryLimit { least } => Self::RaiseMemoryLimit { least },
            Remedy::LowerMemoryLimit => Self::LowerMemoryLimit,
            Remedy::UseDevice(names) => Self::UseDevice(names),
            Remedy::ShowDevices => Self::ShowDevices,
            special => Self::Other(Arc::new(special)),
        }
    }
}

impl From<&General> for Remedy {
    fn from(general: &General) -> Self {
        match general {
            General::Words(words) => Self::Words(words.clone()),
            General::RaiseMemoryLimit { least } => Self::RaiseMemoryLimit { least: *least },
            General::LowerMemoryLimit => Self::LowerMemoryLimit,
            General::UseDevice(names) => Self::UseDevice(names.clone()),
            General::ShowDevices => Self::ShowDevices,
            General::Other(special) => {
                let any: &dyn Any = &**special;
                any.downcast_ref().cloned().unwrap_or_else(|| Self::Words(special.to_string()))
            }
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(_)
            | Self::RaiseMemoryLimit { .. }
            | Self::LowerMemoryLimit
            | Self::UseDevice(_)
            | Self::ShowDevices => General::from(self.clone()).fmt(f),
            Self::UseEngine(Some(name)) => write!(f, "use the engine {name}"),
            Self::UseEngine(None) => f.write_str("use another engine"),
            Self::UsePrecision(names) => write!(f, "use the precision {}", Self::alternatives(names)),
            Self::RaiseTolerance => f.write_str("raise the tolerance"),
            Self::UseProfile(name) => write!(f, "use the profile {name}"),
            Self::Set { key, value } => write!(f, "set {key}: {value}"),
            Self::CheckConfigFile => {
                f.write_str("check the file's name, or leave it out to use the default file or none")
            }
            Self::Replace => f.write_str("allow replacing it"),
            Self::StartOver => f.write_str("build it again, and allow replacing what exists"),
            Self::RepairRows => f.write_str("repair its rows from the audio, or build it again"),
            Self::NameInputShape(name) => write!(f, "give the shape of `{name}`"),
            Self::GiveInputValues => f.write_str("give the inputs their real values, which the model may need"),
            Self::OptimizeFirst { engine } => write!(f, "optimize the model with the engine {engine} first"),
            Self::SetMel { key, value } => write!(f, "set {key}={value}"),
            Self::ChangeMel(keys) => write!(f, "change {}", Self::alternatives(keys)),
            Self::ExplainMel => f.write_str("the list of presets explains all keys"),
            Self::Pack => f.write_str("pack it first"),
            Self::Unpack => f.write_str("unpack it first"),
            Self::GiveBase => f.write_str("give the base file that the delta was made against"),
            Self::PackWhole => f.write_str("pack it whole, without a base"),
            Self::UnpackTensors => f.write_str("unpack the undamaged tensors one at a time"),
            Self::ListTensors => f.write_str("the list of tensors has the names"),
            Self::BuildDataset => f.write_str("a dataset build reads folders"),
            Self::ResumeBuild => f.write_str("run the same build again: it resumes where it stopped"),
            Self::SkipFailures => f.write_str("list files that fail instead of stopping at the first"),
            Self::UseShards => f.write_str("build it in shards"),
            Self::AllowMissing => f.write_str("allow missing shards, to merge without their rows"),
            Self::NamePathColumn => f.write_str("name the column with the names of the audio files"),
            Self::UseStore(kinds) => write!(f, "use the store {}", Self::alternatives(kinds)),
            Self::UseRowType(dtype) => write!(f, "use dtype {dtype}"),
            Self::GiveKey => f.write_str("give a key"),
            Self::NameCodec => f.write_str("open the codec that it was trained with"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_remedy_survives_in_an_error() {
        for remedy in Remedy::examples() {
            let error = Error::invalid("x").with_hint(remedy.clone());
            assert_eq!(error.hint(), Some(remedy.to_string()));
            assert_eq!(Remedy::of(&Error::invalid("y").with_remedies_of(&error)), [remedy]);
        }
        let kept = |remedy: &Remedy| !matches!(General::from(remedy.clone()), General::Other(_));
        assert_eq!(Remedy::examples().iter().filter(|remedy| kept(remedy)).count(), 6);
    }

    /// serde's error names all variants.
    #[test]
    fn every_remedy_has_an_example() {
        let error = serde_json::from_str::<Remedy>("\"-\"").unwrap_err().to_string();
        let known: BTreeSet<&str> = error.split('`').skip(3).step_by(2).collect();
        let debug: Vec<String> = Remedy::examples().iter().map(|remedy| format!("{remedy:?}")).collect();
        let examples: BTreeSet<&str> = debug.iter().filter_map(|text| text.split([' ', '(']).next()).collect();
        assert_eq!(examples, known);
    }

    #[test]
    fn remedies_of_others_become_words() {
        #[derive(Debug)]
        struct Tune;
        impl fmt::Display for Tune {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tune the piano")
            }
        }
        impl Special for Tune {
            fn is_reference(&self) -> bool {
                false
            }
        }
        let error = Error::invalid("x").with_hint(General::Other(Arc::new(Tune)));
        assert_eq!(Remedy::of(&error), [Remedy::Words("tune the piano".to_owned())]);
    }

    #[test]
    fn remedies_become_one_line() {
        let words =
            |first: Remedy, second: Remedy| Error::invalid("x").with_hint(first).or_hint(second).hint().unwrap();
        assert_eq!(words(Remedy::Replace, "choose another name".into()), "allow replacing it, or choose another name");
        assert_eq!(
            words("name a file in it".into(), Remedy::BuildDataset),
            "name a file in it; a dataset build reads folders"
        );
        assert_eq!(words("did you mean `x`?".into(), Remedy::UseShards), "did you mean `x`? build it in shards");
        assert_eq!(Remedy::change_mel(&["f_min"]).to_string(), "change f_min");
    }
}
