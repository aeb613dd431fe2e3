//! Rounds of measuring, and the choice.

use std::path::{Path, PathBuf};

use super::bound::Bound;
use super::candidate::threads;
use super::chunk::{Chunk, PIECE, Splitting};
use super::measure::Outcome;
use super::pick::{leaders, pick};
use super::report::InputShape;
use super::worker::{self, Done, Spec, Task};
use super::{Accuracy, Candidate, Latency, Measured, Report, Request, Search, Sets, Surroundings};
use super::{advice, compare, engines, prepare};
use crate::engine::{Operator, Port, onnxruntime, rten};
use crate::format::Value;
use crate::onnx::Model;
use crate::optimize::cache::Temporary;
use crate::runtime::precision::Format;
use crate::runtime::{Profile, size};
use crate::{Error, Kind, Remedy, Result};

/// About how long a candidate is measured.
const SECONDS: f64 = 1.0;
const MOST_RUNS: usize = 300;
/// How many of the best are measured a second time.
const FINALISTS: usize = 3;

/// A search under way.
pub(super) struct Workshop<'a> {
    pub(super) search: &'a Search<'a>,
    pub(super) request: &'a Request,
    pub(super) model: &'a Model,
    pub(super) sets: &'a Sets,
    pub(super) surroundings: Surroundings,
}

/// Files that workers share, gone when dropped.
pub(super) struct Bench {
    folder: Temporary,
    inputs: Vec<Vec<PathBuf>>,
    n_runs: std::cell::Cell<usize>,
}

/// Outputs to compare with, set by set, and the engine that gave them.
pub(super) struct Reference {
    engine: String,
    outputs: Vec<Vec<Value>>,
}

impl Workshop<'_> {
    pub(super) fn select(&self) -> Result<(Report, Model)> {
        let bench = self.bench()?;
        let (profile, terms) = (self.search.config.profile.value, &self.request.terms);
        let engines = engines::available(self.search.config, terms.engine.as_deref())?;
        let reference = self.reference(&bench)?;
        let aim = prepare::Aim {
            values: &self.sets.values[0],
            tolerance: terms.tolerance,
            threads: self.search.config.threads.value.count(),
        };
        let mut models: Vec<(Format, Result<Model>)> = Vec::new();
        let is_tried = |engine: &str, format| terms.precision.formats(profile, engine).contains(&format);
        for format in [Format::Fp32, Format::Fp16, Format::Int8] {
            if !engines.iter().any(|(engine, _)| is_tried(engine, format)) {
                continue;
            }
            let prepared = prepare::prepared(self.model, format, aim);
            if let Ok(model) = &prepared {
                let folder = bench.folder.path().join(format.to_string());
                std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), error))?;
                prepare::write(model, &folder)?;
            }
            models.push((format, prepared));
        }
        let mut all = Vec::new();
        for (engine, _) in &engines {
            for (format, model) in models.iter().filter(|(format, _)| is_tried(engine, *format)) {
                all.extend(self.first_round(&bench, &reference, engine, (*format, model)));
            }
        }
        if self.splitting() == Splitting::AsNeeded && all.iter().any(|measured| self.is_over(measured)) {
            self.measure_in_pieces(&bench, &reference, &mut all);
        }
        let counts = threads(self.search.config);
        for best in leaders(&all, 2).into_iter().cloned().collect::<Vec<_>>() {
            for &threads in &counts[1..] {
                let candidate = Candidate { threads, ..best.candidate.clone() };
                all.push(self.measure(&bench, &reference, candidate));
            }
        }
        self.measure_again(&bench, &reference, &mut all);
        let winner = self.winner(&all)?.clone();
        let prepared = models.into_iter().find(|(format, _)| *format == winner.candidate.precision);
        let prepared = prepared.and_then(|(_, model)| model.ok());
        let prepared = prepared.ok_or_else(|| Error::unsupported("the winner's model is gone"))?;
        let report = self.report(&bench, (winner, all), &reference, &prepared)?;
        Ok((report, prepared))
    }

    /// What the profile tries with an engine and a precision; whole where the model does not allow what it asks for.
    fn first_round(
        &self,
        bench: &Bench,
        reference: &Reference,
        engine: &str,
        (precision, model): (Format, &Result<Model>),
    ) -> Vec<Measured> {
        let threads = threads(self.search.config)[0];
        let candidate = |chunk: Chunk| Candidate { engine: engine.to_owned(), precision, threads, chunk };
        if let Err(error) = model {
            return vec![Measured {
                candidate: candidate(Chunk::Own),
                outcome: None,
                refused: Some(error.to_string()),
            }];
        }
        let chunks = self.splitting().chunks(engine);
        let mut all: Vec<Measured> =
            chunks.into_iter().map(|chunk| self.measure(bench, reference, candidate(chunk))).collect();
        let is_refused = |measured: &Measured| measured.outcome.is_none() && !self.is_over(measured);
        if all.iter().all(|one| is_refused(one) && matches!(one.candidate.chunk, Chunk::Of(_))) {
            all.push(self.measure(bench, reference, candidate(Chunk::Own)));
        }
        all
    }

    pub(super) fn splitting(&self) -> Splitting {
        Splitting::of(self.search.config)
    }

    /// The memory that a candidate may take.
    pub(super) fn bound(&self) -> Option<Bound> {
        Bound::of(self.search.config, self.search.free_bytes)
    }

    /// Whether a candidate was refused because of its memory.
    pub(super) fn is_over(&self, measured: &Measured) -> bool {
        let end = self.bound().map(|bound| bound.to_string());
        matches!((&measured.refused, end), (Some(reason), Some(end)) if reason.ends_with(&end))
    }

    fn bench(&self) -> Result<Bench> {
        // Not in the cache, so that a nearly full one does not decide what can be measured.
        let folder = Temporary::new()?;
        let mut bench = Bench { folder, inputs: Vec::new(), n_runs: Default::default() };
        for (index, set) in self.sets.values.iter().enumerate() {
            bench.inputs.push(worker::write(set, bench.folder.path(), index)?);
        }
        Ok(bench)
    }

    /// FP32 of the model as it is, from ONNX Runtime where it is there, so that no engine of ours judges itself, else from the
    /// embedded engine or whichever runs it.
    fn reference(&self, bench: &Bench) -> Result<Reference> {
        let folder = bench.folder.path().join("reference");
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), error))?;
        prepare::write(self.model, &folder)?;
        let mut reasons = Vec::new();
        let mut names = vec![rten::NAME];
        if onnxruntime::find().is_ok() {
            names.insert(0, "onnxruntime");
        }
        names.extend(self.request.terms.engine.as_deref().filter(|name| !names.contains(name)));
        let threads = self.search.config.threads.value.count();
        let (mut is_short, mut first) = (false, None);
        for chunk in [Chunk::Own, Chunk::Of(PIECE)] {
            if chunk != Chunk::Own && !is_short {
                break;
            }
            for engine in &names {
                let candidate = Candidate { engine: (*engine).to_owned(), precision: Format::Fp32, threads, chunk };
                let spec = self.spec(bench, &folder, &candidate, 0.0)?;
                match self.search.worker.measure(&spec) {
                    Ok(done) => {
                        let outputs = done.outputs.iter().map(|files| worker::read(files)).collect::<Result<_>>()?;
                        return Ok(Reference { engine: (*engine).to_owned(), outputs });
                    }
                    Err(error) if error.kind() == Kind::Io => return Err(error),
                    Err(error) => {
                        is_short |= error.kind() == Kind::Memory;
                        reasons.push(named(engine, &error.to_string()));
                        first = first.or((!error.remedies().is_empty()).then_some(error));
                    }
                }
            }
        }
        let message = format!("no engine runs this model in fp32: {}", reasons.join("; "));
        if let Some(bound) = self.bound().filter(|_| is_short) {
            return Err(Error::new(Kind::Memory, format!("{message}; {bound}")).with_hint(bound.remedy()));
        }
        Err(match first {
            Some(first) => Error::unsupported(message).with_remedies_of(&first),
            None => Error::unsupported(message).with_hint(Remedy::GiveInputValues),
        })
    }

    fn spec(&self, bench: &Bench, folder: &Path, candidate: &Candidate, seconds: f64) -> Result<Spec> {
        let number = bench.n_runs.replace(bench.n_runs.get() + 1);
        let outputs = bench.folder.path().join(format!("run{number}"));
        std::fs::create_dir_all(&outputs).map_err(|error| Error::io(outputs.display(), error))?;
        Ok(Spec {
            model: folder.join(prepare::FILE),
            candidate: candidate.clone(),
            surroundings: self.surroundings.clone(),
            inputs: bench.inputs.clone(),
            outputs,
            seconds,
            most_runs: MOST_RUNS,
            most_bytes: self.bound().map(Bound::bytes).or(self.search.free_bytes),
            task: Task::Measure,
        })
    }

    fn run(&self, bench: &Bench, candidate: &Candidate) -> Result<Done> {
        let folder = bench.folder.path().join(candidate.precision.to_string());
        self.search.worker.measure(&self.spec(bench, &folder, candidate, SECONDS)?)
    }

    pub(super) fn measure(&self, bench: &Bench, reference: &Reference, candidate: Candidate) -> Measured {
        (self.search.say)(&format!("measuring {candidate}"));
        let outcome = self.run(bench, &candidate).and_then(|done| {
            let mut accuracy = Accuracy::EXACT;
            for (files, reference) in done.outputs.iter().zip(&reference.outputs) {
                accuracy = accuracy.and(compare(&worker::read(files)?, reference)?);
            }
            Ok(Outcome {
                load_seconds: done.load_seconds,
                first_seconds: done.first_seconds,
                latency_seconds: Latency::of(&done.seconds),
                peak_bytes: done.peak_bytes,
                accuracy,
            })
        });
        match outcome {
            Ok(outcome) => Measured { refused: self.refusal(&outcome), candidate, outcome: Some(outcome) },
            Err(error) => {
                let bound = self.bound().filter(|_| error.kind() == Kind::Memory);
                let refused = bound.map_or_else(|| error.to_string(), |bound| format!("{error}, {bound}"));
                Measured { candidate, outcome: None, refused: Some(refused) }
            }
        }
    }

    fn refusal(&self, outcome: &Outcome) -> Option<String> {
        let Accuracy { relative, .. } = outcome.accuracy;
        let tolerance = self.request.terms.tolerance;
        if relative.is_nan() || relative > tolerance {
            return Some(format!("its error of {relative:.1e} is above the tolerance of {tolerance:.1e}"));
        }
        let bound = self.bound()?;
        let peak = outcome.peak_bytes.filter(|peak| *peak > bound.bytes())?;
        Some(format!("it takes {}, {bound}", size::show(peak)))
    }

    /// The best once more, in the other order, so that a disturbance does not decide.
    fn measure_again(&self, bench: &Bench, reference: &Reference, all: &mut [Measured]) {
        let finalists: Vec<Candidate> =
            leaders(all, FINALISTS).into_iter().map(|measured| measured.candidate.clone()).collect();
        if finalists.len() < 2 {
            return;
        }
        for candidate in finalists.into_iter().rev() {
            let again = self.measure(bench, reference, candidate.clone());
            let before = all.iter_mut().find(|measured| measured.candidate == candidate);
            if let (Some(before), Some(p50)) = (before, again.p50())
                && before.p50().is_some_and(|first| p50 < first)
            {
                *before = again;
            }
        }
    }

    fn winner<'m>(&self, all: &'m [Measured]) -> Result<&'m Measured> {
        let refusals = || {
            let texts = all.iter().filter_map(|measured| Some((measured, measured.refused.as_ref()?)));
            texts.map(|(measured, reason)| format!("{}: {reason}", measured.candidate)).collect::<Vec<_>>().join("; ")
        };
        if let Some(winner) = pick(self.search.config.profile.value, all) {
            return Ok(winner);
        }
        if let (Some(bound), true) = (self.bound(), all.iter().any(|measured| self.is_over(measured))) {
            let error = Error::new(Kind::Memory, format!("no engine fits into the memory: {}", refusals()));
            let raise = Remedy::RaiseMemoryLimit { least: None };
            return Err(match (self.search.config.profile.value, self.splitting()) {
                (Profile::Emergency, _) => error.with_hint(Remedy::UseProfile("field")).or_hint(raise),
                (_, Splitting::Off) => {
                    error.with_hint(Remedy::Set { key: "chunk_large_tensors", value: "true" }).or_hint(raise)
                }
                _ => error.with_hint(bound.remedy()),
            });
        }
        if all.iter().any(|measured| measured.outcome.is_some()) {
            return Err(Error::new(Kind::Check, format!("no engine is exact enough: {}", refusals()))
                .with_hint(Remedy::RaiseTolerance)
                .or_hint(Remedy::UsePrecision(&["fp32"])));
        }
        Err(Error::unsupported(format!("no engine runs this model: {}", refusals())))
    }

    fn report(
        &self,
        bench: &Bench,
        (winner, candidates): (Measured, Vec<Measured>),
        reference: &Reference,
        prepared: &Model,
    ) -> Result<Report> {
        let outcome = winner.outcome.ok_or_else(|| Error::unsupported("the winner was not measured"))?;
        let operators = self.operators(bench, &winner.candidate);
        let mut advice = advice::advise(self, &winner, &candidates);
        advice.extend(advice::of_operators(&operators));
        let shape =
            |(port, value): (&Port, &Value)| InputShape { name: port.name.clone(), shape: value.shape().to_vec() };
        let name = self.request.model.file_name().unwrap_or_default();
        Ok(Report {
            model_name: name.to_string_lossy().into_owned(),
            inputs: self.sets.ports.iter().zip(&self.sets.values[0]).map(shape).collect(),
            engine_version: engines::version(&winner.candidate.engine)?,
            latency_seconds: outcome.latency_seconds,
            first_result_seconds: outcome.load_seconds + outcome.first_seconds,
            peak_bytes: outcome.peak_bytes,
            accuracy: outcome.accuracy,
            reference: reference.engine.clone(),
            model_bytes: [self.model.to_bytes()?.len() as u64, prepared.to_bytes()?.len() as u64],
            candidate: winner.candidate,
            candidates,
            operators,
            advice,
        })
    }

    /// Where the time goes; the table is an extra, and without it the search goes on.
    fn operators(&self, bench: &Bench, winner: &Candidate) -> Vec<Operator> {
        let folder = bench.folder.path().join(winner.precision.to_string());
        let spec = self.spec(bench, &folder, winner, 0.0);
        let rows = spec.and_then(|spec| {
            let inputs = spec.inputs[..1].to_vec();
            self.search.worker.operators(&Spec { inputs, ..spec })
        });
        rows.unwrap_or_default()
    }
}

/// An engine's error under its name, once.
fn named(engine: &str, error: &str) -> String {
    if error.starts_with(engine) { error.to_owned() } else { format!("{engine}: {error}") }
}
