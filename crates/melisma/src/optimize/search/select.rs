//! Rounds of measuring, and the choice.

use std::path::{Path, PathBuf};

use super::candidate::{PIECE, SMALL_CHUNK, chunks, threads};
use super::measure::Outcome;
use super::report::Operator;
use super::worker::{self, Done, Spec};
use super::{Accuracy, Candidate, Latency, Measured, Report, Request, Search, Sets, Surroundings};
use super::{advice, compare, engines, prepare};
use crate::optimize::engine::{Options, onnxruntime};
use crate::optimize::onnx::Model;
use crate::optimize::value::Value;
use crate::runtime::precision::Format;
use crate::runtime::{Profile, size};
use crate::{Error, Kind, Result};

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
struct Bench {
    folder: PathBuf,
    inputs: Vec<Vec<PathBuf>>,
    n_runs: std::cell::Cell<usize>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Outputs to compare with, set by set, and the engine that gave them.
struct Reference {
    engine: String,
    outputs: Vec<Vec<Value>>,
}

impl Workshop<'_> {
    pub(super) fn select(&self) -> Result<(Report, Model)> {
        let bench = self.bench()?;
        let engines = engines::available(self.search.config, self.request.engine.as_deref())?;
        let reference = self.reference(&bench)?;
        let aim = prepare::Aim {
            values: &self.sets.values[0],
            tolerance: self.request.tolerance,
            threads: self.search.config.threads.value.count(),
        };
        let mut models: Vec<(Format, Result<Model>)> = Vec::new();
        for &format in self.request.precision.formats(self.search.config.profile.value) {
            let prepared = prepare::prepared(self.model, format, aim);
            if let Ok(model) = &prepared {
                let folder = bench.folder.join(format.to_string());
                std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), error))?;
                prepare::write(model, &folder)?;
            }
            models.push((format, prepared));
        }
        let counts = threads(self.search.config);
        let mut all = Vec::new();
        for (engine, _) in &engines {
            for (format, model) in &models {
                for &chunk in chunks(self.search.config.profile.value, engine) {
                    let candidate =
                        Candidate { engine: (*engine).to_owned(), precision: *format, threads: counts[0], chunk };
                    all.push(match model {
                        Ok(_) => self.measure(&bench, &reference, candidate),
                        Err(error) => Measured { candidate, outcome: None, refused: Some(error.to_string()) },
                    });
                }
            }
        }
        for best in ranked(&all).into_iter().take(2).cloned().collect::<Vec<_>>() {
            for &threads in &counts[1..] {
                let candidate = Candidate { threads, ..best.candidate.clone() };
                all.push(self.measure(&bench, &reference, candidate));
            }
        }
        if ranked(&all).is_empty() && self.search.config.profile.value == Profile::Field {
            self.measure_in_chunks(&bench, &reference, &mut all);
        }
        self.measure_again(&bench, &reference, &mut all);
        let winner = self.winner(&all)?.clone();
        let prepared = models.into_iter().find(|(format, _)| *format == winner.candidate.precision);
        let prepared = prepared.and_then(|(_, model)| model.ok());
        let prepared = prepared.ok_or_else(|| Error::unsupported("the winner's model is gone"))?;
        let report = self.report(&bench, (winner, all), &reference, &prepared)?;
        Ok((report, prepared))
    }

    fn bench(&self) -> Result<Bench> {
        let folder = self.surroundings.tensorrt_folder.with_file_name("bench");
        std::fs::create_dir_all(&folder).map_err(|error| crate::runtime::output::failed(&folder, error))?;
        let mut bench = Bench { folder, inputs: Vec::new(), n_runs: Default::default() };
        for (index, set) in self.sets.values.iter().enumerate() {
            bench.inputs.push(worker::write(set, &bench.folder, index)?);
        }
        Ok(bench)
    }

    /// FP32 of the model as it is, from the embedded engine or whichever runs it.
    fn reference(&self, bench: &Bench) -> Result<Reference> {
        let folder = bench.folder.join("reference");
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), error))?;
        prepare::write(self.model, &folder)?;
        let mut reasons = Vec::new();
        let mut names = vec!["rten", "onnxruntime"];
        names.extend(self.request.engine.as_deref().filter(|name| !names.contains(name)));
        for engine in names {
            let threads = self.search.config.threads.value.count();
            let candidate = Candidate { engine: engine.to_owned(), precision: Format::Fp32, threads, chunk: None };
            match self.run(bench, &folder, &candidate, 0.0) {
                Ok(done) => {
                    let outputs = done.outputs.iter().map(|files| worker::read(files)).collect::<Result<_>>()?;
                    return Ok(Reference { engine: engine.to_owned(), outputs });
                }
                Err(error) => reasons.push(format!("{engine}: {error}")),
            }
        }
        let message = format!("no engine runs this model in fp32: {}", reasons.join("; "));
        Err(Error::unsupported(message))
    }

    fn run(&self, bench: &Bench, folder: &Path, candidate: &Candidate, seconds: f64) -> Result<Done> {
        let number = bench.n_runs.replace(bench.n_runs.get() + 1);
        let outputs = bench.folder.join(format!("run{number}"));
        std::fs::create_dir_all(&outputs).map_err(|error| Error::io(outputs.display(), error))?;
        self.search.worker.measure(&Spec {
            model: folder.join(prepare::FILE),
            candidate: candidate.clone(),
            surroundings: self.surroundings.clone(),
            inputs: bench.inputs.clone(),
            outputs,
            seconds,
            most_runs: MOST_RUNS,
        })
    }

    fn measure(&self, bench: &Bench, reference: &Reference, candidate: Candidate) -> Measured {
        (self.search.say)(&format!("measuring {candidate}"));
        let folder = bench.folder.join(candidate.precision.to_string());
        let outcome = self.run(bench, &folder, &candidate, SECONDS).and_then(|done| {
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
            Err(error) => Measured { candidate, outcome: None, refused: Some(error.to_string()) },
        }
    }

    fn refusal(&self, outcome: &Outcome) -> Option<String> {
        let Accuracy { relative, .. } = outcome.accuracy;
        let is_near = relative <= self.request.tolerance;
        if !is_near {
            return Some(format!(
                "its error of {relative:.1e} is above the tolerance of {:.1e}",
                self.request.tolerance
            ));
        }
        let limit = self.search.config.memory_limit.value.bytes()?;
        let peak = outcome.peak_bytes.filter(|peak| *peak > limit)?;
        Some(format!("it takes {}, the limit is {}", size::show(peak), size::show(limit)))
    }

    /// Whatever did not fit into the memory, in pieces; models that do not allow it refuse.
    fn measure_in_chunks(&self, bench: &Bench, reference: &Reference, all: &mut Vec<Measured>) {
        let whole = all.iter().filter(|measured| measured.outcome.is_some());
        let smaller: Vec<Candidate> = whole
            .map(|measured| {
                let chunk = if measured.candidate.engine == "melisma" { SMALL_CHUNK } else { PIECE };
                Candidate { chunk: Some(chunk), ..measured.candidate.clone() }
            })
            .collect();
        for candidate in smaller {
            let measured = self.measure(bench, reference, candidate);
            all.push(measured);
        }
    }

    /// The best once more, in the other order, so that a disturbance does not decide.
    fn measure_again(&self, bench: &Bench, reference: &Reference, all: &mut [Measured]) {
        let finalists: Vec<Candidate> =
            ranked(all).into_iter().take(FINALISTS).map(|measured| measured.candidate.clone()).collect();
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
        let winner = match self.search.config.profile.value {
            Profile::Training => least(all),
            Profile::Emergency => {
                let fit = ranked(all);
                let tensorrt = fit.iter().find(|measured| measured.candidate.engine == "onnxruntime-tensorrt");
                tensorrt.or(fit.first()).copied()
            }
            Profile::Field => ranked(all).first().copied(),
        };
        if let Some(winner) = winner {
            return Ok(winner);
        }
        let over =
            |measured: &Measured| measured.refused.as_ref().is_some_and(|reason| reason.contains("the limit is"));
        if all.iter().any(over) {
            let hint = match self.search.config.profile.value {
                Profile::Emergency => {
                    "the profile emergency does not chunk: use --profile field, or raise --memory-limit"
                }
                Profile::Field | Profile::Training => "raise --memory-limit",
            };
            return Err(
                Error::new(Kind::Memory, format!("no engine fits into the memory: {}", refusals())).with_hint(hint)
            );
        }
        if all.iter().any(|measured| measured.outcome.is_some()) {
            return Err(Error::new(Kind::Check, format!("no engine is exact enough: {}", refusals()))
                .with_hint("raise --tolerance, or keep --precision fp32"));
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
        let operators = self.operators(bench, &winner.candidate, prepared);
        let mut advice = advice::advise(self.search.config, self.request, &winner, &candidates);
        advice.extend(advice::of_operators(&operators));
        Ok(Report {
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

    /// Where the engine tells; the table is an extra, and its failure none of the search.
    fn operators(&self, bench: &Bench, winner: &Candidate, prepared: &Model) -> Vec<Operator> {
        if winner.engine != "onnxruntime" {
            return Vec::new();
        }
        let options = Options { threads: winner.threads, precision: winner.precision };
        let rows = onnxruntime::operators(prepared, &options, &self.sets.values[0], &bench.folder).unwrap_or_default();
        rows.into_iter().map(|(name, seconds, calls)| Operator { name, seconds, calls }).collect()
    }
}

/// The fastest of those that take hardly more memory than the least.
fn least(all: &[Measured]) -> Option<&Measured> {
    let peak = |measured: &Measured| measured.outcome.and_then(|outcome| outcome.peak_bytes).unwrap_or(u64::MAX);
    let fit = ranked(all);
    let least = fit.iter().map(|measured| peak(measured)).min()?;
    fit.into_iter().find(|measured| peak(measured) <= least.saturating_add(least / 20))
}

/// Those that can be chosen, the fastest first.
fn ranked(all: &[Measured]) -> Vec<&Measured> {
    let mut fit: Vec<(f64, &Measured)> = all.iter().filter_map(|measured| Some((measured.p50()?, measured))).collect();
    fit.sort_by(|a, b| a.0.total_cmp(&b.0));
    fit.into_iter().map(|(_, measured)| measured).collect()
}
