//! Compares our engine with the embedded one: the same signals within rounding, the same bits for
//! every step and thread count.

use super::*;
use crate::engine::rten;
use crate::onnx::synthetic::{Snac, snac_decoder};
use crate::onnx::{Graph, Node, Tensor, ValueInfo};

fn noise(shape: &[usize], seed: u32) -> Value {
    let hash = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
    let n = shape.iter().product::<usize>() as u32;
    let values: Vec<f32> = (0..n).map(|i| (hash(i) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect();
    Value::from_slice(&values, shape).unwrap()
}

fn options(threads: usize) -> Options {
    Options { threads, ..Options::default() }
}

fn small() -> Model {
    snac_decoder(&Snac { latent_dim: 24, dim: 32, strides: &[3, 2] }, 7).unwrap()
}

/// Passes `x [1, 6, T]` through nodes that end in `y`.
fn model(nodes: Vec<Node>, initializers: Vec<Tensor>) -> Model {
    let open = |name: &str| {
        ValueInfo::tensor(name, 1, &[Dim::Named("b".to_owned()), Dim::Known(6), Dim::Named("t".to_owned())])
    };
    let mut output = open("y");
    output.r#type = crate::onnx::ValueType::Tensor { dtype: 1, shape: None };
    let graph = Graph { nodes, initializers, inputs: vec![open("x")], outputs: vec![output], ..Graph::default() };
    Model::of(graph)
}

fn weight(name: &str, shape: &[usize], seed: u32) -> Tensor {
    Tensor { name: name.to_owned(), ..Tensor::new(name, &noise(shape, seed)) }
}

fn conv(x: &str, y: &str, weight: &str, [taps, dilation]: [i64; 2]) -> Node {
    let pad = taps / 2 * dilation;
    Node::new("Conv", &[x, weight], &[y])
        .with("kernel_shape", vec![taps])
        .with("dilations", vec![dilation])
        .with("pads", vec![pad, pad])
}

fn check(model: &Model, x: &Value, tolerance: f32) {
    let expected = rten::build(model, &options(1)).unwrap().run(std::slice::from_ref(x)).unwrap();
    let found = build(model, &options(1), &Budget::unlimited()).unwrap().run(std::slice::from_ref(x)).unwrap();
    let error = pass::error(&expected, &found);
    assert!(error < tolerance, "{x:?}: {error}");
    for (threads, step) in [(1, 1), (2, 3), (3, 1000)] {
        let again = build(model, &options(threads), &Budget::unlimited())
            .unwrap()
            .with_step(step)
            .run(std::slice::from_ref(x))
            .unwrap();
        assert_eq!(again, found, "{threads} threads, steps of {step}");
    }
}

#[test]
fn a_decoder_of_all_kernels() {
    for len in [1, 2, 7, 33] {
        check(&small(), &noise(&[1, 24, len], len as u32), 2e-5);
    }
}

#[test]
fn a_golden_vocoder_in_batches() {
    let model = Model::from_bytes(crate::golden::VOCODER).unwrap();
    check(&model, &noise(&[1, 3, 50], 1), 1e-5);
    let mut batches = model.clone();
    let graph = &mut batches.graph;
    for port in graph.inputs.iter_mut().chain(&mut graph.outputs) {
        if let crate::onnx::ValueType::Tensor { shape: Some(axes), .. } = &mut port.r#type {
            axes[0] = Dim::Open;
        }
    }
    check(&batches, &noise(&[3, 3, 20], 2), 1e-5);
}

#[test]
fn dense_convolutions_curves_and_branches() {
    let nodes = vec![
        conv("x", "a", "w1", [5, 2]),
        Node::new("LeakyRelu", &["a"], &["b"]).with("alpha", 0.1f32),
        conv("b", "c", "w2", [3, 3]),
        Node::new("Relu", &["c"], &["d"]),
        conv("d", "e", "w2", [3, 1]),
        Node::new("Add", &["e", "b"], &["f"]),
        Node::new("Tanh", &["f"], &["y"]),
    ];
    let model = model(nodes, vec![weight("w1", &[8, 6, 5], 1), weight("w2", &[8, 8, 3], 2)]);
    check(&model, &noise(&[1, 6, 40], 3), 1e-5);
    check(&model, &noise(&[2, 6, 1], 4), 1e-5);
}

#[test]
fn a_depthwise_dilated_convolution_alone() {
    let nodes = vec![conv("x", "y", "w", [3, 4]).with("group", 6)];
    check(&model(nodes, vec![weight("w", &[6, 1, 3], 5)]), &noise(&[1, 6, 30], 6), 1e-5);
}

#[test]
fn the_time_of_each_kernel_is_told() {
    let (mut engine, x) =
        (build(&small(), &options(1), &Budget::unlimited()).unwrap().with_step(4), noise(&[1, 24, 9], 1));
    let (outputs, operators) = engine.profile(std::slice::from_ref(&x)).unwrap();
    assert_eq!(outputs, engine.run(&[x]).unwrap());
    let names: Vec<&str> = operators.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!(names, ["depthwise Conv", "Conv", "Snake + ConvTranspose", "residual unit", "Snake + Conv + Tanh"]);
    assert!(operators.iter().all(|operator| operator.seconds > 0.0 && operator.calls > 0));
}

#[test]
fn no_signal_is_no_output() {
    let mut engine = build(&small(), &options(2), &Budget::unlimited()).unwrap();
    let out = engine.run(&[Value::zeros(DType::F32, &[1, 24, 0]).unwrap()]).unwrap();
    assert_eq!(out[0].shape(), [1, 1, 0]);
    let first = engine.run(&[noise(&[1, 24, 9], 1)]).unwrap();
    engine.run(&[noise(&[1, 24, 30], 2)]).unwrap();
    assert_eq!(engine.run(&[noise(&[1, 24, 9], 1)]).unwrap(), first, "nothing is left of the signal before");
}

#[test]
fn what_does_not_fit_is_named() {
    let refusal = |nodes: Vec<Node>, tensors: Vec<Tensor>| {
        build(&model(nodes, tensors), &options(1), &Budget::unlimited()).unwrap_err().to_string()
    };
    let w = || vec![weight("w", &[6, 6, 3], 1)];
    let unknown = refusal(vec![Node::new("Sigmoid", &["x"], &["a"]), Node::new("Gelu", &["a"], &["y"])], vec![]);
    assert_eq!(unknown, "melisma-chain: no such operator: Gelu, Sigmoid");
    let strided = refusal(vec![conv("x", "y", "w", [3, 1]).with("strides", vec![2])], w());
    assert!(strided.starts_with("melisma-chain: node `y` (Conv): only stride 1"), "{strided}");
    let ways = refusal(
        vec![
            conv("x", "a", "w", [3, 1]),
            conv("x", "b", "w", [3, 1]),
            conv("x", "c", "w", [3, 1]),
            Node::new("Add", &["a", "b"], &["d"]),
            Node::new("Add", &["c", "d"], &["y"]),
        ],
        w(),
    );
    assert_eq!(ways, "melisma-chain: `x` is read by 3 nodes");
    let alone = refusal(vec![Node::new("Add", &["x", "w"], &["y"])], vec![weight("w", &[1, 6, 1], 1)]);
    assert!(alone.contains("node `y` (Add) does not close a branch"), "{alone}");
    let far = refusal(vec![conv("x", "y", "w", [3, 1 << 40])], w());
    assert!(far.contains("it looks back over 2199023255552 rows"), "{far}");
    let up = Node::new("ConvTranspose", &["x", "w"], &["y"]).with("strides", vec![2]);
    assert!(refusal(vec![up], w()).contains("only twice as many taps"));
}

#[test]
#[ignore = "extended: the whole decoder for 24 kHz, against the embedded engine"]
fn the_whole_decoder() {
    let model = snac_decoder(&Snac::SNAC_24KHZ, 0).unwrap();
    check(&model, &noise(&[1, 768, 20], 1), 1e-4);
}
