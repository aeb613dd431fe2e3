//! Models in ONNX and tensors, made small and fast for the device at hand.
//!
//! [`onnx`] reads and writes models without trusting a byte of them, [`engine`] runs them behind one small trait, and
//! [`Value`] is what goes in and comes out. [`need`] knows what a run takes before it begins. [`pass`] rewrites models, [`search`] finds
//! the best engine, [`cache`] stores it on disk, [`tensor`] has tools for single tensors.

pub mod cache;
pub mod engine;
pub mod models;
pub mod need;
pub mod onnx;
pub mod pass;
pub mod search;
pub mod tensor;
mod value;

pub use engine::{Engine, Options};
pub use value::{DType, Number, Value, npy};
