//! File formats and what they hold: arrays ([`npy`], [`Value`]), weights ([`checkpoint`]) and pictures ([`png`]).

pub mod checkpoint;
mod dtype;
pub mod npy;
pub mod png;
mod value;

pub use dtype::{DType, Number};
pub use value::Value;
pub(crate) use value::byte_len;
