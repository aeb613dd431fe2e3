//! Compares with the embedded engine alone: the same values within rounding, the same bits for
//! every thread count.

use super::*;
use crate::DType;
use crate::engine::rten;
use crate::onnx::{Content, Dim, Graph, Node, Tensor, ValueInfo, ValueType};

fn noise(shape: &[usize], seed: u32) -> Value {
    let hash = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
    let n = shape.iter().product::<usize>() as u32;
    let values: Vec<f32> = (0..n).map(|i| (hash(i) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect();
    Value::from_slice(&values, shape).unwrap()
}

fn tensor(name: &str, shape: &[usize], seed: u32) -> Tensor {
    Tensor::new(name, &noise(shape, seed))
}

fn open(name: &str, dtype: DType, n_axes: usize) -> ValueInfo {
    ValueInfo::tensor(name, dtype.code(), &vec![Dim::Open; n_axes])
}

fn untyped(name: &str) -> ValueInfo {
    let r#type = ValueType::Tensor { dtype: DType::F32.code(), shape: None };
    ValueInfo { name: name.to_owned(), r#type, rest: vec![] }
}

fn model(nodes: Vec<Node>, initializers: Vec<Tensor>, inputs: Vec<ValueInfo>, outputs: &[&str]) -> Model {
    let outputs = outputs.iter().map(|name| untyped(name)).collect();
    let graph = Graph { nodes, initializers, inputs, outputs, ..Graph::default() };
    Model::of(graph)
}

fn options(threads: usize) -> Options {
    Options { threads, ..Options::default() }
}

fn check(model: &Model, inputs: &[Value]) {
    let expected = rten::build(model, &options(1)).unwrap().run(inputs).unwrap();
    let mut engine = build(model, &options(1), &Budget::unlimited()).unwrap();
    let found = engine.run(inputs).unwrap();
    let shapes = |values: &[Value]| values.iter().map(|value| value.shape().to_vec()).collect::<Vec<_>>();
    assert_eq!(shapes(&found), shapes(&expected));
    let error = pass::error(&expected, &found);
    assert!(error < 1e-5, "{inputs:?}: {error}");
    assert_eq!(engine.run(inputs).unwrap(), found, "a second run");
    assert_eq!(build(model, &options(3), &Budget::unlimited()).unwrap().run(inputs).unwrap(), found, "three threads");
}

fn image(n_axes: usize) -> Vec<ValueInfo> {
    vec![open("x", DType::F32, n_axes)]
}

#[test]
fn images_with_pieces_between_convolutions() {
    let nodes = vec![
        Node::new("Conv", &["x", "w1", "b1"], &["a"]).with("pads", vec![1, 1, 1, 1]),
        Node::new("Relu", &["a"], &["b"]),
        Node::new("MaxPool", &["b"], &["c"]).with("kernel_shape", vec![2, 2]).with("strides", vec![2, 2]),
        Node::new("Conv", &["c", "w2"], &["d"]).with("strides", vec![1, 3]).with("pads", vec![0, 2, 1, 0]),
        Node::new("Sigmoid", &["d"], &["e"]),
        Node::new("Conv", &["e", "w3"], &["f"]).with("dilations", vec![2, 1]).with("auto_pad", "VALID"),
        Node::new("Conv", &["e", "w3"], &["g"]).with("dilations", vec![2, 1]),
        Node::new("Add", &["f", "g"], &["y"]),
    ];
    let weights = vec![
        tensor("w1", &[9, 3, 3, 3], 1),
        tensor("b1", &[9], 2),
        tensor("w2", &[12, 9, 2, 4], 3),
        tensor("w3", &[1, 12, 3, 2], 4),
    ];
    let model = model(nodes, weights, image(4), &["y", "b"]);
    check(&model, &[noise(&[1, 3, 20, 31], 5)]);
    check(&model, &[noise(&[2, 3, 16, 40], 6)]);
}

#[test]
fn signals_whose_values_are_read_again() {
    let nodes = vec![
        Node::new("Conv", &["x", "w"], &["a"]).with("pads", vec![2, 0]).with("kernel_shape", vec![3]),
        Node::new("Relu", &["a"], &["b"]),
        Node::new("Mul", &["a", "b"], &["c"]),
        Node::new("Conv", &["c", "w"], &["d"]).with("strides", vec![2]).with("pads", vec![1, 1]),
        Node::new("Shape", &["x"], &["s"]),
        Node::new("Cast", &["s"], &["t"]).with("to", 1),
        Node::new("ReduceSum", &["t"], &["u"]).with("keepdims", 0),
        Node::new("Mul", &["d", "u"], &["y"]),
    ];
    let model = model(nodes, vec![tensor("w", &[4, 4, 3], 1)], image(3), &["y", "a"]);
    check(&model, &[noise(&[3, 4, 17], 2)]);
    let mut twice = model.clone();
    twice.graph.outputs.push(untyped("a"));
    let outputs = build(&twice, &options(1), &Budget::unlimited()).unwrap().run(&[noise(&[3, 4, 17], 2)]).unwrap();
    assert_eq!(outputs[1], outputs[2], "an output that is there twice");
}

/// Returns a model with one convolution of x if the number is 16, otherwise another.
fn branching() -> Model {
    let way = |weight: &str, op: &str| Graph {
        name: weight.to_owned(),
        nodes: vec![
            Node::new("Constant", &[], &[weight]).with("value", tensor("", &[2, 2, 3], weight.len() as u32)),
            Node::new("Conv", &["h", weight], &["p"]).with("pads", vec![1, 1]),
            Node::new(op, &["p"], &["q"]),
            Node::new("Mul", &["q", "x"], &["r"]),
        ],
        outputs: vec![untyped("r"), untyped("p")],
        ..Graph::default()
    };
    let branch = Node::new("If", &["c"], &["y", "z"])
        .with("then_branch", Content::Graph(Box::new(way("w", "Relu"))))
        .with("else_branch", Content::Graph(Box::new(way("other", "Tanh"))));
    let nodes = vec![Node::new("Equal", &["n", "sixteen"], &["c"]), Node::new("Exp", &["x"], &["h"]), branch];
    let sixteen = Tensor::from_slice("sixteen", &[16i64], &[]).unwrap();
    let inputs = vec![open("x", DType::F32, 3), open("n", DType::I64, 0)];
    model(nodes, vec![sixteen], inputs, &["y", "z"])
}

#[test]
fn branches_are_taken_apart() {
    let model = branching();
    for n in [16i64, 8] {
        check(&model, &[noise(&[1, 2, 30], 3), Value::from_slice(&[n], &[]).unwrap()]);
    }
    let engine = build(&model, &options(1), &Budget::unlimited()).unwrap();
    let has_branch = engine.program.steps.iter().any(|step| matches!(step.work, program::Work::Branch(_)));
    assert!(has_branch, "{:?}", engine.program);
}

#[test]
fn relu_is_part_of_the_convolution_before_it() {
    let nodes = vec![Node::new("Conv", &["x", "w"], &["a"]), Node::new("Relu", &["a"], &["y"])];
    let model = model(nodes, vec![tensor("w", &[2, 2, 1, 1], 1)], image(4), &["y"]);
    check(&model, &[noise(&[1, 2, 3, 4], 1)]);
    let mut engine = build(&model, &options(1), &Budget::unlimited()).unwrap();
    assert_eq!(engine.program.steps.len(), 1);
    let (_, operators) = engine.profile(&[noise(&[1, 2, 3, 4], 1)]).unwrap();
    assert_eq!((operators[0].name.as_str(), operators[0].calls), ("Conv + Relu", 1));
}

#[test]
fn convolutions_that_are_not_ours_stay_in_the_pieces() {
    let nodes = vec![
        Node::new("Conv", &["x", "w"], &["a"]).with("group", 2),
        Node::new("Conv", &["a", "v"], &["b"]).with("auto_pad", "SAME_UPPER"),
        Node::new("Conv", &["b", "v"], &["y"]),
    ];
    let tensors = || vec![tensor("w", &[4, 2, 1], 1), tensor("v", &[4, 4, 2], 2)];
    check(&model(nodes.clone(), tensors(), image(3), &["y"]), &[noise(&[1, 4, 9], 1)]);
    let alone =
        build(&model(nodes[..2].to_vec(), tensors(), image(3), &["b"]), &options(1), &Budget::unlimited()).unwrap_err();
    assert_eq!(alone.to_string(), "melisma-mixed: the graph has no dense convolution with constant weights");
}

#[test]
fn what_does_not_fit_is_named() {
    let nodes = vec![Node::new("Conv", &["x", "w"], &["a"]), Node::new("Exp", &["a"], &["y"])];
    let model = model(nodes, vec![tensor("w", &[2, 3, 4], 1)], image(3), &["y"]);
    let mut engine = build(&model, &options(1), &Budget::unlimited()).unwrap();
    let channels = engine.run(&[noise(&[1, 2, 9], 1)]).unwrap_err().to_string();
    assert_eq!(channels, "node `a` (Conv): its input is [1, 2, 9]; its weights are for 3 axes and 3 channels");
    let short = engine.run(&[noise(&[1, 3, 2], 1)]).unwrap_err().to_string();
    assert!(short.contains("too small for taps over 1 x 4"), "{short}");
    assert_eq!(engine.run(&[noise(&[0, 3, 9], 1)]).unwrap()[0].shape(), [0, 2, 6], "a batch of none");
}
