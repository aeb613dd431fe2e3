//! Typed remedies for errors: the libraries say what to change, and each front says how.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One way to fix the cause of an [`Error`](crate::Error).
///
/// `Display` words it without flags or arguments, for programs that call the library. Each front
/// has its own wording for every variant. The enum is exhaustive, so a new variant does not compile
/// until every front words it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remedy {
    /// Words that every front prints unchanged.
    Words(String),
    /// A higher memory limit, of at least `least` bytes if that is known.
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
    /// One of these precisions for ONNX models.
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
    /// Permission to replace the existing output.
    Replace,
    /// Permission to replace the files of an earlier build and start over.
    StartOver,
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
    /// A dataset in several shards.
    UseShards,
    /// Merging without the missing shards.
    AllowMissing,
    /// One of these kinds of dataset.
    UseStore(Vec<String>),
    /// Dataset rows of this element type.
    UseRowType(String),
    /// A key that clients of a server must know.
    GiveKey,
}

impl Remedy {
    /// One of these devices.
    pub fn use_device(names: &[&str]) -> Self {
        Self::UseDevice(owned(names))
    }

    /// This engine for ONNX models.
    pub fn use_engine(name: &str) -> Self {
        Self::UseEngine(Some(name.to_owned()))
    }

    /// One of these precisions for ONNX models.
    pub fn use_precision(names: &[&str]) -> Self {
        Self::UsePrecision(owned(names))
    }

    /// One of these kinds of dataset.
    pub fn use_store(names: &[&str]) -> Self {
        Self::UseStore(owned(names))
    }

    /// Another value of a setting.
    pub fn set(key: &str, value: &str) -> Self {
        Self::Set { key: key.to_owned(), value: value.to_owned() }
    }

    /// This value of a key of a mel preset.
    pub fn set_mel(key: &str, value: &str) -> Self {
        Self::SetMel { key: key.to_owned(), value: value.to_owned() }
    }

    /// Other values of these keys of a mel preset.
    pub fn change_mel(keys: &[&str]) -> Self {
        Self::ChangeMel(owned(keys))
    }

    /// Joins names as `a`, `a or b`, or `a, b or c`.
    pub fn alternatives<S: Borrow<str>>(names: &[S]) -> String {
        match names {
            [] => String::new(),
            [name] => name.borrow().to_owned(),
            [first @ .., last] => format!("{} or {}", first.join(", "), last.borrow()),
        }
    }

    /// Whether it points to more information rather than to a change.
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

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::RaiseMemoryLimit { least: None } => f.write_str("raise the memory limit"),
            Self::RaiseMemoryLimit { least: Some(bytes) } => write!(f, "use a memory limit of {bytes} bytes or more"),
            Self::LowerMemoryLimit => f.write_str("lower the memory limit so that the work is split"),
            Self::UseDevice(names) => write!(f, "use the device {}", Self::alternatives(names)),
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
            Self::NameInputShape(name) => write!(f, "give the shape of `{name}`"),
            Self::GiveInputValues => f.write_str("give the inputs their real values, which the model may need"),
            Self::OptimizeFirst { engine } => write!(f, "optimize the model with the engine {engine} first"),
            Self::SetMel { key, value } => write!(f, "set {key}={value}"),
            Self::ChangeMel(keys) => write!(f, "change {}", Self::alternatives(keys)),
            Self::ExplainMel => f.write_str("the list of presets explains all keys"),
            Self::ShowDevices => f.write_str("check this machine's GPUs, driver and CUDA libraries"),
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
            Self::UseStore(kinds) => write!(f, "use the store {}", Self::alternatives(kinds)),
            Self::UseRowType(dtype) => write!(f, "use dtype {dtype}"),
            Self::GiveKey => f.write_str("give a key"),
        }
    }
}

/// One line that lists `remedies`, each worded by `word`.
pub(crate) fn line(remedies: &[Remedy], word: impl Fn(&Remedy) -> String) -> Option<String> {
    let mut line = word(remedies.first()?);
    for remedy in &remedies[1..] {
        line += match remedy.is_reference() {
            _ if line.ends_with('?') => " ",
            true => "; ",
            false => ", or ",
        };
        line += &word(remedy);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_become_one_line() {
        let words = |remedies: &[Remedy]| line(remedies, Remedy::to_string).unwrap();
        assert_eq!(
            words(&[Remedy::Replace, "choose another name".into()]),
            "allow replacing it, or choose another name"
        );
        assert_eq!(
            words(&["name a file in it".into(), Remedy::BuildDataset]),
            "name a file in it; a dataset build reads folders"
        );
        assert_eq!(words(&["did you mean `x`?".into(), Remedy::UseShards]), "did you mean `x`? build it in shards");
        assert_eq!(line(&[], Remedy::to_string), None);
        assert_eq!(Remedy::use_device(&["cpu", "cuda", "auto"]).to_string(), "use the device cpu, cuda or auto");
        assert_eq!(Remedy::change_mel(&["f_min"]).to_string(), "change f_min");
    }
}
