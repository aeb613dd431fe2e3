//! Picks the winner among the measured candidates.

use crate::config::Profile;
use crate::config::precision::Format;
use crate::engine::EngineName;
use crate::optimize::search::Objective;
use crate::optimize::search::measure::Measured;

/// A lower precision must take at most this share of a higher one's time or memory.
const MAX_SHARE: f64 = 0.9;
/// Engines that take little more than the least memory count as equal.
const EQUAL_MEMORY: f64 = 1.05;
/// Formats from the most to the least accurate.
const DESCENDING: [Format; 4] = [Format::Fp32, Format::Bf16, Format::Fp16, Format::Int8];

/// Returns the candidate that `asked` prefers, else the one that `profile` prefers: `emergency`
/// takes TensorRT if installed, `training` the least memory, `field` the fastest. A lower precision
/// wins only by a gain larger than the noise.
pub(in crate::optimize::search) fn pick(
    profile: Profile,
    asked: Option<Objective>,
    all: &[Measured],
) -> Option<&Measured> {
    let objective = Objective::of(profile, asked);
    let fit = ranked(objective, all);
    if asked.is_none() && profile == Profile::Emergency {
        let tensorrt = |measured: &&Measured| measured.candidate.engine == EngineName::OnnxruntimeTensorrt;
        let tensorrt: Vec<_> = fit.iter().copied().filter(tensorrt).collect();
        return best(objective, &tensorrt).or_else(|| best(objective, &fit));
    }
    best(objective, &fit)
}

/// Returns the eligible candidates, best first.
pub(super) fn ranked(objective: Objective, all: &[Measured]) -> Vec<&Measured> {
    let figure = |measured| Measured::figure(measured, objective);
    let mut fit: Vec<(f64, &Measured)> =
        all.iter().filter_map(|measured| Some((figure(measured)?, measured))).collect();
    fit.sort_by(|a, b| a.0.total_cmp(&b.0));
    fit.into_iter().map(|(_, measured)| measured).collect()
}

/// Returns the best `n`, plus the best of the highest precision, which the others must beat.
pub(super) fn leaders(objective: Objective, all: &[Measured], n: usize) -> Vec<&Measured> {
    let ranked = ranked(objective, all);
    let exact = ranked.iter().position(|measured| measured.candidate.precision == Format::Fp32);
    let exact = exact.filter(|at| *at >= n).map(|at| ranked[at]);
    ranked.into_iter().take(n).chain(exact).collect()
}

/// Returns the best in FP32, unless the best of a lower precision is clearly better than the best so
/// far.
fn best<'m>(objective: Objective, ranked: &[&'m Measured]) -> Option<&'m Measured> {
    let mut best: Option<&Measured> = None;
    for format in DESCENDING {
        let of_format = ranked.iter().copied().filter(|measured| measured.candidate.precision == format);
        let Some(lower) = first(objective, &of_format.collect::<Vec<_>>()) else { continue };
        if best.is_none_or(|best| is_clearly_better(objective, lower, best)) {
            best = Some(lower);
        }
    }
    best
}

/// Returns the first of `ranked`; among those with nearly the least memory the fastest.
fn first<'m>(objective: Objective, ranked: &[&'m Measured]) -> Option<&'m Measured> {
    let first = *ranked.first()?;
    let least = first.figure(objective)?;
    if objective != Objective::Memory {
        return Some(first);
    }
    let is_equal = |measured: &&Measured| {
        measured.figure(objective).is_some_and(|bytes| bytes == least || bytes <= EQUAL_MEMORY * least)
    };
    let equal = ranked.iter().copied().filter(is_equal);
    equal.min_by(|a, b| a.p50().unwrap_or(f64::NAN).total_cmp(&b.p50().unwrap_or(f64::NAN)))
}

/// Returns whether the gain is at least 10 % and larger than the spread of either candidate's runs.
pub(super) fn is_clearly_better(objective: Objective, lower: &Measured, higher: &Measured) -> bool {
    let (Some(lower), Some(higher)) = (&lower.outcome, &higher.outcome) else { return false };
    objective.figure(lower) <= MAX_SHARE * objective.figure(higher) && objective.differ([lower, higher])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::search::Measurement;
    use crate::optimize::search::candidate::{Candidate, Chunk};
    use crate::optimize::search::measure::{Accuracy, Latency, Refusal};

    fn measured(engine: EngineName, precision: Format, [p50, p90]: [f64; 2]) -> Measured {
        Measured {
            candidate: Candidate { engine, precision, threads: 1, chunk: Chunk::Own },
            outcome: Some(Measurement {
                load_seconds: 0.1,
                first_seconds: 0.1,
                latency_seconds: Latency { p50, p90, p99: p90, min: p50, runs: 20 },
                peak_bytes: Some(1 << 20),
                accuracy: Accuracy::EXACT,
            }),
            refused: None,
        }
    }

    fn chosen(all: &[Measured]) -> Format {
        pick(Profile::Field, None, all).unwrap().candidate.precision
    }

    #[test]
    fn a_lower_precision_needs_a_gain_beyond_the_noise() {
        let fp32 = measured(EngineName::Rten, Format::Fp32, [1.00, 1.02]);
        let fp16 = |p50, p90| [measured(EngineName::Rten, Format::Fp16, [p50, p90]), fp32.clone()];
        assert_eq!(chosen(&fp16(0.98, 0.99)), Format::Fp32, "2 % is noise");
        assert_eq!(chosen(&fp16(0.91, 0.92)), Format::Fp32, "less than 10 %");
        assert_eq!(chosen(&fp16(0.85, 1.05)), Format::Fp32, "15 %, and single runs differ by 20 %");
        assert_eq!(chosen(&fp16(0.85, 0.86)), Format::Fp16);
        let noisy = [
            measured(EngineName::Rten, Format::Fp32, [1.0, 1.3]),
            measured(EngineName::Rten, Format::Fp16, [0.8, 0.81]),
        ];
        assert_eq!(chosen(&noisy), Format::Fp32, "the noise of either counts");
        assert_eq!(chosen(&fp16(0.98, 0.99)[..1]), Format::Fp16, "there is nothing else");
    }

    #[test]
    fn each_lower_precision_must_beat_the_one_above_it() {
        let of = |int8| {
            chosen(&[
                measured(EngineName::Rten, Format::Int8, [int8, int8]),
                measured(EngineName::Rten, Format::Fp32, [1.0, 1.0]),
                measured(EngineName::Rten, Format::Fp16, [0.5, 0.5]),
            ])
        };
        assert_eq!((of(0.48), of(0.3)), (Format::Fp16, Format::Int8));
    }

    #[test]
    fn the_fastest_of_the_same_precision_needs_no_margin() {
        let all = [
            measured(EngineName::Rten, Format::Fp32, [1.0, 1.1]),
            measured(EngineName::MelismaChain, Format::Fp32, [0.99, 1.1]),
        ];
        assert_eq!(pick(Profile::Field, None, &all).unwrap().candidate.engine, EngineName::MelismaChain);
    }

    #[test]
    fn the_best_in_fp32_is_always_among_the_leaders() {
        let mut all: Vec<Measured> =
            (1..5).map(|i| measured(EngineName::Rten, Format::Fp16, [f64::from(i) / 10.0; 2])).collect();
        all.push(measured(EngineName::Rten, Format::Fp32, [1.0; 2]));
        let formats =
            |n| leaders(Objective::P50, &all, n).iter().map(|one| one.candidate.precision).collect::<Vec<_>>();
        assert_eq!(formats(2), [Format::Fp16, Format::Fp16, Format::Fp32]);
        for n in 0..=6 {
            assert_eq!((formats(n).len(), formats(n).last()), (5.min(n + 1), Some(&Format::Fp32)), "of {n}");
        }
        assert_eq!(leaders(Objective::P50, &all[4..], 2).len(), 1);
    }

    #[test]
    fn emergency_prefers_tensorrt_and_training_the_least_memory() {
        let mut all = vec![
            measured(EngineName::OnnxruntimeCuda, Format::Fp32, [1.0; 2]),
            measured(EngineName::OnnxruntimeTensorrt, Format::Fp32, [1.5; 2]),
            measured(EngineName::Rten, Format::Fp32, [3.0; 2]),
        ];
        let engine = |profile, all: &[Measured]| pick(profile, None, all).unwrap().candidate.engine;
        assert_eq!(engine(Profile::Emergency, &all), EngineName::OnnxruntimeTensorrt);
        assert_eq!(engine(Profile::Field, &all), EngineName::OnnxruntimeCuda);
        all[2].outcome.as_mut().unwrap().peak_bytes = Some(1 << 10);
        assert_eq!(engine(Profile::Training, &all), EngineName::Rten);
        all[1].refused = Some(Refusal::Inexact("its error is above the tolerance".to_owned()));
        assert_eq!(engine(Profile::Emergency, &all), EngineName::OnnxruntimeCuda);
    }

    #[test]
    fn each_objective_takes_the_best_by_its_figure() {
        let mut all = vec![
            measured(EngineName::Rten, Format::Fp32, [1.0, 3.0]),
            measured(EngineName::MelismaChain, Format::Fp32, [1.5, 1.6]),
            measured(EngineName::MelismaMixed, Format::Fp32, [2.0, 2.1]),
            measured(EngineName::Onnxruntime, Format::Fp32, [2.5, 2.6]),
        ];
        all[2].outcome.as_mut().unwrap().peak_bytes = Some(1 << 10);
        all[3].outcome.as_mut().unwrap().load_seconds = 0.01;
        let engine = |objective| pick(Profile::Field, Some(objective), &all).unwrap().candidate.engine;
        assert_eq!(engine(Objective::P50), EngineName::Rten);
        assert_eq!(engine(Objective::P99), EngineName::MelismaChain);
        assert_eq!(engine(Objective::Memory), EngineName::MelismaMixed);
        assert_eq!(engine(Objective::First), EngineName::Onnxruntime);
        let asked = pick(Profile::Training, Some(Objective::P50), &all).unwrap();
        assert_eq!(asked.candidate.engine, EngineName::Rten, "what is asked for wins over the profile");
    }

    #[test]
    fn among_nearly_equal_memory_the_fastest_wins() {
        let mut all = vec![
            measured(EngineName::Rten, Format::Fp32, [2.0; 2]),
            measured(EngineName::MelismaChain, Format::Fp32, [1.0; 2]),
        ];
        let peak = |measured: &mut Measured, bytes| measured.outcome.as_mut().unwrap().peak_bytes = Some(bytes);
        let chosen = |all: &[Measured]| pick(Profile::Training, None, all).unwrap().candidate.engine;
        peak(&mut all[0], 1000);
        peak(&mut all[1], 1049);
        assert_eq!(chosen(&all), EngineName::MelismaChain);
        peak(&mut all[1], 1051);
        assert_eq!(chosen(&all), EngineName::Rten);
    }
}
