//! Compares each pass with the original graph in the embedded engine.

use std::collections::BTreeSet;

use super::*;
use crate::DType;
use crate::engine::{Engine, Options, rten};
use crate::format::{Value, npy};
use crate::golden::{self, CONTROL, VOCODER};
use crate::onnx::{Dim, Tensor, ValueInfo};

fn vocoder() -> (Model, Vec<Value>) {
    let x = npy::read(golden::optimize("vocoder.x.npy")).unwrap();
    (Model::from_bytes(VOCODER).unwrap(), vec![x])
}

fn run(model: &Model, inputs: &[Value]) -> Vec<Value> {
    rten::build(model, &Options::default()).unwrap().run(inputs).unwrap()
}

/// Returns two layers with one matrix each.
fn perceptron() -> (Model, Vec<Value>) {
    let noise = |n: usize, seed: u32| -> Vec<f32> {
        let hash = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
        (0..n as u32).map(|i| (hash(i) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect()
    };
    let graph = Graph {
        nodes: vec![
            Node::new("MatMul", &["x", "w1"], &["h"]),
            Node::new("Relu", &["h"], &["r"]),
            Node::new("Gemm", &["r", "w2", "b2"], &["y"]).with("transB", 1),
        ],
        initializers: vec![
            Tensor::from_slice("w1", &noise(64 * 96, 1), &[64, 96]).unwrap(),
            Tensor::from_slice("w2", &noise(50 * 96, 2), &[50, 96]).unwrap(),
            Tensor::from_slice("b2", &noise(50, 3), &[50]).unwrap(),
        ],
        inputs: vec![ValueInfo::tensor("x", 1, &[Dim::Named("n".to_owned()), Dim::Known(64)])],
        outputs: vec![ValueInfo::tensor("y", 1, &[Dim::Named("n".to_owned()), Dim::Known(50)])],
        ..Graph::default()
    };
    let model = Model::of(graph);
    (model, vec![Value::from_slice(&noise(5 * 64, 4), &[5, 64]).unwrap()])
}

#[test]
fn shapes_are_fixed_or_refused() {
    let (mut model, inputs) = vocoder();
    let raw = run(&model, &inputs);
    let shape = |len| [("x".to_owned(), vec![1, 3, len])];
    fix_shapes(&mut model, &shape(50)).unwrap();
    assert_eq!(run(&model, &inputs), raw);
    assert!(fix_shapes(&mut model, &shape(51)).unwrap_err().to_string().contains("where the model has 50"));
    assert!(fix_shapes(&mut model, &[("z".to_owned(), vec![1])]).unwrap_err().to_string().contains("`z`"));
    assert!(fix_shapes(&mut model, &[("x".to_owned(), vec![1])]).unwrap_err().to_string().contains("3 axes"));
    let (mut model, _) = perceptron();
    model.graph.infos = vec![ValueInfo::tensor("h", 1, &[Dim::Named("n".to_owned()), Dim::Known(96)])];
    fix_shapes(&mut model, &[("x".to_owned(), vec![5, 64])]).unwrap();
    assert_eq!(model.graph.infos, []);
    assert_eq!(model.graph.outputs[0], ValueInfo::tensor("y", 1, &[Dim::Known(5), Dim::Known(50)]));
}

#[test]
fn constants_are_folded() {
    let (mut model, inputs) = vocoder();
    let raw = run(&model, &inputs);
    assert_eq!(fold_constants(&mut model, &rten::evaluate).unwrap(), 2);
    assert!(model.graph.initializer("ra").is_some() && model.graph.initializer("tiny").is_none());
    assert_eq!(run(&model, &inputs), raw);
    let mut control = Model::from_bytes(CONTROL).unwrap();
    let x = npy::read(golden::optimize("control.x.npy")).unwrap();
    let raw = run(&control, std::slice::from_ref(&x));
    fold_constants(&mut control, &rten::evaluate).unwrap();
    assert_eq!(run(&control, std::slice::from_ref(&x)), raw);
    // In a branch: two constants and their sum, and a constant that the branch returns.
    let branch = control.graph.nodes.iter_mut().find(|node| node.is("If")).unwrap();
    for attribute in &mut branch.attributes {
        let crate::onnx::Content::Graph(way) = &mut attribute.content else { continue };
        let constant =
            |name: &str, value: f32| Node::new("Constant", &[], &[name]).with("value_floats", vec![value; 3]);
        way.nodes.insert(0, constant("three", 3.0));
        way.nodes.insert(1, Node::new("Add", &["three", "three"], &["six"]));
        way.nodes.push(Node::new("Mul", &[&way.outputs[0].name, "six"], &["scaled"]));
        way.outputs[0].name = "scaled".to_owned();
    }
    let raw = run(&control, std::slice::from_ref(&x));
    assert_eq!(fold_constants(&mut control, &rten::evaluate).unwrap(), 4);
    assert_eq!(run(&control, &[x]), raw);
}

#[test]
fn snake_is_fused_and_lowered() {
    let (mut model, inputs) = vocoder();
    let raw = run(&model, &inputs);
    assert_eq!(fuse_snake(&mut model), 0, "its factor is not a constant yet");
    fold_constants(&mut model, &rten::evaluate).unwrap();
    assert_eq!(fuse_snake(&mut model), 1);
    let ops: Vec<String> = model.graph.nodes.iter().map(Node::operator).collect();
    assert_eq!(ops, ["Conv", "ai.melisma.Snake", "ConvTranspose", "Tanh"]);
    let model = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert!(rten::build(&model, &Options::default()).unwrap_err().to_string().contains("ai.melisma.Snake"));
    let mut lowered = model;
    lower_snake(&mut lowered);
    assert!(error(&raw, &run(&lowered, &inputs)) < 1e-6);
}

#[test]
fn what_is_not_quite_a_snake_stays() {
    for change in ["Cos", "Tan"] {
        let (mut model, _) = vocoder();
        model.graph.nodes[2].op = change.to_owned();
        fold_constants(&mut model, &rten::evaluate).unwrap();
        assert_eq!(fuse_snake(&mut model), 0);
    }
    let (mut model, _) = vocoder();
    let two = model.graph.initializers.iter_mut().find(|tensor| tensor.name == "two").unwrap();
    *two = Tensor::from_slice("two", &[3.0f32], &[]).unwrap();
    fold_constants(&mut model, &rten::evaluate).unwrap();
    assert_eq!(fuse_snake(&mut model), 0, "a cube");
    let (mut model, _) = vocoder();
    model.graph.outputs.push(ValueInfo::tensor("s", 1, &[]));
    fold_constants(&mut model, &rten::evaluate).unwrap();
    assert_eq!(fuse_snake(&mut model), 0, "the sine is wanted too");
}

#[test]
fn equal_tensors_are_kept_once() {
    let (mut model, inputs) = perceptron();
    let raw = run(&model, &inputs);
    let copy = Tensor { name: "copy".to_owned(), ..model.graph.initializers[2].clone() };
    model.graph.initializers.push(copy);
    model.graph.initializers.push(Tensor::from_slice("unread", &[0f32; 100], &[100]).unwrap());
    model.graph.nodes[2].inputs[2] = "copy".to_owned();
    assert_eq!(share_initializers(&mut model), 200 + 400);
    assert_eq!(model.graph.initializers.len(), 3);
    assert_eq!(run(&model, &inputs), raw);
}

#[test]
fn halves_halve_the_weights() {
    for (mut model, inputs) in [vocoder(), perceptron()] {
        fold_constants(&mut model, &rten::evaluate).unwrap();
        let bytes = |model: &Model| model.graph.initializers.iter().map(Tensor::byte_len).sum::<usize>();
        let (raw, before) = (run(&model, &inputs), bytes(&model));
        to_half(&mut model, &BTreeSet::new()).unwrap();
        assert_eq!(2 * bytes(&model), before);
        assert!(model.graph.initializers.iter().all(|tensor| tensor.dtype == DType::F16.code()));
        assert!(error(&raw, &run(&model, &inputs)) < 2e-3);
    }
}

#[test]
fn kept_nodes_stay_in_full() {
    let (mut model, inputs) = perceptron();
    let raw = run(&model, &inputs);
    let all: BTreeSet<String> = ["h", "r", "y"].map(str::to_owned).into();
    to_half(&mut model, &all).unwrap();
    assert_eq!(run(&model, &inputs), raw);
    assert_eq!(model.graph.nodes.len(), 3, "no cast is needed");
    let (mut model, _) = perceptron();
    to_half(&mut model, &["y".to_owned()].into()).unwrap();
    assert_eq!(model.graph.initializer("w2").unwrap().dtype, DType::F32.code());
    assert!(model.graph.initializer("w1").is_none());
    assert!(error(&raw, &run(&model, &inputs)) < 2e-3);
}

#[test]
fn a_weight_beyond_halves_is_refused() {
    let (mut model, _) = perceptron();
    model.graph.initializers[2] = Tensor::from_slice("b2", &[1e6f32; 50], &[50]).unwrap();
    assert!(to_half(&mut model, &BTreeSet::new()).unwrap_err().to_string().contains("1000000 does not fit"));
}

#[test]
fn sensitive_nodes_are_found_by_measuring() {
    let (mut model, inputs) = perceptron();
    // A bias that FP16 cannot distinguish from its neighbour, in a model whose other weights are
    // exact in FP16.
    for tensor in &mut model.graph.initializers[..2] {
        let exact: Vec<f32> =
            tensor.value().unwrap().as_slice::<f32>().unwrap().iter().map(|x| (x * 64.0).round() / 64.0).collect();
        *tensor = Tensor::from_slice(&tensor.name.clone(), &exact, &tensor.shape.clone()).unwrap();
    }
    model.graph.initializers[2] = Tensor::from_slice("b2", &[3.3333f32; 50], &[50]).unwrap();
    let run = |model: &Model| rten::build(model, &Options::default())?.run(&inputs);
    let keep = keep_list(&model, 1e-5, &run).unwrap();
    assert_eq!(keep.into_iter().collect::<Vec<_>>(), ["y"]);
    assert!(keep_list(&model, 0.1, &run).unwrap().is_empty());
}

#[test]
fn products_in_eight_bits() {
    let (mut model, inputs) = perceptron();
    let raw = run(&model, &inputs);
    assert_eq!(to_int8(&mut model).unwrap(), 2);
    let bytes: usize = model.graph.initializers.iter().map(Tensor::byte_len).sum();
    assert!(bytes < 64 * 96 + 50 * 96 + 1000, "{bytes}");
    let found = run(&model, &inputs);
    assert!(error(&raw, &found) < 0.02, "{}", error(&raw, &found));
    assert!(error(&raw, &found) > 0.0);
}

#[test]
fn differences_are_relative_and_a_nan_counts() {
    let value = |values: &[f32]| vec![Value::from_slice(values, &[values.len()]).unwrap()];
    assert_eq!(error(&value(&[1.0, -4.0]), &value(&[1.0, -3.0])), 0.25);
    assert_eq!(error(&value(&[1.0]), &value(&[f32::NAN])), f32::INFINITY);
    assert_eq!(error(&value(&[1.0]), &value(&[1.0, 2.0])), f32::INFINITY);
    assert_eq!(error(&value(&[f32::NAN]), &value(&[f32::NAN])), 0.0);
}

/// Returns a branch in a branch; inner values have the names of outer ones.
fn branches((outer, inner): (bool, bool), passed: &str) -> Model {
    let f32s = |name: &str| ValueInfo::tensor(name, 1, &[Dim::Named("n".to_owned())]);
    let constant = |name: &str, value: f32| Tensor::from_slice(name, &[value], &[1]).unwrap();
    let sum = |value: f32| Graph {
        nodes: vec![Node::new("Add", &["v", "w"], &["s"])],
        initializers: vec![constant("w", value)],
        outputs: vec![f32s("s")],
        ..Graph::default()
    };
    let nested = Graph {
        nodes: vec![
            Node::new("Identity", &["x"], &["v"]),
            Node::new("If", &["inner"], &["s"]).with("then_branch", sum(1.0)).with("else_branch", sum(2.0)),
            Node::new("Mul", &["s", "w"], &["h"]),
        ],
        outputs: vec![f32s("h"), f32s(passed)],
        ..Graph::default()
    };
    let other = Graph {
        nodes: vec![Node::new("Neg", &["x"], &["h"]), Node::new("Abs", &["h"], &["v"])],
        outputs: vec![f32s("h"), f32s("v")],
        ..Graph::default()
    };
    let flag =
        |name: &str, value: bool| Tensor::new(name, &Value::from_bytes(DType::Bool, &[], &[u8::from(value)]).unwrap());
    let graph = Graph {
        nodes: vec![
            Node::new("Not", &["not_outer"], &["outer"]),
            Node::new("If", &["outer"], &["y", "z"]).with("then_branch", nested).with("else_branch", other),
            Node::new("Add", &["y", "w"], &["out"]),
        ],
        initializers: vec![flag("not_outer", !outer), flag("inner", inner), constant("w", 10.0)],
        inputs: vec![f32s("x")],
        outputs: vec![f32s("out"), f32s("z")],
        ..Graph::default()
    };
    Model::of(graph)
}

#[test]
fn decided_branches_take_the_place_of_their_nodes() {
    let x = [Value::from_slice(&[1.5f32, -2.0, 0.25], &[3]).unwrap()];
    for (outer, inner) in [(true, true), (true, false), (false, true), (false, false)] {
        let raw = run(&branches((outer, inner), "v"), &x);
        // An outer value may be an output of a branch, which the engine itself does not support.
        for passed in ["v", "x"] {
            let mut model = branches((outer, inner), passed);
            assert_eq!(inline_branches(&mut model).unwrap(), 0, "the condition is not folded yet");
            fold_constants(&mut model, &rten::evaluate).unwrap();
            assert_eq!(inline_branches(&mut model).unwrap(), 1 + usize::from(outer));
            assert!(model.graph.nodes.iter().all(|node| !node.is("If")));
            assert_eq!(run(&model, &x), raw, "{outer} {inner}");
            fold_constants(&mut model, &rten::evaluate).unwrap();
            share_initializers(&mut model);
            assert_eq!(run(&model, &x), raw, "{outer} {inner}");
        }
    }
    let mut open = branches((true, true), "v");
    open.graph.nodes.remove(0);
    open.graph.initializers.retain(|tensor| tensor.name != "not_outer");
    open.graph.inputs.push(ValueInfo::tensor("outer", DType::Bool.code(), &[]));
    let mut open = open.checked().unwrap();
    assert_eq!(inline_branches(&mut open).unwrap(), 0, "an input decides");
}

#[test]
fn products_beyond_32_bits_are_not_folded() {
    for (factor, is_folded) in [(3i64, true), (100_000, false)] {
        let graph = Graph {
            nodes: vec![
                Node::new("Mul", &["a", "a"], &["square"]),
                Node::new("Cast", &["square"], &["number"]).with("to", 1),
                Node::new("Mul", &["x", "number"], &["y"]),
            ],
            initializers: vec![Tensor::from_slice("a", &[factor], &[1]).unwrap()],
            inputs: vec![ValueInfo::tensor("x", 1, &[Dim::Known(1)])],
            outputs: vec![ValueInfo::tensor("y", 1, &[Dim::Known(1)])],
            ..Graph::default()
        };
        let mut model = Model::of(graph);
        fold_constants(&mut model, &rten::evaluate).unwrap();
        assert_eq!(model.graph.nodes.len() == 1, is_folded, "{factor}");
    }
}

#[test]
fn what_a_branch_reads_keeps_its_type() {
    let mut control = Model::from_bytes(CONTROL).unwrap();
    let branch = control.graph.nodes.iter_mut().find(|node| node.is("If")).unwrap();
    for attribute in &mut branch.attributes {
        let crate::onnx::Content::Graph(way) = &mut attribute.content else { continue };
        way.nodes[0].inputs[0] = "h".to_owned();
    }
    control.graph.nodes.insert(0, Node::new("Exp", &["x"], &["h"]));
    let mut half = control.checked().unwrap();
    to_half(&mut half, &BTreeSet::new()).unwrap();
    let exp = half.graph.nodes.iter().find(|node| node.is("Exp")).unwrap();
    assert_eq!((exp.inputs[0].as_str(), exp.outputs[0].as_str()), ("x", "h"), "neither is a half");
}

/// A few bytes that request gigabytes stay nodes and cost nothing.
#[test]
fn constants_that_would_be_huge_are_not_computed() {
    let ints = |name: &str, values: &[i64]| Tensor::from_slice(name, values, &[values.len()]).unwrap();
    let number = |name: &str, value: i64| Tensor::from_slice(name, &[value], &[]).unwrap();
    let bombs = [
        Node::new("ConstantOfShape", &["shape"], &["c"]),
        Node::new("Expand", &["one", "shape"], &["c"]),
        Node::new("Tile", &["one", "times"], &["c"]),
        Node::new("Range", &["zero", "many", "step"], &["c"]),
        Node::new("Pad", &["one", "pads"], &["c"]),
    ];
    for bomb in bombs {
        let label = bomb.label();
        let graph = Graph {
            nodes: vec![bomb, Node::new("Shape", &["c"], &["s"]), Node::new("Add", &["x", "s"], &["y"])],
            initializers: vec![
                ints("shape", &[70_000, 70_000]),
                ints("times", &[4_000_000_000 / 2]),
                ints("one", &[1]),
                ints("pads", &[2_000_000_000, 0]),
                number("zero", 0),
                number("many", 2_000_000_000),
                number("step", 1),
            ],
            inputs: vec![ValueInfo::tensor("x", 7, &[Dim::Known(1)])],
            outputs: vec![ValueInfo::tensor("y", 7, &[Dim::Open])],
            ..Graph::default()
        };
        let mut model = Model::of(graph);
        let before = crate::runtime::machine::peak_resident_bytes();
        fold_constants(&mut model, &rten::evaluate).unwrap();
        assert!(model.graph.nodes.iter().any(|node| node.label() == label), "{label}");
        let grown = crate::runtime::machine::peak_resident_bytes().zip(before).map(|(after, before)| after - before);
        assert!(grown.is_none_or(|bytes| bytes < 1 << 30), "{label}: {grown:?}");
    }
}

/// Constants of constants of constants: one pass over any number of nodes.
#[test]
fn long_chains_of_constants_are_folded_at_once() {
    let n_nodes = 300;
    let one = Tensor::from_slice("c0", &[0.5f32], &[1]).unwrap();
    let mut nodes: Vec<Node> = (0..n_nodes)
        .map(|index| Node::new("Add", &[&format!("c{index}"), "c0"], &[&format!("c{}", index + 1)]))
        .collect();
    nodes.push(Node::new("Mul", &["x", &format!("c{n_nodes}")], &["y"]));
    let graph = Graph {
        nodes,
        initializers: vec![one],
        inputs: vec![ValueInfo::tensor("x", 1, &[Dim::Known(1)])],
        outputs: vec![ValueInfo::tensor("y", 1, &[Dim::Known(1)])],
        ..Graph::default()
    };
    let mut model = Model::of(graph);
    assert_eq!(fold_constants(&mut model, &rten::evaluate).unwrap(), n_nodes);
    let folded = model.graph.initializer(&format!("c{n_nodes}")).unwrap().value().unwrap();
    assert_eq!(folded.as_slice::<f32>().unwrap(), [0.5 * (n_nodes + 1) as f32]);
}
