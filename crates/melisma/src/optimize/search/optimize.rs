//! The search: finds an engine in the cache, or measures candidates and stores the best.

use std::path::Path;

use serde_json::json;

use super::candidate::EngineSettings;
use super::candidate::bound::Bound;
use super::candidate::{engines, prepare};
use super::choose::Selection;
use super::choose::least_memory::with_least_limit;
use super::measure::{Sets, Width, floats, inputs};
use super::run::ProcessEngine;
use super::{Content, Message, Report, Request, Search, key};
use crate::engine::need::Need;
use crate::engine::{Engine, Ports};
use crate::format::Value;
use crate::onnx::Model;
use crate::optimize::cache::{Built, Entry, Key, Miss, Parts, Sample};
use crate::{Error, ErrorKind, Remedy, Result};

/// Largest difference between a run and the recorded one, relative to the largest value. Threads
/// may change the order of sums.
const SELF_CHECK_TOLERANCE: f32 = 1e-4;

/// The result of a search.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The measurements from when the engine was built.
    pub report: Report,
    /// The engine's files and manifest.
    pub entry: Entry,
    /// The key.
    pub key: String,
    /// Why it was built; `None` for a cache hit.
    pub miss: Option<Miss>,
}

impl Outcome {
    /// Returns the JSON of `melisma optimize --json`.
    pub fn keys(&self) -> serde_json::Value {
        let mut json = self.report.keys();
        let path = self.entry.uncached.is_none().then(|| self.entry.folder.display().to_string());
        let reason = self.miss.as_ref().map(ToString::to_string);
        json["cache"] = json!({ "key": self.key, "hit": self.miss.is_none(), "path": path, "reason": reason });
        json
    }
}

impl Search<'_> {
    /// Finds or builds the engine. The engine is read back from the cache and must reproduce its
    /// recorded outputs. A pass is recorded and holds until something changes.
    ///
    /// # Errors
    /// The model or the inputs are invalid, or no engine runs the model, is accurate enough, or
    /// fits into memory.
    pub fn optimize(&self, request: &Request) -> Result<Outcome> {
        self.check_files(request)?;
        let parts = key::parts(self.config, request)?;
        let key = parts.key();
        let is_forgotten = request.remeasure && self.forget(&key);
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
                    if let Some(uncached) = &entry.uncached {
                        (self.say)(&Message::Note(format!("the engine is not cached: {}", uncached.reason)));
                    }
                    let miss = miss.map(|miss| if is_forgotten { Miss::Asked } else { miss });
                    return Ok(Outcome { report, entry, key: key.as_str().to_owned(), miss });
                }
                Err(error) => (self.say)(&Message::Progress(self.cache.reject(&key, &error.to_string()))),
            }
        }
        Err(Error::new(ErrorKind::Check, "the engine does not give twice what it gave once")
            .with_hint(Remedy::UseEngine(None)))
    }

    /// Removes a cached engine, so that the model is measured again. Returns whether there was one.
    fn forget(&self, key: &Key) -> bool {
        if let Some(note) = self.cache.note() {
            (self.say)(&Message::Note(format!("a cached engine is not replaced: {note}")));
            return false;
        }
        self.cache.forget(key)
    }

    /// Warns if a cached engine needs more memory than is free, which is not part of the key.
    fn say_if_short(&self, report: &Report) {
        let bound = Bound::of(self.config, self.free_bytes);
        if let Some((bound, bytes)) =
            bound.zip(report.allocated_bytes()).filter(|(bound, bytes)| *bytes > bound.bytes())
        {
            let short = bound.refusal("the cached engine", bytes);
            (self.say)(&Message::Note(format!("{short}; optimize under a memory limit to find one that needs less")));
        }
    }

    /// Refuses invalid input files, even if an engine is cached.
    fn check_files(&self, request: &Request) -> Result<()> {
        if !request.inputs.iter().any(|given| matches!(given.content, Content::File(_))) {
            return Ok(());
        }
        inputs::check_files(&Model::open_within(&request.model, self.most_bytes())?, request)
    }

    /// Opens an entry's engine. Unless it has passed with these files on this machine, it is run
    /// once and compared with the recorded outputs.
    pub(super) fn load(&self, entry: &Entry, report: &Report) -> Result<Box<dyn Engine>> {
        let model = prepare::cached(&entry.folder, self.budget)?;
        let settings = self.settings(&entry.folder, &entry.manifest.parts);
        let shapes = report.inputs.iter().map(|input| (input.name.as_str(), input.shape.as_slice()));
        let hidden = Need::of_shapes(&model, shapes)?.hidden;
        let ports = if hidden.is_empty() { None } else { Some(Ports::of(&model)?) };
        let mut engine = engines::open_from(model, &report.candidate, &settings, self.budget)?;
        let state = key::state(self.config, report.candidate.engine)?;
        if !entry.has_passed(&state) {
            check(&entry.manifest.self_check, engine.as_mut(), &inputs::read(&entry.folder)?)?;
            entry.record_pass(&state);
        }
        let Some(ports) = ports else { return Ok(engine) };
        // Values other than the measured ones may need more memory.
        let process = ProcessEngine::new(&entry.folder.join(prepare::PACKED), ports, self.worker.clone());
        Ok(Box::new(process.running(&report.candidate, settings).within(self.limits(), hidden)))
    }

    fn build(&self, request: &Request, parts: &Parts, folder: &Path) -> Result<Built> {
        let model = Model::open_within(&request.model, self.most_bytes())?;
        let settings = self.settings(folder, parts);
        let (sets, (report, prepared)) = self.select(request, &model, &settings)?;
        prepare::store(&prepared, folder, self.config.threads.value.count(), self.budget)?;
        inputs::write(folder, &sets.values[0])?;
        let ports = Ports::of(&prepared)?;
        drop(prepared);
        let process = ProcessEngine::new(&folder.join(prepare::PACKED), ports, self.worker.clone());
        let mut engine = process.running(&report.candidate, settings).within(self.limits(), Vec::new());
        let outputs = engine.run(&sets.values[0])?;
        let ports = engine.outputs().iter().map(|port| port.name.clone());
        let self_check = ports.zip(&outputs).map(|(name, value)| sample(&name, value)).collect::<Result<_>>()?;
        Ok(Built { plan: report.json()?, self_check })
    }
}

impl Search<'_> {
    /// Selects the winner. Where no engine runs the model with the drawn indices, it may compute
    /// others from them: 0 and 1 are tried then.
    fn select(&self, request: &Request, model: &Model, settings: &EngineSettings) -> Result<(Sets, (Report, Model))> {
        let select = |sets: Sets| {
            let selection = Selection { search: self, request, model, sets: &sets, settings };
            let hopeless = sets.values.iter().try_for_each(|set| self.limits().refuse_hopeless(model, set));
            hopeless.map_err(|error| with_least_limit(error, &selection))?;
            let selected = selection.select();
            Ok::<_, Error>((sets, selected))
        };
        let (sets, selected) = select(Sets::make(model, request)?)?;
        match selected {
            Err(error) if error.kind() == ErrorKind::Unsupported && sets.is_wide => {
                (self.say)(&Message::Note(format!("{error}; the integers 0 and 1 are tried as inputs")));
                let (sets, selected) = select(Sets::draw(model, request, Width::Narrow)?)?;
                Ok((sets, selected?))
            }
            selected => Ok((sets, selected?)),
        }
    }
}

fn sample(name: &str, value: &Value) -> Result<Sample> {
    Ok(Sample::take(name, value.shape(), &floats(value)?))
}

fn check(samples: &[Sample], engine: &mut dyn Engine, inputs: &[Value]) -> Result<()> {
    let outputs = engine.run(inputs)?;
    if outputs.len() != samples.len() {
        return Err(Error::new(
            ErrorKind::Check,
            format!("self-check: {} outputs, not {}", outputs.len(), samples.len()),
        ));
    }
    samples
        .iter()
        .zip(&outputs)
        .try_for_each(|(sample, output)| sample.check(output.shape(), &floats(output)?, SELF_CHECK_TOLERANCE))
}
