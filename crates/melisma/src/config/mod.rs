//! Settings and their origins: defaults, the profile, `melisma.yaml`, the environment, and flags.
//! Later layers win.
//!
//! Every key has an environment variable: `memory_limit` is `MELISMA_MEMORY_LIMIT`,
//! `tensor_optimizations.chunk_size` is `MELISMA_TENSOR_OPTIMIZATIONS_CHUNK_SIZE`.
//!
//! ```
//! use melisma::Context;
//! use melisma::config::Config;
//!
//! let config = Config::load_with_profile("field")?;
//! println!("{} threads", config.threads.value.count());
//! let context = Context::of(&config)?;
//! # Ok::<(), melisma::Error>(())
//! ```

// serde-saphyr reads YAML with line numbers in its errors and without unsafe code; serde_yaml is
// archived, serde_yml is unsound.

mod amount;
mod environment;
mod field;
mod file;
mod layer;
mod nearest;
pub(crate) mod policy;
pub mod precision;
mod profile;
mod request;
mod section;
mod show;

use std::fmt;
use std::path::PathBuf;

pub use amount::{ChunkSize, Limit, Size, Threads, Tolerance};
#[doc(hidden)]
pub use environment::{Environment, variable};
#[doc(hidden)]
pub use field::{Field, Raw};
#[doc(hidden)]
pub use layer::{FILE_NAME, Layers, default_file};
#[doc(hidden)]
pub use nearest::nearest;
pub use policy::{Chunking, Placement, Policy, TensorRt};
pub use precision::Precision;
pub use profile::Profile;
pub use request::DeviceRequest;
#[doc(hidden)]
pub use section::{Entry, Section};
#[doc(hidden)]
pub use show::{json, table};

use crate::Result;
use precision::{Format, Request};

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The built-in default.
    Default,
    /// The profile.
    Profile(Profile),
    /// A file.
    File {
        /// The path as given.
        path: PathBuf,
        /// The line, starting at 1.
        line: u64,
    },
    /// An environment variable.
    Env(String),
    /// A flag, with its dashes.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Profile(profile) => write!(f, "profile {profile}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub origin: Origin,
}

impl<T: Field> Setting<T> {
    #[doc(hidden)]
    pub fn unset(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    #[doc(hidden)]
    pub fn parse(raw: &Raw, origin: Origin) -> Result<Self> {
        Ok(Self { value: T::parse(raw)?, origin })
    }
}

/// The sources of the layers.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sources {
    /// The file named by the user; it must exist.
    pub file: Option<PathBuf>,
    /// The environment variables.
    #[doc(hidden)]
    pub environment: Environment,
    /// Key, flag with its dashes, and the given text.
    #[doc(hidden)]
    pub flags: Vec<(&'static str, &'static str, String)>,
}

impl Sources {
    setters! {
        /// Sets the file named by the user; it must exist.
        pub fn with_file(file: impl Into<Option<PathBuf>>);
        /// Sets the environment variables.
        #[doc(hidden)]
        pub fn with_environment(environment: Environment);
        /// Sets the settings that flags give: key, flag with its dashes, and text.
        #[doc(hidden)]
        pub fn with_flags(flags: Vec<(&'static str, &'static str, String)>);
    }
}

crate::section! {
    /// All settings of the library, resolved.
    Config {
        /// The file that was read, if any.
        file: Option<PathBuf>,
    }
    "device" device: DeviceRequest = DeviceRequest::Auto, "Which device to use.";
    "profile" profile: Profile = Profile::Field, "The preset that the configuration file overrides.";
    "threads" threads: Threads = Threads::Auto, "CPU threads.";
    "memory_limit" memory_limit: Limit = Limit::NONE, "The most bytes to allocate, beside the program itself.";
    "precision" precision: Request = Request::Fp32, "The precision asked for.";
    "tolerance" tolerance: Tolerance = Tolerance::DEFAULT, "The largest error of a lower precision or another engine.";
    "tf32" tf32: bool = false, "Whether f32 products on tensor cores may round their inputs to TF32.";
    "cache_dir" cache_dir: Option<PathBuf> = None, "Folder of cached kernels and engines.";
    "cache_limit" cache_limit: Size = Size(8 << 30), "The most bytes of cached engines.";
    "tensor_optimizations.enabled" enabled: bool = true, "Master switch of the section.";
    "tensor_optimizations.memory_efficient" memory_efficient: bool = true, "Whether to work in place where possible.";
    "tensor_optimizations.mixed_precision" mixed_precision: bool = false, "Whether engines may lower their precision.";
    "tensor_optimizations.use_tensorrt" use_tensorrt: bool = true, "Whether TensorRT is among the engines.";
    "tensor_optimizations.trt_workspace_size" trt_workspace: Size = Size(1 << 30), "Bytes of TensorRT's workspace.";
    "tensor_optimizations.target_precision" target_precision: Format = Format::Fp16, "What mixed precision lowers to.";
    "tensor_optimizations.chunk_large_tensors" chunk_large_tensors: bool = true, "Whether large operations are split.";
    "tensor_optimizations.chunk_size" chunk_size: ChunkSize = ChunkSize::Auto, "Rows per chunk.";
}

#[cfg(test)]
mod tests;
