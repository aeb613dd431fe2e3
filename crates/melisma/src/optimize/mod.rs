//! Finds the best engine for an ONNX model on a device: [`search`] measures candidates, [`cache`]
//! stores the winner.

pub mod cache;
pub mod search;
