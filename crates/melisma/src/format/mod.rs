//! File formats and their contents: arrays ([`npy`], [`Value`]), weights ([`safetensors`],
//! [`checkpoint`]) and images ([`png`]).
//!
//! ```
//! use melisma::format::{Value, npy};
//!
//! let value = Value::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
//! assert_eq!(npy::decode(&npy::encode(&value))?, value);
//! # Ok::<(), melisma::Error>(())
//! ```

pub mod checkpoint;
#[doc(hidden)]
pub mod hash;
pub mod npy;
mod pickle;
pub mod png;
pub(crate) mod read_at;
pub mod safetensors;
mod stored_type;
mod text;
mod value;
mod yaml;
mod zip;

pub use read_at::ReadAt;
#[doc(hidden)]
pub use stored_type::{Opaque, StoredType};
#[doc(hidden)]
pub use text::read_text;
pub use value::Value;
pub(crate) use value::byte_len;
pub(crate) use yaml::from_yaml;
