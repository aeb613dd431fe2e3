//! Models in ONNX, made small and fast for the device at hand.
//!
//! [`onnx`] reads and writes models without trusting a byte of them, [`engine`] runs them behind one small trait, and
//! [`Value`] is what goes in and comes out.

pub mod engine;
pub mod models;
pub mod onnx;
pub mod pass;
mod value;

pub use engine::{Engine, Options};
pub use value::{DType, Number, Value, npy};
