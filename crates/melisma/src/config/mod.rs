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
mod show;
mod upstream;

use std::fmt;
use std::path::PathBuf;

pub use amount::{ChunkSize, Limit, Size, Threads, Tolerance};
#[doc(hidden)]
pub use environment::Environment;
#[doc(hidden)]
pub use field::Raw;
#[doc(hidden)]
pub use layer::{FILE_NAME, default_file};
#[doc(hidden)]
pub use nearest::nearest;
pub use policy::{Chunking, Placement, Policy, TensorRt};
pub use precision::Precision;
pub use profile::Profile;
pub use request::DeviceRequest;
#[doc(hidden)]
pub use show::Entry;
#[doc(hidden)]
pub use upstream::{ORPHEUS, UpstreamApi};

use crate::trace::Sort;
use crate::{Error, Result};
use field::Field;
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
    /// The file named by the user; it must exist.
    #[must_use]
    pub fn with_file(mut self, file: impl Into<Option<PathBuf>>) -> Self {
        self.file = file.into();
        self
    }

    /// The environment variables.
    #[doc(hidden)]
    #[must_use]
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Key, flag with its dashes, and the given text.
    #[doc(hidden)]
    #[must_use]
    pub fn with_flags(mut self, flags: Vec<(&'static str, &'static str, String)>) -> Self {
        self.flags = flags;
        self
    }
}

macro_rules! settings {
    ($($key:literal $field:ident : $type:ty = $default:expr, $doc:literal;)+) => {
        /// All settings, resolved.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Config {
            /// The file that was read, if any.
            pub file: Option<PathBuf>,
            $(#[doc = $doc] pub $field: Setting<$type>,)+
        }

        /// Every key, in the order of `--print-config`.
        #[doc(hidden)]
        pub const KEYS: &[&str] = &[$($key),+];

        impl Default for Config {
            fn default() -> Self {
                Self { file: None, $($field: Setting { value: $default, origin: Origin::Default },)+ }
            }
        }

        impl Config {
            /// Sets `key`; the error names neither the key nor its origin.
            fn set(&mut self, key: &str, raw: &Raw, origin: Origin) -> Result<()> {
                match key {
                    $($key => self.$field = Setting { value: <$type>::parse(raw)?, origin },)+
                    _ => return Err(Error::invalid(format!("the key `{key}` does not exist"))),
                }
                Ok(())
            }

            /// Every key with its value and origin.
            #[doc(hidden)]
            pub fn entries(&self) -> Vec<Entry<'_>> {
                vec![$(Entry::new($key, &self.$field.value, &self.$field.origin)),+]
            }
        }
    };
}

settings! {
    "device" device: DeviceRequest = DeviceRequest::Auto, "Which device to use.";
    "profile" profile: Profile = Profile::Field, "The preset that the configuration file overrides.";
    "threads" threads: Threads = Threads::Auto, "CPU threads.";
    "memory_limit" memory_limit: Limit = Limit::NONE, "The most bytes that pools, tensors and reservations may hold.";
    "precision" precision: Request = Request::Fp32, "The precision asked for.";
    "tolerance" tolerance: Tolerance = Tolerance::DEFAULT, "The largest error of a lower precision or another engine.";
    "tf32" tf32: bool = false, "Whether f32 products on tensor cores may round their inputs to TF32.";
    "cache_dir" cache_dir: Option<PathBuf> = None, "Folder of cached kernels and engines.";
    "cache_limit" cache_limit: Size = Size(8 << 30), "The most bytes of cached engines.";
    "trace" trace: Option<PathBuf> = None, "Where to write a Chrome trace.";
    "profile_table" profile_table: bool = false, "Whether to print the table of spans.";
    "profile_sort" profile_sort: Sort = Sort::SelfTime, "The column that the table of spans is sorted by.";
    "profile_rows" profile_rows: u64 = 20, "How many rows the table of spans has.";
    "profile_kernels" profile_kernels: bool = false, "Whether the kernels of recorded graphs are timed one by one.";
    "quiet" quiet: bool = false, "Whether to print errors only.";
    "verbose" verbose: bool = false, "Whether to print more details.";
    "tensor_optimizations.enabled" enabled: bool = true, "Master switch of the section.";
    "tensor_optimizations.memory_efficient" memory_efficient: bool = true, "Whether to work in place where possible.";
    "tensor_optimizations.mixed_precision" mixed_precision: bool = false, "Whether engines may lower their precision.";
    "tensor_optimizations.use_tensorrt" use_tensorrt: bool = true, "Whether TensorRT is among the engines.";
    "tensor_optimizations.trt_workspace_size" trt_workspace: Size = Size(1 << 30), "Bytes of TensorRT's workspace.";
    "tensor_optimizations.target_precision" target_precision: Format = Format::Fp16, "What mixed precision lowers to.";
    "tensor_optimizations.chunk_large_tensors" chunk_large_tensors: bool = true, "Whether large operations are split.";
    "tensor_optimizations.chunk_size" chunk_size: ChunkSize = ChunkSize::Auto, "Rows per chunk.";
    "upstream.api" upstream_api: UpstreamApi = UpstreamApi::Completions, "The route of the language model behind speech.";
    "upstream.model" upstream_model: Option<String> = None, "The model's name there, if it has to be named.";
    "upstream.template" upstream_template: String = ORPHEUS.to_owned(), "Its prompt: `orpheus`, or a text with `{text}`.";
    "upstream.voices" upstream_voices: String = ORPHEUS.to_owned(), "Its voices: `orpheus`, or names with commas.";
    "upstream.request" upstream_request: String = ORPHEUS.to_owned(), "Fields of requests: `orpheus`, or a JSON object.";
    "upstream.stop" upstream_stop: String = "<custom_token_2>".to_owned(), "Text that ends its speech.";
    "upstream.max_tokens" upstream_max_tokens: u64 = 8192, "The most tokens for one piece of text.";
}

#[cfg(test)]
mod tests;
