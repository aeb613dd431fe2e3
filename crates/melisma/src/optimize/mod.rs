//! Models and tensors made small and fast for the device at hand.

pub mod cache;
pub mod tensor;
