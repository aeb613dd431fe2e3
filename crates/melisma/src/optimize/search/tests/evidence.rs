//! Generated inputs, what they are worth, and whether anything confirms the outputs.

use std::borrow::Cow;

use super::*;
use crate::onnx::{Dim, Graph, Node, Tensor, ValueInfo};
use crate::optimize::search::measure::Width;

/// Looks up rows of a table of 40 rows, shifted by `shift` in a way that lookups cannot follow.
fn embedding(shift: i64) -> Model {
    let table: Vec<f32> = (0..40 * 4).map(|i| (i as f32 * 0.37).sin()).collect();
    let graph = Graph {
        nodes: vec![
            Node::new("Mul", &["ids", "one"], &["same"]),
            Node::new("Add", &["same", "shift"], &["rows"]),
            Node::new("Gather", &["table", "rows"], &["y"]),
            Node::new("Gather", &["table", "ids"], &["z"]),
        ],
        initializers: vec![
            Tensor::from_slice("table", &table, &[40, 4]).unwrap(),
            Tensor::from_slice("one", &[1i64], &[1]).unwrap(),
            Tensor::from_slice("shift", &[shift], &[1]).unwrap(),
        ],
        inputs: vec![ValueInfo::tensor("ids", crate::DType::I64.code(), &[Dim::Known(64)])],
        outputs: ["y", "z"].map(|name| ValueInfo::tensor(name, 1, &[Dim::Known(64), Dim::Known(4)])).to_vec(),
        ..Graph::default()
    };
    Model::of(graph)
}

fn stored(root: &Path, model: &Model) -> Request {
    let path = root.join("model.onnx");
    std::fs::write(&path, model.to_bytes().unwrap()).unwrap();
    Request { model: path, ..request(&[]) }
}

fn ids(sets: &Sets) -> Vec<i64> {
    sets.values.iter().flat_map(|set| set[0].as_slice::<i64>().unwrap().to_vec()).collect()
}

#[test]
fn indices_are_drawn_from_the_whole_table() {
    let root = tempfile::tempdir().unwrap();
    let model = embedding(0);
    let request = stored(root.path(), &model);
    let sets = Sets::make(&model, &request).unwrap();
    let all = ids(&sets);
    assert!(all.len() == 3 * 64 && all.iter().all(|id| (0..40).contains(id)));
    assert!(all.iter().max() > Some(&35) && sets.values[0] != sets.values[1]);
    let narrow = Sets::draw(&model, &request, Width::Narrow).unwrap();
    assert!(ids(&narrow).iter().all(|id| (0..2).contains(id)));
    let outcome = optimize(root.path(), &config(&[("threads", "1")]), &request).unwrap();
    let line = "input     ids: generated: integers from 0 to 39, as node `z` (Gather) allows, 3 draws\n";
    assert!(outcome.report.text().contains(line), "{}", outcome.report.text());
    assert_eq!(outcome.keys()["input_values"][0]["source"], "generated");
    assert_eq!(outcome.report.evidence, Evidence::Generated);
}

/// The model adds 38 to the indices, so that only 0 and 1 stay within the table.
#[test]
fn where_no_engine_takes_the_drawn_indices_narrow_ones_are_tried() {
    let root = tempfile::tempdir().unwrap();
    let request = stored(root.path(), &embedding(38));
    let config = config(&[("threads", "1")]);
    let (outcome, said) = with_search(root.path(), &config, |search| search.optimize(&request).unwrap());
    assert!(said.iter().any(|line| line.ends_with("; the integers 0 and 1 are tried as inputs")), "{said:?}");
    assert!(outcome.report.input_values[0].description.contains("integers from 0 to 1"));
}

#[test]
fn a_result_of_the_users_arrays_is_preferred_to_a_faster_one_of_generated_inputs() {
    let (root, config) = (tempfile::tempdir().unwrap(), config(&[("threads", "1")]));
    let path = golden("vocoder.onnx");
    let x = golden("vocoder.x.npy");
    let given = optimize(root.path(), &config, &request(&[&format!("x={}", x.display())])).unwrap();
    assert_eq!(given.report.evidence, Evidence::Given);
    assert!(given.report.input_values[0].description.starts_with("from ") && given.keys()["evidence"] == "given");
    let generated = optimize(root.path(), &config, &request(&["x=1x3x50"])).unwrap();
    assert_eq!(generated.report.evidence, Evidence::Generated);
    let speed = |outcome: &Outcome, seconds: f64, evidence: Evidence| {
        let mut report = outcome.report.clone();
        report.evidence = evidence;
        report.candidates.iter_mut().for_each(|one| one.outcome.as_mut().unwrap().latency_seconds.p50 = seconds);
        let mut manifest = outcome.entry.manifest.clone();
        manifest.plan = report.json().unwrap();
        choose::seal(&outcome.entry.folder, &manifest);
    };
    let model = Model::open(&path).unwrap();
    let values = [npy::read(&x).unwrap()];
    let chosen = || {
        let subject = Subject { path: &path, model: Cow::Borrowed(&model), values: &values };
        let fp32 = requirements(Wanted::Fp32, 1e-3);
        with_search(root.path(), &config, |search| search.choose(&fp32, subject).unwrap()).0
    };
    speed(&given, 2.0, Evidence::Given);
    speed(&generated, 1.0, Evidence::Generated);
    assert_eq!(chosen().cached.unwrap().key, given.key);
    speed(&given, 2.0, Evidence::Degenerate);
    let taken = chosen();
    assert_eq!(taken.cached.unwrap().key, generated.key, "the faster one, which rests on more");
    speed(&given, 2.0, Evidence::Generated);
    assert_eq!(chosen().cached.unwrap().key, generated.key, "equals are ranked by their figures");
}

#[test]
fn outputs_that_never_change_are_noticed() {
    let root = tempfile::tempdir().unwrap();
    let mut model = perceptron();
    model.graph.nodes.push(Node::new("Sub", &["t", "t"], &["zero"]));
    model.graph.outputs[0].name = "zero".to_owned();
    let request = stored(root.path(), &model.checked().unwrap());
    let config = config(&[("threads", "1")]);
    let (outcome, said) = with_search(root.path(), &config, |search| search.optimize(&request).unwrap());
    assert_eq!(outcome.report.evidence, Evidence::Degenerate);
    let text = "note: with the generated inputs, `zero` is 0 everywhere; give the inputs real values";
    assert!(said.iter().any(|line| line == text), "{said:?}");
    assert!(outcome.report.text().contains("outputs   `zero` is 0 everywhere"), "{}", outcome.report.text());
}

#[test]
fn without_another_engine_the_accuracy_is_not_called_zero() {
    if crate::engine::onnxruntime::find().is_ok() {
        return crate::golden::skip("ONNX Runtime is installed");
    }
    let root = tempfile::tempdir().unwrap();
    let config = config(&[("threads", "1")]);
    let alone = optimize(root.path(), &config, &request(&["x=1x3x64"])).unwrap();
    let text = alone.report.text();
    let line = "accuracy  no independent reference: only rten ran this model, so nothing confirms it\n";
    assert!(text.contains(line) && !alone.report.is_independent(), "{text}");
    assert_eq!(alone.report.difference(), None);
    assert_eq!(alone.keys()["accuracy"]["independent"], false);
    let any = Requirements { engine: None, ..requirements(Wanted::Fp32, 1e-3) };
    let both = optimize(root.path(), &config, &Request { requirements: any, ..request(&["x=1x3x64"]) }).unwrap();
    assert!(both.report.is_independent(), "{}", both.report.text());
    assert!(both.report.text().contains("accuracy  ") && !both.report.text().contains("no independent"));
    let difference = both.report.difference().unwrap();
    assert!(difference > 0.0 && difference < 1e-3, "of other code: {difference}");
}
