//! Chooses the engine for a run: the best cached one that meets the requirements, otherwise one that
//! takes the model as it is.

mod direct;
mod process;
mod repeat;

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value as Json, json};

pub(super) use direct::Direct;
pub(super) use process::ProcessEngine;
pub use repeat::RepeatedRun;

use super::candidate::bound::Bound;
use super::candidate::engines::{available, version};
use super::candidate::{Candidate, Chunk, EngineSettings};
use super::choose::pick::pick;
use super::choose::reference::no_engine;
use super::measure::{Measured, milliseconds};
use super::report::InputShape;
use super::{Evidence, Message, Objective, Report, Requested, Requirements, Search, key};
use crate::config::precision::Format;
use crate::config::{DeviceRequest, Threads};
use crate::engine::{Engine, EngineName, Port, Ports, onnxruntime, rten};
use crate::format::Value;
use crate::onnx::{Model, fingerprint};
use crate::optimize::cache::{Found, Key, Manifest, Parts};
use crate::{Error, ErrorKind, Remedy, Result};

/// How many reasons a message lists at most.
const MAX_REASONS: usize = 3;

/// The model to run and its inputs.
#[derive(Clone)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// The model's file.
    pub path: &'a Path,
    /// The model; an owned model moves its weights into the engine instead of copying them.
    pub model: Cow<'a, Model>,
    /// A value for each input, in the model's order.
    pub values: &'a [Value],
}

impl<'a> Subject<'a> {
    /// Returns the model of the file `path`, with a value for each input.
    pub fn new(path: &'a Path, model: Cow<'a, Model>, values: &'a [Value]) -> Self {
        Self { path, model, values }
    }
}

/// An engine that is ready to run, and why it was chosen.
#[non_exhaustive]
pub struct Chosen {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Its configuration.
    pub candidate: Candidate,
    /// The cache entry that it came from.
    pub cached: Option<Cached>,
    /// Why it was chosen.
    pub reason: String,
}

/// The origin of a cached engine.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cached {
    /// The entry's key.
    pub key: String,
    /// The measurements from the search.
    pub report: Report,
}

/// An entry that satisfies the requirements.
struct Qualified {
    key: Key,
    report: Report,
    measured: Measured,
}

impl Search<'_> {
    /// Reads the model at `path` within the memory that a run may use, and chooses an engine for
    /// it. `values` receives the model's inputs and outputs and returns a value for each input.
    ///
    /// # Errors
    /// The model cannot be read, and those of `values` and [`Search::choose`].
    pub fn open_for_run(
        &self,
        path: &Path,
        requested: Requested<'_>,
        values: impl FnOnce(&Ports) -> Result<Vec<Value>>,
    ) -> Result<(Chosen, Vec<Value>)> {
        let requirements = Requirements::new(self.config, requested)?;
        let model = Model::open_within(path, self.most_bytes())?;
        let values = values(&Ports::of(&model).map_err(|error| error.at(path.display()))?)?;
        let chosen = self.choose(&requirements, Subject { path, model: Cow::Owned(model), values: &values })?;
        (self.say)(&Message::Progress(format!("engine: {chosen}")));
        Ok((chosen, values))
    }

    /// Chooses the engine for a run: the best cached one that meets `requirements`, otherwise one
    /// that takes the model as it is.
    ///
    /// # Errors
    /// No engine works on the device, or no engine takes the model.
    pub fn choose(&self, requirements: &Requirements, subject: Subject<'_>) -> Result<Chosen> {
        requirements.check_device(self.config)?;
        let (mut qualified, mut reasons) = self.qualified(requirements, &subject)?;
        let n_qualified = qualified.len();
        while let Some(index) = self.best(requirements, &qualified) {
            let Qualified { key, report, .. } = qualified.swap_remove(index);
            match self.take(&key, &report) {
                Ok(engine) => {
                    let reason = reason(&report, n_qualified);
                    let candidate = report.candidate.clone();
                    let cached = Some(Cached { key: key.as_str().to_owned(), report });
                    return Ok(Chosen { engine, candidate, cached, reason });
                }
                Err(error) => {
                    (self.say)(&Message::Note(error.to_string()));
                    reasons.push(format!("{}: {error}", short(&key)));
                }
            }
        }
        let (engine, candidate, refused) = self.plain(requirements, subject)?;
        let refused = refused.map(|error| format!("; {error}")).unwrap_or_default();
        Ok(Chosen { engine, candidate, cached: None, reason: explain(&reasons, self.cache.note()) + &refused })
    }

    /// Returns the index of the best entry among those of the strongest evidence, ranked as the search
    /// ranks candidates.
    fn best(&self, requirements: &Requirements, qualified: &[Qualified]) -> Option<usize> {
        let strongest = qualified.iter().map(|entry| entry.report.evidence).max()?;
        let strong = |index: &usize| qualified[*index].report.evidence == strongest;
        let indices: Vec<usize> = (0..qualified.len()).filter(strong).collect();
        let all: Vec<Measured> = indices.iter().map(|&index| qualified[index].measured.clone()).collect();
        let best = pick(self.config.profile.value, requirements.objective, &all)?;
        all.iter().position(|measured| std::ptr::eq(measured, best)).map(|at| indices[at])
    }

    /// Returns the entries that satisfy `requirements`, and why the model's other entries do not.
    fn qualified(&self, requirements: &Requirements, subject: &Subject<'_>) -> Result<(Vec<Qualified>, Vec<String>)> {
        let (entries, n_bad) = self.cache.entries();
        let (mut qualified, mut reasons) = (Vec::new(), Vec::new());
        if n_bad > 0 {
            reasons.push(format!("{n_bad} entries cannot be read; verifying the cache names them"));
        }
        if entries.is_empty() {
            return Ok((qualified, reasons));
        }
        let model = fingerprint(subject.path, self.config.threads.value.count())?;
        let machine = key::machine(self.config)?;
        let shapes = shapes(subject)?;
        for (key, manifest) in entries {
            if manifest.parts.get("model") != Some(&model) {
                continue;
            }
            match self.qualify(&manifest, requirements, (&shapes, &machine)) {
                Ok((report, measured)) => qualified.push(Qualified { key, report, measured }),
                Err(reason) => reasons.push(format!("{}: {reason}", short(&key))),
            }
        }
        Ok((qualified, reasons))
    }

    /// Returns the measurements of an entry that satisfies `requirements`, otherwise the reason
    /// against it.
    fn qualify(
        &self,
        manifest: &Manifest,
        requirements: &Requirements,
        (shapes, machine): (&[InputShape], &Parts),
    ) -> std::result::Result<(Report, Measured), String> {
        let report = Report::read(&manifest.plan).map_err(|error| error.to_string())?;
        let own = report.candidates.iter().find(|measured| measured.candidate == report.candidate);
        let measured = own.cloned().ok_or("its plan does not say what was measured")?;
        let Candidate { engine, precision, threads, .. } = &report.candidate;
        if report.inputs != shapes {
            let [made, own] = [&report.inputs, shapes].map(InputShape::list);
            return Err(format!("made for other shapes: {made}, not {own}"));
        }
        if requirements.engine.is_some_and(|named| !named.includes(*engine)) {
            return Err(format!("its engine is {engine}"));
        }
        match self.config.device.value {
            DeviceRequest::Cpu if engine.is_on_gpu() => return Err(format!("{engine} works on a GPU")),
            DeviceRequest::Cuda(_) if !engine.is_on_gpu() => return Err(format!("{engine} works on the CPU")),
            _ => {}
        }
        if !requirements.precision.allows(self.config.profile.value, *engine, *precision) {
            return Err(format!("its precision is {precision}, {} was asked for", requirements.precision));
        }
        let (error, tolerance) = (report.accuracy.relative, requirements.tolerance);
        if error.is_nan() || error > tolerance {
            return Err(format!("its error of {error:.1e} is above the tolerance of {tolerance:.1e}"));
        }
        if let Some(change) = key::machine_change(&manifest.parts, machine, *engine) {
            return Err(format!("made on another machine: {change}"));
        }
        let now = version(*engine).map_err(|error| error.to_string())?;
        if now != report.engine_version {
            return Err(format!("made with {engine} {}, found {now}", report.engine_version));
        }
        let allowed = self.config.threads.value.count();
        let threads = if *threads == 0 { Threads::Auto.count() } else { *threads };
        if threads > allowed {
            return Err(format!("it uses {threads} threads, {allowed} are allowed"));
        }
        let bound = Bound::least(self.config.memory_limit.value.bytes(), self.free_bytes);
        match bound.zip(report.allocated_bytes()).filter(|(bound, bytes)| *bytes > bound.bytes()) {
            Some((bound, bytes)) => Err(bound.refusal("it", bytes)),
            None => Ok((report, measured)),
        }
    }

    /// Opens an entry; a damaged one, or one that fails its self-check, is quarantined.
    fn take(&self, key: &Key, report: &Report) -> Result<Box<dyn Engine>> {
        match self.cache.take(key) {
            Found::Hit(entry) => {
                let loaded = self.load(&entry, report);
                loaded.map_err(|error| Error::new(ErrorKind::Check, self.cache.reject(key, &error.to_string())))
            }
            Found::Miss(miss) => Err(Error::new(ErrorKind::Check, miss.to_string())),
        }
    }

    /// Returns an engine that runs the model as it is, in FP32: the named one, else the embedded
    /// one, else ONNX Runtime. The error says why the earlier ones rejected the model.
    fn plain(
        &self,
        requirements: &Requirements,
        subject: Subject<'_>,
    ) -> Result<(Box<dyn Engine>, Candidate, Option<Error>)> {
        let names: Vec<EngineName> = match (requirements.engine, self.config.device.value) {
            (Some(name), _) => vec![name],
            (None, DeviceRequest::Cuda(_)) => available(self.config, None)?.iter().map(|(name, _)| *name).collect(),
            (None, _) if onnxruntime::find().is_ok() => vec![rten::NAME, EngineName::Onnxruntime],
            (None, _) => vec![rten::NAME],
        };
        let threads = self.config.threads.value.count();
        let settings = EngineSettings::new(self.config, Default::default(), "");
        let mut refused: Option<Error> = None;
        let Subject { path, model, values } = subject;
        // TensorRT takes minutes to build its engine, so it only runs from the cache.
        let names: Vec<EngineName> =
            names.into_iter().filter(|name| *name != EngineName::OnnxruntimeTensorrt).collect();
        let mut model = Some(model);
        for (index, &engine) in names.iter().enumerate() {
            let candidate = Candidate { engine, precision: Format::Fp32, threads, chunk: Chunk::Own };
            let plain = Direct {
                path,
                limits: self.limits(),
                candidate,
                settings: settings.clone(),
                budget: self.budget,
                worker: self.worker.clone(),
            };
            let own = if index + 1 == names.len() { model.take() } else { model.clone() };
            let Some(own) = own else { break };
            match plain.open(own.into_owned(), values) {
                Ok((engine, candidate)) => return Ok((engine, candidate, refused)),
                Err(error) if error.kind() != ErrorKind::Unsupported => return Err(error.at(path.display())),
                Err(error) => {
                    refused = Some(match refused {
                        None => error,
                        Some(first) => no_engine(format!("{first}; {error}"), &first, &[(engine, error.kind())]),
                    });
                }
            }
        }
        let none = || {
            Error::unsupported("onnxruntime-tensorrt runs cached engines only")
                .with_hint(Remedy::OptimizeFirst { engine: "onnxruntime-tensorrt".to_owned() })
        };
        Err(refused.unwrap_or_else(none).at(path.display()))
    }
}

fn shapes(subject: &Subject<'_>) -> Result<Vec<InputShape>> {
    let ports = Port::inputs(&subject.model)?;
    let shape = |(port, value): (Port, &Value)| InputShape { name: port.name, shape: value.shape().to_vec() };
    Ok(ports.into_iter().zip(subject.values).map(shape).collect())
}

fn short(key: &Key) -> &str {
    &key.as_str()[..12]
}

fn reason(report: &Report, n_qualified: usize) -> String {
    let which = match n_qualified {
        1 => "the only cached engine that qualifies".to_owned(),
        n => format!("the best of {n} cached engines that qualify"),
    };
    let p50 = milliseconds(report.latency_seconds.p50);
    let found = match report.objective {
        Objective::P50 => String::new(),
        objective => format!(", {}", objective.describe()),
    };
    let error = match report.is_independent() {
        true => format!("error {:.1e}", report.accuracy.relative),
        false => "no independent reference".to_owned(),
    };
    let inputs = match report.evidence {
        Evidence::Degenerate => ", with inputs whose outputs never change",
        Evidence::Generated | Evidence::Given => "",
    };
    format!("{which}; measured p50 {p50}, {error}{found}{inputs}")
}

fn explain(reasons: &[String], unusable: Option<&str>) -> String {
    if reasons.is_empty() {
        return unusable.unwrap_or("no engine is cached for this model").to_owned();
    }
    let more = match reasons.len().saturating_sub(MAX_REASONS) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("no cached engine qualifies: {}{more}", reasons[..reasons.len().min(MAX_REASONS)].join("; "))
}

impl Chosen {
    /// Returns the engine's part of `melisma run --json`.
    pub fn keys(&self) -> Json {
        let Candidate { precision, threads, chunk, .. } = &self.candidate;
        let report = self.cached.as_ref().map(|cached| &cached.report);
        json!({
            "engine": self.engine.name(),
            "precision": precision.to_string(),
            "threads": threads,
            "chunk": chunk,
            "cached": self.cached.is_some(),
            "cache_key": self.cached.as_ref().map(|cached| &cached.key),
            "accuracy": report.map(|report| &report.accuracy),
            "reason": self.reason,
        })
    }
}

impl std::fmt::Display for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.cached {
            Some(cached) => write!(f, "{}, cached as {}: {}", self.candidate, &cached.key[..12], self.reason),
            None => write!(f, "{}, not cached: {}", self.candidate, self.reason),
        }
    }
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen")
            .field("candidate", &self.candidate)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}
