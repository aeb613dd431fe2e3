//! The best engine for an ONNX model on the device at hand: [`search`] measures candidates, [`cache`] stores the winner.

pub mod cache;
pub mod search;
