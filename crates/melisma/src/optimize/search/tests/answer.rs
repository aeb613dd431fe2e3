//! The winner beside the default, by each objective.

use super::*;

fn measured(p50: f64, bytes: u64) -> Measurement {
    Measurement {
        load_seconds: 10.0 * p50,
        first_seconds: 0.0,
        latency_seconds: Latency { min: p50, p50, p90: 1.05 * p50, p99: 1.2 * p50, runs: 50 },
        peak_bytes: Some(bytes),
        accuracy: Accuracy::EXACT,
    }
}

/// Returns a report that was really made, with these figures for the winner and the default.
fn report(root: &Path, [ours, theirs]: [Measurement; 2]) -> Report {
    let mut report = optimize(root, &config(&[("threads", "1")]), &request(&["x=1x3x8"])).unwrap().report;
    report.candidates[0].outcome = Some(ours);
    report.candidate = report.candidates[0].candidate.clone();
    report.baseline.engine = EngineName::Onnxruntime;
    report.baseline.outcome = Some(theirs);
    report
}

#[test]
fn a_search_measures_the_default_too() {
    let root = tempfile::tempdir().unwrap();
    let outcome = optimize(root.path(), &config(&[("threads", "1")]), &request(&["x=1x3x64"])).unwrap();
    let baseline = &outcome.report.baseline;
    assert!(baseline.outcome.is_some_and(|outcome| outcome.latency_seconds.p50 > 0.0), "{:?}", baseline.refused);
    let keys = outcome.keys();
    assert!(keys["comparison"]["ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(keys["comparison"]["answer"], outcome.report.answer());
    assert_eq!(keys["objective"], "p50");
    let name = match onnxruntime_is_found() {
        true => "onnxruntime's default",
        false => "the embedded engine's default (rten, fp32, 1 thread)",
    };
    let answer = outcome.report.answer();
    assert!(answer.contains(name) && answer.contains(" on this machine (p50 "), "{answer}");
    let missing = keys["operators_missing"].as_str().unwrap();
    assert!(keys["operators"] == serde_json::json!([]) && missing.contains("a process of their own"), "{missing}");
    assert!(outcome.report.text().contains(&format!("operators of rten: none, {missing}")));
}

fn onnxruntime_is_found() -> bool {
    crate::engine::onnxruntime::find().is_ok()
}

#[test]
fn the_answer_says_whether_the_difference_is_more_than_the_spread() {
    let root = tempfile::tempdir().unwrap();
    let mut report = report(root.path(), [measured(0.5e-3, 1 << 20), measured(1e-3, 4 << 20)]);
    assert_eq!(
        report.answer(),
        "2.0x onnxruntime's default on this machine (p50 0.500 ms against 1.000 ms; p99 0.600 ms against 1.200 ms; \
         beyond the spread)"
    );
    report.baseline.outcome = Some(measured(0.51e-3, 4 << 20));
    let near = report.answer();
    assert!(near.starts_with("onnxruntime's default is as fast on this machine (p50 0.500 ms against "), "{near}");
    assert!(near.ends_with("; 1.02x, within the spread)"), "{near}");
    assert!(!report.comparison().unwrap().is_beyond_spread);
    report.baseline.outcome = Some(measured(0.25e-3, 4 << 20));
    let slower = report.answer();
    assert!(slower.starts_with("onnxruntime's default is faster on this machine (p50 "), "{slower}");
    assert!(slower.ends_with("; 0.5x, beyond the spread)"), "{slower}");
    report.baseline = Baseline { outcome: None, refused: Some("it crashed".to_owned()), ..report.baseline };
    assert_eq!(report.answer(), "no comparison with onnxruntime's default: it crashed");
}

#[test]
fn the_default_is_not_better_than_itself() {
    let root = tempfile::tempdir().unwrap();
    let mut report = report(root.path(), [measured(0.5e-3, 1 << 20), measured(1e-3, 4 << 20)]);
    report.candidates[0].candidate.engine = EngineName::Onnxruntime;
    for threads in [0, crate::config::Threads::Auto.count()] {
        report.candidates[0].candidate.threads = threads;
        report.candidate = report.candidates[0].candidate.clone();
        let answer = report.answer();
        assert!(answer.starts_with("onnxruntime's default is as fast on this machine (p50 "), "{answer}");
        assert!(answer.ends_with("; 2.0x, the same engine with the same options)"), "{answer}");
        assert!(!report.comparison().unwrap().is_beyond_spread);
    }
    report.candidate.precision = Format::Fp16;
    report.candidates[0].candidate.precision = Format::Fp16;
    assert!(report.answer().starts_with("2.0x onnxruntime's default"), "{}", report.answer());
}

#[test]
fn the_answer_is_about_what_was_searched_for() {
    let root = tempfile::tempdir().unwrap();
    let mut report = report(root.path(), [measured(0.5e-3, 1 << 20), measured(1e-3, 4 << 20)]);
    report.objective = Objective::P99;
    assert!(report.answer().starts_with("2.0x onnxruntime's default on this machine (p99 0.600 ms"));
    report.objective = Objective::Memory;
    let answer = report.answer();
    let start = "25 % of the memory of onnxruntime's default on this machine (peak 1MiB against 4MiB; p50 ";
    assert!(answer.starts_with(start) && answer.contains("beyond the 10 %"), "{answer}");
    report.baseline.outcome = Some(measured(1e-3, 1 << 19));
    let answer = report.answer();
    assert!(answer.starts_with("onnxruntime's default needs less memory on this machine (peak 1MiB "), "{answer}");
    assert!(answer.contains("; 200 %, beyond the 10 %"), "{answer}");
    report.baseline.outcome = Some(measured(1e-3, 4 << 20));
    report.objective = Objective::First;
    let answer = report.answer();
    assert!(
        answer.starts_with("2.0x ") && answer.contains("to the first result (5.000 ms against 10.0 ms; "),
        "{answer}"
    );
}

#[test]
fn an_objective_is_part_of_the_key_and_of_the_report() {
    let (root, config) = (tempfile::tempdir().unwrap(), config(&[("threads", "1")]));
    let with = |objective| {
        let requirements = Requirements { objective, ..requirements(Wanted::Fp32, 1e-3) };
        optimize(root.path(), &config, &Request { requirements, ..request(&["x=1x3x64"]) }).unwrap()
    };
    let (median, memory) = (with(None), with(Some(Objective::Memory)));
    assert!(memory.miss.is_some() && median.key != memory.key);
    assert_eq!((median.report.objective, memory.report.objective), (Objective::P50, Objective::Memory));
    assert_eq!(with(Some(Objective::Memory)).miss, None);
    assert!(memory.report.text().contains("searched for the least memory"));
}

#[test]
fn repeated_runs_are_counted_apart_from_the_first() {
    let root = tempfile::tempdir().unwrap();
    let model = Model::open(golden("vocoder.onnx")).unwrap();
    let (x, path) = (npy::read(golden("vocoder.x.npy")).unwrap(), golden("vocoder.onnx"));
    let values = [x];
    let subject = Subject { path: &path, model: std::borrow::Cow::Borrowed(&model), values: &values };
    let fp32 = requirements(Wanted::Fp32, 1e-3);
    let choose = |search: &Search<'_>| search.choose(&fp32, subject.clone()).unwrap();
    let (mut chosen, _) = with_search(root.path(), &config(&[("threads", "1")]), choose);
    let once = chosen.run_repeated(&values, 0).unwrap();
    assert!(once.latency_seconds.is_none() && once.first_seconds > 0.0);
    let more = chosen.run_repeated(&values, 7).unwrap();
    let latency = more.latency_seconds.unwrap();
    assert!(latency.runs == 7 && latency.min <= latency.p50 && latency.p50 <= latency.p99, "{latency}");
    assert_eq!(compare(&more.outputs, &once.outputs).unwrap(), Accuracy::EXACT);
    assert!(more.text().contains("; then p50 ") && more.text().ends_with("(7 runs)"), "{}", more.text());
    assert_eq!(more.keys()["latency_seconds"]["runs"], 7);
}
