//! The best engine for a model on this device: candidates are measured, the fastest that is exact enough and fits into
//! memory wins, and is kept in the [`cache`](super::cache) with what was measured.
//!
//! Each candidate runs in a process of its own ([`Worker`]), so that one that crashes or takes all memory is a row of the
//! table and nothing else, and peaks of memory are its own.

mod accuracy;
mod advice;
mod bound;
mod candidate;
mod chunk;
mod engines;
mod hard;
mod inputs;
mod key;
mod measure;
mod operators;
mod pieces;
mod prepare;
mod report;
mod select;
#[cfg(test)]
mod tests;
mod worker;

use std::path::{Path, PathBuf};

pub use accuracy::{Accuracy, compare};
pub use candidate::{Candidate, Wanted};
pub use chunk::{Chunk, SMALL_CHUNK};
pub use engines::{NAMES, Surroundings, available, open};
pub use inputs::{Content, Given, Sets};
pub use measure::{Latency, Measured, Outcome as Measurement};
pub use report::Report;
pub use worker::{Done, Spec, Task, Worker, work};
pub(super) use worker::{read as read_files, write as write_files};

use super::cache::{Built, Cache, Entry, Found, Parts, Sample};
use super::engine::Engine;
use super::need::{Apart, Limits, Need};
use super::onnx::Model;
use super::value::Value;
use crate::runtime::{Config, size};
use crate::{Error, Kind, Result};

/// The seed of made-up inputs.
pub const SEED: u64 = 0x6d65_6c69_736d_6121;
/// How far a run may be from the recorded one, relative to the largest value: threads may change the order of sums.
const SELF_CHECK_TOLERANCE: f32 = 1e-4;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model's file.
    pub model: PathBuf,
    /// Shapes or values of its inputs; those whose shape the model says may be left out.
    pub inputs: Vec<Given>,
    /// How far precision may be lowered.
    pub precision: Wanted,
    /// The largest error, relative to the largest value of an output.
    pub tolerance: f64,
    /// The engine by name; none for the best.
    pub engine: Option<String>,
    /// A folder of inputs to measure accuracy with.
    pub calibrate: Option<PathBuf>,
}

/// What a search works with.
pub struct Search<'a> {
    /// Profile, threads, memory limit and the section `tensor_optimizations`.
    pub config: &'a Config,
    /// Where engines are kept.
    pub cache: &'a Cache,
    /// What measures candidates.
    pub worker: Worker,
    /// Memory that candidates can have, in bytes; see [`machine::free_bytes`](crate::runtime::machine::free_bytes).
    pub free_bytes: Option<u64>,
    /// Says what is being done.
    pub say: &'a dyn Fn(&str),
}

/// What a search gives.
#[derive(Debug)]
pub struct Outcome {
    /// What was measured when the engine was made.
    pub report: Report,
    /// The engine's files and manifest.
    pub entry: Entry,
    /// The key.
    pub key: String,
    /// Why it was made; none when it was found.
    pub miss: Option<String>,
}

impl Search<'_> {
    /// Finds or makes the engine. One that is found is run once, and must give what it gave when it was made.
    ///
    /// # Errors
    /// A model or inputs that are wrong; no engine that can run it, or is exact enough, or fits into the memory.
    pub fn optimize(&self, request: &Request) -> Result<Outcome> {
        self.check_files(request)?;
        let parts = key::parts(self.config, request)?;
        let key = parts.key().as_str().to_owned();
        for _ in 0..2 {
            let (entry, miss) = self.cache.find_or_build(&parts, &mut |folder| self.build(request, &parts, folder))?;
            let report = Report::read(&entry.manifest.plan)?;
            if miss.is_some() {
                return Ok(Outcome { report, entry, key, miss });
            }
            match self.load(&entry, &report).map(drop) {
                Ok(()) => {
                    self.say_if_short(&report);
                    return Ok(Outcome { report, entry, key, miss: None });
                }
                Err(error) => (self.say)(&self.cache.reject(&parts, &error.to_string())),
            }
        }
        Err(Error::new(Kind::Check, "the engine does not give twice what it gave once")
            .with_hint("choose another one with --engine"))
    }

    /// What is free now is no part of the key: a kept engine may take more.
    fn say_if_short(&self, report: &Report) {
        let bound = bound::Bound::of(self.config, self.free_bytes);
        if let Some((bound, peak)) = bound.zip(report.peak_bytes).filter(|(bound, peak)| *peak > bound.bytes()) {
            let peak = size::show(peak);
            (self.say)(&format!(
                "note: the kept engine takes {peak}, {bound}; --memory-limit finds one that takes less"
            ));
        }
    }

    /// Files of inputs are wrong or right whether or not an engine is there already.
    fn check_files(&self, request: &Request) -> Result<()> {
        if !request.inputs.iter().any(|given| matches!(given.content, Content::File(_))) {
            return Ok(());
        }
        inputs::check_files(&Model::open_within(&request.model, self.most_bytes())?, request)
    }

    /// The engine of `request` from the cache, checked and ready to run; none when there is no such entry.
    ///
    /// # Errors
    /// A model or inputs that are wrong.
    pub fn find(&self, request: &Request) -> Result<Option<(Box<dyn Engine>, Report)>> {
        let parts = key::parts(self.config, request)?;
        let is_there = self.cache.holds(&parts);
        let entry = match self.cache.find(&parts) {
            Found::Hit(entry) => entry,
            Found::Miss(reason) => {
                if is_there {
                    (self.say)(&format!("note: {reason}"));
                }
                return Ok(None);
            }
        };
        let report = Report::read(&entry.manifest.plan);
        if let Some(peak) =
            report.as_ref().ok().and_then(|report| report.peak_bytes).filter(|peak| *peak > self.most_bytes())
        {
            let (peak, most) = (size::show(peak), size::show(self.most_bytes()));
            (self.say)(&format!("note: the cached engine takes {peak}, it may take {most}; the embedded one is tried"));
            return Ok(None);
        }
        let loaded = report.and_then(|report| Ok((self.load(&entry, &report)?, report)));
        match loaded {
            Ok(loaded) => Ok(Some(loaded)),
            Err(error) => {
                (self.say)(&self.cache.reject(&parts, &error.to_string()));
                Ok(None)
            }
        }
    }

    /// Opens an entry's engine and checks it against the recorded outputs.
    fn load(&self, entry: &Entry, report: &Report) -> Result<Box<dyn Engine>> {
        let model = prepare::kept(&entry.folder, self.config.memory_limit.value.bytes())?;
        let surroundings = self.surroundings(&entry.folder, &entry.manifest.parts);
        let mut engine = open(&model, &report.candidate, &surroundings)?;
        let inputs = inputs::read(&entry.folder)?;
        check(&entry.manifest.self_check, engine.as_mut(), &inputs)?;
        let hidden = Need::of_shapes(&model, &inputs)?.hidden;
        if hidden.is_empty() {
            return Ok(engine);
        }
        // Other values than those that were measured may need more memory.
        let how = (report.candidate.clone(), self.worker.clone());
        let apart = Apart::new(&entry.folder.join(prepare::KEPT), &model, how, hidden)?;
        Ok(Box::new(apart.within(self.limits().most_bytes()).with(surroundings)))
    }

    fn limits(&self) -> Limits {
        Limits::of(self.config, self.free_bytes)
    }

    fn most_bytes(&self) -> u64 {
        self.limits().most_bytes().unwrap_or(u64::MAX)
    }

    fn surroundings(&self, folder: &Path, parts: &Parts) -> Surroundings {
        Surroundings::new(self.config, folder.join("tensorrt"), parts.key().as_str())
    }

    fn build(&self, request: &Request, parts: &Parts, folder: &Path) -> Result<Built> {
        let model = Model::open_within(&request.model, self.most_bytes())?;
        let sets = Sets::make(&model, request)?;
        sets.values.iter().try_for_each(|set| self.limits().refuse_hopeless(&model, set))?;
        let workshop = select::Workshop {
            search: self,
            request,
            model: &model,
            sets: &sets,
            surroundings: self.surroundings(folder, parts),
        };
        let (report, prepared) = workshop.select()?;
        prepare::keep(&prepared, folder, self.config.threads.value.count())?;
        inputs::write(folder, &sets.values[0])?;
        let how = (report.candidate.clone(), self.worker.clone());
        let apart = Apart::new(&folder.join(prepare::KEPT), &prepared, how, Vec::new())?;
        let mut engine = apart.within(self.limits().most_bytes()).with(workshop.surroundings.clone());
        drop(prepared);
        let outputs = engine.run(&sets.values[0])?;
        let ports = engine.outputs().iter().map(|port| port.name.clone());
        let self_check = ports.zip(&outputs).map(|(name, value)| sample(&name, value)).collect::<Result<_>>()?;
        Ok(Built { plan: report.json()?, self_check })
    }
}

fn sample(name: &str, value: &Value) -> Result<Sample> {
    Ok(Sample::take(name, value.shape(), &accuracy::floats(value)?))
}

fn check(samples: &[Sample], engine: &mut dyn Engine, inputs: &[Value]) -> Result<()> {
    let outputs = engine.run(inputs)?;
    if outputs.len() != samples.len() {
        return Err(Error::new(Kind::Check, format!("self-check: {} outputs, not {}", outputs.len(), samples.len())));
    }
    samples
        .iter()
        .zip(&outputs)
        .try_for_each(|(sample, output)| sample.check(output.shape(), &accuracy::floats(output)?, SELF_CHECK_TOLERANCE))
}
