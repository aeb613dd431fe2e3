//! The embedded engine for one run within limits.

use std::path::Path;

use super::{Admission, Apart, Limits};
use crate::Result;
use crate::optimize::engine::chunked::{Chunked, Reach};
use crate::optimize::engine::{Engine, Options, rten};
use crate::optimize::onnx::Model;
use crate::optimize::search::{Candidate, Chunk, Worker};
use crate::optimize::value::Value;
use crate::runtime::precision::Format;

/// What the engine is opened with.
#[derive(Debug)]
pub struct Embedded<'a> {
    /// The model's file.
    pub path: &'a Path,
    /// The memory that a run may take.
    pub limits: Limits,
    /// CPU threads.
    pub threads: usize,
    /// What starts a process for a run whose memory is not known in advance.
    pub worker: Worker,
}

impl Embedded<'_> {
    /// An engine that can run `model` with these inputs: whole, in pieces, or in a process with a hard limit.
    ///
    /// # Errors
    /// `Memory` when the run does not fit, before anything is allocated; `Unsupported` for what the engine does not have.
    pub fn open(&self, model: Model, inputs: &[Value]) -> Result<Box<dyn Engine>> {
        let options = Options { threads: self.threads, ..Options::default() };
        match self.limits.admit(&model, inputs)? {
            Admission::Whole => Ok(Box::new(rten::build_from(model, &options)?)),
            Admission::Pieces(len) => {
                let reach = Reach::of(&model)?;
                Ok(Box::new(Chunked::new(Box::new(rten::build_from(model, &options)?), reach, len)))
            }
            Admission::Apart(hidden) => {
                rten::check(&model)?;
                let candidate = Candidate {
                    engine: rten::NAME.to_owned(),
                    precision: Format::Fp32,
                    threads: self.threads,
                    chunk: Chunk::Own,
                };
                let apart = Apart::new(self.path, &model, (candidate, self.worker.clone()), hidden)?;
                Ok(Box::new(apart.within(self.limits.most_bytes())))
            }
        }
    }
}
