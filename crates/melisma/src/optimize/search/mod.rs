//! The best engine for a model on this device: candidates are measured, and the fastest that is exact enough and fits into
//! memory goes into the [`cache`](super::cache) with what was measured. [`choose()`] finds it there for a run.
//!
//! Each candidate runs in a process of its own ([`Worker`]), so that one that crashes or takes all memory is a row of the
//! table and nothing else, and peak memory is its own.

mod accuracy;
mod advice;
mod bound;
mod candidate;
mod choose;
mod chunk;
mod engines;
mod hard;
mod inputs;
mod key;
mod measure;
mod operators;
mod pick;
mod pieces;
mod prepare;
mod report;
mod select;
mod serve;
mod terms;
#[cfg(test)]
mod tests;
mod worker;

use std::path::{Path, PathBuf};

use serde_json::json;

pub use accuracy::{Accuracy, compare};
pub use candidate::{Candidate, Wanted};
pub use choose::{Cached, Chosen, Subject, choose};
pub use chunk::{Chunk, SMALL_CHUNK};
pub use engines::{NAMES, Surroundings, available, open};
pub use inputs::{Content, Given, Sets};
pub use measure::{Latency, Measured, Outcome as Measurement};
pub use report::{InputShape, Report};
pub use serve::serve;
pub use terms::{Asked, Terms};
pub use worker::{Done, Spec, Task, Worker, work};
pub(super) use worker::{read as read_files, write as write_files};

use super::cache::{Built, Cache, Entry, Parts, Sample};
use super::need::{Apart, Limits, Need};
use crate::engine::{Engine, Port};
use crate::format::Value;
use crate::onnx::Model;
use crate::runtime::{Config, machine, size};
use crate::{Error, Kind, Remedy, Result};

/// The seed of generated inputs.
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
    /// What the engine must satisfy.
    pub terms: Terms,
    /// A folder of inputs to measure accuracy with.
    pub calibrate: Option<PathBuf>,
}

/// What a search works with.
pub struct Search<'a> {
    /// Profile, threads, memory limit and the section `tensor_optimizations`.
    pub config: &'a Config,
    /// Where engines are cached.
    pub cache: &'a Cache,
    /// What measures candidates.
    pub worker: Worker,
    /// Memory that candidates may use, in bytes; see [`machine::free_bytes`].
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

/// Finds or makes the engine that `request` asks for, with the cache that `config` names. `say` is told what is done.
///
/// # Errors
/// As [`Search::optimize`].
pub fn optimize(config: &Config, request: &Request, worker: Worker, say: &dyn Fn(&str)) -> Result<Outcome> {
    let cache = Cache::of(config);
    if let Some(note) = cache.note() {
        say(&format!("note: {note}"));
    }
    let search = Search { config, cache: &cache, worker, free_bytes: machine::free_bytes(), say };
    let outcome = search.optimize(request)?;
    if let Some(uncached) = &outcome.entry.uncached {
        say(&format!("note: the engine is not cached: {}", uncached.reason));
    }
    Ok(outcome)
}

impl Outcome {
    /// What `melisma optimize --json` says.
    pub fn keys(&self) -> serde_json::Value {
        let mut json = self.report.keys();
        let path = self.entry.uncached.is_none().then(|| self.entry.folder.display().to_string());
        json["cache"] = json!({ "key": self.key, "hit": self.miss.is_none(), "path": path, "reason": self.miss });
        json
    }
}

impl Search<'_> {
    /// Finds or makes the engine. It is read back from the cache and must give what it gave when it was made; that it did is
    /// recorded, and not tried again while nothing changes.
    ///
    /// # Errors
    /// A model or inputs that are wrong; no engine that can run it, or is exact enough, or fits into the memory.
    pub fn optimize(&self, request: &Request) -> Result<Outcome> {
        self.check_files(request)?;
        let parts = key::parts(self.config, request)?;
        let key = parts.key();
        for _ in 0..2 {
            let (entry, miss) = self.cache.find_or_build(&parts, &mut |folder| self.build(request, &parts, folder))?;
            let report = Report::read(&entry.manifest.plan)?;
            let checked = match entry.uncached {
                Some(_) => Ok(()),
                None => self.load(&entry, &report).map(drop),
            };
            match checked {
                Ok(()) => {
                    if miss.is_none() {
                        self.say_if_short(&report);
                    }
                    return Ok(Outcome { report, entry, key: key.as_str().to_owned(), miss });
                }
                Err(error) => (self.say)(&self.cache.reject(&key, &error.to_string())),
            }
        }
        Err(Error::new(Kind::Check, "the engine does not give twice what it gave once")
            .with_hint(Remedy::UseEngine(None)))
    }

    /// Free memory is not part of the key: a cached engine may take more.
    fn say_if_short(&self, report: &Report) {
        let bound = bound::Bound::of(self.config, self.free_bytes);
        if let Some((bound, peak)) = bound.zip(report.peak_bytes).filter(|(bound, peak)| *peak > bound.bytes()) {
            let peak = size::show(peak);
            (self.say)(&format!(
                "note: the cached engine takes {peak}, {bound}; optimize under a memory limit to find one that takes less"
            ));
        }
    }

    /// Files of inputs are wrong or right whether or not an engine is cached.
    fn check_files(&self, request: &Request) -> Result<()> {
        if !request.inputs.iter().any(|given| matches!(given.content, Content::File(_))) {
            return Ok(());
        }
        inputs::check_files(&Model::open_within(&request.model, self.most_bytes())?, request)
    }

    /// Opens an entry's engine. Unless it passed with these files on this machine before, it is run once and compared with
    /// the recorded outputs.
    fn load(&self, entry: &Entry, report: &Report) -> Result<Box<dyn Engine>> {
        let model = prepare::cached(&entry.folder, self.config.memory_limit.value.bytes())?;
        let surroundings = self.surroundings(&entry.folder, &entry.manifest.parts);
        let hidden = Need::of_shapes(&model, &report.inputs)?.hidden;
        let ports = if hidden.is_empty() { None } else { Some((Port::inputs(&model)?, Port::outputs(&model)?)) };
        let mut engine = engines::open_from(model, &report.candidate, &surroundings)?;
        let state = key::state(self.config, &report.candidate.engine)?;
        if !entry.has_passed(&state) {
            check(&entry.manifest.self_check, engine.as_mut(), &inputs::read(&entry.folder)?)?;
            entry.record_pass(&state);
        }
        let Some(ports) = ports else { return Ok(engine) };
        // Other values than those that were measured may need more memory.
        let apart = Apart::new(&entry.folder.join(prepare::PACKED), ports, self.worker.clone());
        Ok(Box::new(apart.running(&report.candidate, surroundings).within(self.limits(), hidden)))
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
        prepare::store(&prepared, folder, self.config.threads.value.count())?;
        inputs::write(folder, &sets.values[0])?;
        let ports = (Port::inputs(&prepared)?, Port::outputs(&prepared)?);
        drop(prepared);
        let apart = Apart::new(&folder.join(prepare::PACKED), ports, self.worker.clone());
        let apart = apart.running(&report.candidate, workshop.surroundings.clone());
        let mut engine = apart.within(self.limits(), Vec::new());
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
