//! What a search is asked for.

use std::path::PathBuf;

use super::{Given, Terms};

/// The seed of generated inputs.
pub const SEED: u64 = 0x6d65_6c69_736d_6121;

/// What a search is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model's file.
    pub model: PathBuf,
    /// Shapes or values of its inputs; those whose shape the model says may be left out.
    pub inputs: Vec<Given>,
    /// What the engine must satisfy.
    pub terms: Terms,
    /// A folder of inputs to measure accuracy with.
    pub calibrate: Option<PathBuf>,
}
