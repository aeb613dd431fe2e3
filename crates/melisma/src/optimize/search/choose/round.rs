//! The measuring rounds and the final choice.

use super::least_memory::{LeastMemory, measured_limit_bytes};
use super::pick::{leaders, pick};
use super::{Reference, Scratch, Selection, advice};
use crate::config::Profile;
use crate::config::precision::Format;
use crate::engine::need::Admission;
use crate::engine::{EngineName, Port, rten};
use crate::format::Value;
use crate::onnx::Model;
use crate::optimize::search::candidate::chunk::{Chunk, Splitting};
use crate::optimize::search::candidate::{Candidate, engines, prepare, threads};
use crate::optimize::search::measure::{Measured, Refusal};
use crate::optimize::search::report::InputShape;
use crate::optimize::search::{Baseline, Evidence, Message, Report, evidence};
use crate::{Error, ErrorKind, Remedy, Result};

/// How many of the best are measured a second time.
const FINALISTS: usize = 3;
/// What fits where no measured engine does.
const AS_IT_IS: &str = "run the model as it is: what a run allocates is computed, and fits";

impl Selection<'_> {
    pub(in crate::optimize::search) fn select(&self) -> Result<(Report, Model)> {
        let scratch = self.scratch()?;
        let (profile, requirements) = (self.search.config.profile.value, &self.request.requirements);
        let engines = engines::available(self.search.config, requirements.engine)?;
        let reference = self.reference(&scratch)?;
        let aim = prepare::Aim {
            values: &self.sets.values[0],
            tolerance: requirements.tolerance,
            threads: self.search.config.threads.value.count(),
        };
        let mut models: Vec<(Format, Result<Model>)> = Vec::new();
        let is_tried = |engine: EngineName, format| requirements.precision.formats(profile, engine).contains(&format);
        for format in [Format::Fp32, Format::Fp16, Format::Int8] {
            if !engines.iter().any(|(engine, _)| is_tried(*engine, format)) {
                continue;
            }
            let prepared = prepare::prepared(self.model, format, aim);
            if let Ok(model) = &prepared {
                scratch.store(&format.to_string(), model)?;
            }
            models.push((format, prepared));
        }
        let mut all = Vec::new();
        for (engine, _) in &engines {
            for (format, model) in models.iter().filter(|(format, _)| is_tried(*engine, *format)) {
                all.extend(self.first_round(&scratch, &reference, *engine, (*format, model)));
            }
        }
        if self.splitting() == Splitting::AsNeeded && all.iter().any(|measured| measured.is_over_memory()) {
            self.measure_in_pieces(&scratch, &reference, &mut all);
        }
        let counts = threads(self.search.config);
        let mut baseline = self.baseline(&scratch, &reference);
        for best in leaders(self.objective(), &all, 2).into_iter().cloned().collect::<Vec<_>>() {
            for &threads in &counts[1..] {
                let candidate = Candidate { threads, ..best.candidate.clone() };
                all.push(self.measure(&scratch, &reference, candidate));
            }
        }
        self.measure_default(&scratch, &reference, (&baseline, &mut all));
        self.measure_again(&scratch, &reference, &mut all);
        self.baseline_again(&scratch, &reference, &mut baseline);
        let winner = self.winner(&scratch, &all)?.clone();
        let prepared = models.into_iter().find(|(format, _)| *format == winner.candidate.precision);
        let prepared = prepared.and_then(|(_, model)| model.ok());
        let prepared = prepared.ok_or_else(|| Error::unsupported("the winner's model is gone"))?;
        let report = self.report(&scratch, (winner, all, baseline), &reference, &prepared)?;
        Ok((report, prepared))
    }

    /// Returns the candidates for an engine and a precision under the profile; whole if the model
    /// cannot be split.
    fn first_round(
        &self,
        scratch: &Scratch,
        reference: &Reference,
        engine: EngineName,
        (precision, model): (Format, &Result<Model>),
    ) -> Vec<Measured> {
        let threads = threads(self.search.config)[0];
        let candidate = |chunk: Chunk| Candidate { engine, precision, threads, chunk };
        if let Err(error) = model {
            return vec![Measured {
                candidate: candidate(Chunk::Own),
                outcome: None,
                refused: Some(Refusal::Failed(error.to_string())),
            }];
        }
        let chunks = self.splitting().chunks(engine);
        let mut all: Vec<Measured> =
            chunks.into_iter().map(|chunk| self.measure(scratch, reference, candidate(chunk))).collect();
        let is_refused = |measured: &Measured| measured.outcome.is_none() && !measured.is_over_memory();
        if all.iter().all(|one| is_refused(one) && matches!(one.candidate.chunk, Chunk::Of(_))) {
            all.push(self.measure(scratch, reference, candidate(Chunk::Own)));
        }
        all
    }

    /// Measures the finalists again in reverse order, so that a single disturbance does not decide.
    /// What is too large once is too large.
    fn measure_again(&self, scratch: &Scratch, reference: &Reference, all: &mut [Measured]) {
        let finalists: Vec<Candidate> =
            leaders(self.objective(), all, FINALISTS).into_iter().map(|measured| measured.candidate.clone()).collect();
        if finalists.len() < 2 {
            return;
        }
        for candidate in finalists.into_iter().rev() {
            let again = self.measure(scratch, reference, candidate.clone());
            let before = all.iter_mut().find(|measured| measured.candidate == candidate);
            let Some(before) = before else { continue };
            let figures = again.figure(self.objective()).zip(before.figure(self.objective()));
            if figures.is_some_and(|(again, first)| again < first) || again.is_over_memory() {
                *before = again;
            }
        }
    }

    fn winner<'m>(&self, scratch: &Scratch, all: &'m [Measured]) -> Result<&'m Measured> {
        let refusals = || {
            let texts = all.iter().filter_map(|measured| Some((measured, measured.refused.as_ref()?)));
            texts.map(|(measured, reason)| format!("{}: {reason}", measured.candidate)).collect::<Vec<_>>().join("; ")
        };
        if let Some(winner) = pick(self.search.config.profile.value, self.request.requirements.objective, all) {
            return Ok(winner);
        }
        if let (Some(bound), true) = (self.bound(), all.iter().any(Measured::is_over_memory)) {
            let error = Error::new(ErrorKind::Memory, format!("no engine fits into the memory: {}", refusals()));
            let estimated = LeastMemory::of(self, scratch).map(|least| least.limit_bytes());
            let raise = bound.remedy(estimated.into_iter().chain(measured_limit_bytes(self, scratch, all)).min());
            let error = match (self.search.config.profile.value, self.splitting()) {
                (Profile::Emergency, _) => error.with_hint(Remedy::UseProfile("field".to_owned())).or_hint(raise),
                (_, Splitting::Off) => error.with_hint(Remedy::set("chunk_large_tensors", "true")).or_hint(raise),
                _ => error.with_hint(raise),
            };
            return Err(if self.fits_unmeasured(all) { error.or_hint(AS_IT_IS) } else { error });
        }
        if all.iter().any(|measured| measured.outcome.is_some()) {
            return Err(Error::new(ErrorKind::Check, format!("no engine is exact enough: {}", refusals()))
                .with_hint(Remedy::RaiseTolerance)
                .or_hint(Remedy::use_precision(&["fp32"])));
        }
        Err(Error::unsupported(format!("no engine runs this model: {}", refusals())))
    }

    /// Returns whether the embedded engine takes the model without a search: what such a run allocates is computed, and
    /// needs no room for what other measurements may find.
    fn fits_unmeasured(&self, all: &[Measured]) -> bool {
        let is_embedded = |measured: &Measured| measured.candidate.engine == rten::NAME && measured.is_over_memory();
        let limits = self.search.limits();
        let admits = |inputs: &Vec<Value>| {
            limits.admit(self.model, inputs).is_ok_and(|admission| !matches!(admission, Admission::Apart(_)))
        };
        all.iter().any(is_embedded) && self.sets.values.first().is_some_and(admits)
    }

    fn report(
        &self,
        scratch: &Scratch,
        (winner, candidates, baseline): (Measured, Vec<Measured>, Baseline),
        reference: &Reference,
        prepared: &Model,
    ) -> Result<Report> {
        let outcome = winner.outcome.ok_or_else(|| Error::unsupported("the winner was not measured"))?;
        let names: Vec<String> = Port::outputs(self.model)?.into_iter().map(|port| port.name).collect();
        let degenerate = evidence::degenerate(&names, &reference.outputs)?;
        let evidence = Evidence::of(&self.sets.origins, degenerate.as_deref());
        if let Some(degenerate) = degenerate.as_ref().filter(|_| evidence == Evidence::Degenerate) {
            let text = format!("with the generated inputs, {degenerate}; give the inputs real values");
            (self.search.say)(&Message::Note(text));
        }
        let mut tables = self.operators(scratch, &winner, &candidates);
        let own = tables.remove(0);
        let peak = self.peak(scratch, &winner.candidate, &outcome);
        let mut advice = advice::advise(self, (&winner, peak), &candidates);
        advice.extend(advice::of_operators(&own.operators));
        let shape =
            |(port, value): (&Port, &Value)| InputShape { name: port.name.clone(), shape: value.shape().to_vec() };
        let name = self.request.model.file_name().unwrap_or_default();
        Ok(Report {
            model_name: name.to_string_lossy().into_owned(),
            inputs: self.sets.ports.iter().zip(&self.sets.values[0]).map(shape).collect(),
            engine_version: engines::version(winner.candidate.engine)?,
            latency_seconds: outcome.latency_seconds,
            first_result_seconds: outcome.first_result_seconds(),
            peak_bytes: outcome.peak_bytes,
            program_bytes: self.program_bytes(scratch, &winner.candidate),
            accuracy: outcome.accuracy,
            reference: reference.engine.to_string(),
            model_bytes: [self.model.to_bytes()?.len() as u64, prepared.to_bytes()?.len() as u64],
            candidate: winner.candidate,
            candidates,
            operators: own.operators,
            operators_missing: own.missing,
            other_operators: tables,
            input_values: self.sets.origins.clone(),
            evidence,
            degenerate: degenerate.filter(|_| evidence == Evidence::Degenerate),
            objective: self.objective(),
            baseline,
            advice,
        })
    }
}
