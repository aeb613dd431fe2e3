//! The embedded engine: value conversion and rejected models.

use super::*;
use crate::DType;
use crate::golden;
use crate::onnx::{Content, Dim, Graph, Node, Tensor, ValueInfo, ValueType};
use crate::{ErrorKind, Remedy};

fn model(nodes: Vec<Node>, input: (DType, &[usize]), output: DType) -> Model {
    let axes = |shape: &[usize]| shape.iter().map(|&axis| Dim::Known(axis as i64)).collect::<Vec<_>>();
    let graph = Graph {
        nodes,
        inputs: vec![ValueInfo::tensor("x", input.0.code(), &axes(input.1))],
        outputs: vec![ValueInfo {
            name: "y".to_owned(),
            r#type: ValueType::Tensor { dtype: output.code(), shape: None },
            rest: vec![],
        }],
        ..Graph::default()
    };
    Model::of(graph)
}

fn run(model: &Model, x: &Value) -> Result<Value> {
    let options = Options { threads: 2, ..Options::default() };
    Ok(build(model, &options)?.run(std::slice::from_ref(x))?.remove(0))
}

#[test]
fn floats_halves_and_integers_pass() {
    let double = |dtype| model(vec![Node::new("Add", &["x", "x"], &["y"])], (dtype, &[3]), dtype);
    let x = Value::from_slice(&[1.0f32, -2.0, 3.5], &[3]).unwrap();
    assert_eq!(run(&double(DType::F32), &x).unwrap().as_slice::<f32>().unwrap(), [2.0, -4.0, 7.0]);
    let x = Value::from_slice(&[1.0f32, -2.0, 3.5].map(half::f16::from_f32), &[3]).unwrap();
    assert_eq!(run(&double(DType::F16), &x).unwrap().dtype(), DType::F16);
    let x = Value::from_slice(&[1i64, -2, 1 << 20], &[3]).unwrap();
    assert_eq!(run(&double(DType::I64), &x).unwrap().as_slice::<i64>().unwrap(), [2, -4, 1 << 21]);
    let x = Value::from_slice(&[1i64, 2, 1 << 40], &[3]).unwrap();
    assert!(run(&double(DType::I64), &x).unwrap_err().to_string().contains("1099511627776"));
    let not = model(vec![Node::new("Not", &["x"], &["y"])], (DType::Bool, &[2]), DType::Bool);
    let x = Value::from_bytes(DType::Bool, &[2], &[1, 0]).unwrap();
    assert_eq!(run(&not, &x).unwrap().bytes(), [0, 1]);
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let add = model(vec![Node::new("Add", &["x", "x"], &["y"])], (DType::F32, &[3]), DType::F32);
    let error = run(&add, &Value::zeros(DType::F32, &[4]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "input `x`: f32[3] is expected, not f32[4]");
    let error = run(&add, &Value::zeros(DType::I32, &[3]).unwrap()).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::InvalidArgument, "input `x`: f32[3] is expected, not i32[3]")
    );
    let error = build(&add, &Options::default()).unwrap().run(&[]).unwrap_err();
    assert!(error.to_string().contains("takes 1 inputs, not 0"));
}

#[test]
fn unknown_operators_are_all_named() {
    let nodes = vec![
        Node::new("Warble", &["x"], &["a"]),
        Node { domain: "com.example".to_owned(), ..Node::new("Snake", &["a"], &["b"]) },
        Node::new("Relu", &["b"], &["y"]),
    ];
    let error = build(&model(nodes, (DType::F32, &[3]), DType::F32), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "rten: no such operator: Warble, com.example.Snake");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn what_would_be_another_answer_is_refused() {
    let double = model(vec![Node::new("Add", &["x", "x"], &["y"])], (DType::F64, &[1]), DType::F64);
    assert!(build(&double, &Options::default()).unwrap_err().to_string().contains("`x` is f64"));
    let mut sum = model(vec![Node::new("Add", &["x", "x"], &["y"])], (DType::I64, &[1]), DType::I64);
    sum.graph.initializers.push(Tensor::from_slice("c", &[i64::MAX], &[1]).unwrap());
    sum.graph.nodes[0].inputs[1] = "c".to_owned();
    assert!(build(&sum, &Options::default()).unwrap_err().to_string().contains("9223372036854775807"));
}

#[test]
fn a_panic_is_an_error() {
    let pool = ThreadPool::with_num_threads(1);
    let error = guarded(&pool, || -> usize { panic!("index {} of 3", 7) }).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("rten: the engine crashed in its own code ("), "{message}");
    assert!(message.ends_with("): index 7 of 3") && message.contains("/src/engine/rten/tests.rs:"), "{message}");
    assert_eq!(Remedy::of(&error)[0], Remedy::use_engine("onnxruntime"));
    assert_eq!(guarded(&pool, || 5).unwrap(), 5);
}

#[test]
fn golden_models_give_golden_outputs() {
    let read = |name: &str| crate::format::npy::read(golden::optimize(name)).unwrap();
    let model = Model::from_bytes(golden::VOCODER).unwrap();
    let (x, y) = (read("vocoder.x.npy"), read("vocoder.y.npy"));
    let ours = run(&model, &x).unwrap();
    assert_eq!(ours.shape(), y.shape());
    let pairs = ours.as_slice::<f32>().unwrap().iter().zip(y.as_slice::<f32>().unwrap());
    assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) < 2e-6);
    let model = Model::from_bytes(golden::CONTROL).unwrap();
    let x = read("control.x.npy");
    let outputs = build(&model, &Options::default()).unwrap().run(&[x]).unwrap();
    assert_eq!(outputs[0], read("control.y.npy"));
    assert_eq!(outputs[1], read("control.rows.npy"));
}

#[test]
fn zeros_and_equal_values_are_read_as_the_standard_says() {
    let x = Value::from_slice(&[0.0f32, -2.0, 3.0, 3.0, -0.0], &[5]).unwrap();
    let sign = model(vec![Node::new("Sign", &["x"], &["y"])], (DType::F32, &[5]), DType::F32);
    assert_eq!(run(&sign, &x).unwrap().as_slice::<f32>().unwrap(), [0.0, -1.0, 1.0, 1.0, 0.0]);
    let largest = Node::new("ArgMax", &["x"], &["y"]).with("axis", 0).with("keepdims", 0);
    let largest = model(vec![largest], (DType::F32, &[5]), DType::I64);
    assert_eq!(run(&largest, &x).unwrap().as_slice::<i64>().unwrap(), [2]);
    let last = Node::new("ArgMin", &["x"], &["y"]).with("axis", -1).with("select_last_index", 1);
    let last = model(vec![last], (DType::F32, &[2, 2]), DType::I64);
    let x = Value::from_slice(&[1.0f32, 1.0, 2.0, 0.0], &[2, 2]).unwrap();
    assert_eq!(run(&last, &x).unwrap().as_slice::<i64>().unwrap(), [1, 1]);
}

#[test]
fn a_convolution_may_leave_out_its_lists() {
    let mut plain = model(vec![Node::new("Conv", &["x", "x"], &["y"])], (DType::F32, &[1, 1, 4]), DType::F32);
    plain.graph.initializers.push(Tensor::from_slice("w", &[1.0f32, 10.0], &[1, 1, 2]).unwrap());
    plain.graph.nodes[0].inputs[1] = "w".to_owned();
    let x = Value::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[1, 1, 4]).unwrap();
    assert_eq!(run(&plain, &x).unwrap().as_slice::<f32>().unwrap(), [21.0, 32.0, 43.0]);
}

#[test]
fn an_output_of_another_shape_than_promised_is_refused() {
    let mut relu = model(vec![Node::new("Relu", &["x"], &["y"])], (DType::F32, &[3]), DType::F32);
    relu.graph.outputs[0] = ValueInfo::tensor("y", 1, &[Dim::Known(4)]);
    let error = run(&relu, &Value::zeros(DType::F32, &[3]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "rten: output `y` is f32[3], not f32[4]");
}

#[test]
fn a_tensor_of_more_than_all_memory_is_refused() {
    for (op, values) in [
        ("ConstantOfShape", &[1i64 << 20, 1 << 20][..]),
        ("Expand", &[1 << 30, 1 << 10]),
        ("Tile", &[1 << 30, 1 << 10]),
    ] {
        let inputs = if op == "ConstantOfShape" { vec!["n"] } else { vec!["x", "n"] };
        let nodes = vec![Node::new("Relu", &["x"], &["r"]), Node::new(op, &inputs, &["y"])];
        let mut huge = model(vec![Node::new("Relu", &["x"], &["y"])], (DType::F32, &[1]), DType::F32);
        huge.graph.nodes = nodes;
        huge.graph.initializers.push(Tensor::from_slice("n", values, &[values.len()]).unwrap());
        let error = build(&huge.checked().unwrap(), &Options::default()).unwrap_err();
        assert!(error.kind() == ErrorKind::Memory && error.to_string().contains(op), "{error}");
    }
}

/// Returns models with an opset older than version 13.
fn old(nodes: Vec<Node>, shape: &[usize]) -> Model {
    let mut model = model(nodes, (DType::F32, shape), DType::F32);
    model.opsets[0].version = 11;
    model
}

#[test]
fn old_softmax_takes_axes_together() {
    let x = Value::from_slice(&(0..12).map(|i| (i * 7 % 5) as f32).collect::<Vec<_>>(), &[2, 3, 2]).unwrap();
    let exp: Vec<f64> = x.as_slice::<f32>().unwrap().iter().map(|&x| f64::from(x).exp()).collect();
    for (op, axis, per_row) in
        [("Softmax", None, 6), ("LogSoftmax", None, 6), ("Softmax", Some(0), 12), ("Softmax", Some(2), 2)]
    {
        let node = Node::new(op, &["x"], &["y"]);
        let node = axis.map_or_else(|| node.clone(), |axis| node.clone().with("axis", axis));
        let y = run(&old(vec![node], &[2, 3, 2]), &x).unwrap();
        assert_eq!(y.shape(), [2, 3, 2]);
        for (index, &found) in y.as_slice::<f32>().unwrap().iter().enumerate() {
            let row = index / per_row * per_row;
            let share = exp[index] / exp[row..row + per_row].iter().sum::<f64>();
            let expected = if op == "Softmax" { share } else { share.ln() };
            assert!((f64::from(found) - expected).abs() < 1e-6, "{op} {axis:?} at {index}: {found}, not {expected}");
        }
    }
}

#[test]
fn truth_and_softplus_are_the_standards() {
    let x = Value::from_slice(&[0.5f32, 0.0, -0.25, 2.0], &[4]).unwrap();
    let cast = Node::new("Cast", &["x"], &["y"]).with("to", i64::from(DType::Bool.code()));
    let y = run(&model(vec![cast], (DType::F32, &[4]), DType::Bool), &x).unwrap();
    assert_eq!(y.bytes(), [1, 0, 1, 1]);
    let x = Value::from_slice(&[100.0f32, 88.0, 20.5, 1.0, -5.0], &[5]).unwrap();
    let y = run(&model(vec![Node::new("Softplus", &["x"], &["y"])], (DType::F32, &[5]), DType::F32), &x).unwrap();
    for (&x, &y) in x.as_slice::<f32>().unwrap().iter().zip(y.as_slice::<f32>().unwrap()) {
        let expected = f64::from(x).exp().ln_1p();
        assert!((f64::from(y) - expected).abs() < 1e-6 * expected.max(1.0), "{x}: {y}, not {expected}");
    }
}

#[test]
fn uses_that_would_be_misread_are_refused() {
    let refusal = |node: Node| build(&model(vec![node], (DType::F32, &[1, 1, 4]), DType::F32), &Options::default());
    let lengths = Node::new("LSTM", &["x", "x", "x", "", "x"], &["y"]);
    assert!(refusal(lengths).unwrap_err().to_string().contains("LSTM (of sequences with lengths)"));
    let far = Node::new("Conv", &["x", "x"], &["y"]).with("dilations", vec![1i64 << 40]);
    assert!(refusal(far).unwrap_err().to_string().contains("2^31"));
}

#[test]
fn long_chains_have_a_deep_enough_stack() {
    let mut names: Vec<String> = (0..=3000).map(|i| format!("v{i}")).collect();
    (names[0], names[3000]) = ("x".to_owned(), "y".to_owned());
    let chain = names.windows(2).map(|pair| Node::new("Relu", &[&pair[0]], &[&pair[1]])).collect();
    let x = Value::from_slice(&[-1.0f32, 2.0], &[2]).unwrap();
    let y = run(&model(chain, (DType::F32, &[2]), DType::F32), &x).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [0.0, 2.0]);
}

/// Branches are planned on threads with ordinary stacks, where a longer chain would abort the
/// process.
#[test]
fn long_chains_in_branches_are_refused() {
    let branching = |n_nodes: usize| {
        let way = |op: &str| {
            let mut names: Vec<String> = (0..=n_nodes).map(|i| format!("{op}{i}")).collect();
            names[0] = "x".to_owned();
            let r#type = ValueType::Tensor { dtype: DType::F32.code(), shape: None };
            let output = ValueInfo { name: names[n_nodes].clone(), r#type, rest: Vec::new() };
            let nodes = names.windows(2).map(|pair| Node::new(op, &[&pair[0]], &[&pair[1]])).collect();
            Content::Graph(Box::new(Graph { name: op.to_owned(), nodes, outputs: vec![output], ..Graph::default() }))
        };
        let nodes = vec![
            Node::new("ReduceMax", &["x"], &["m"]).with("keepdims", 0),
            Node::new("Cast", &["m"], &["c"]).with("to", i64::from(DType::Bool.code())),
            Node::new("If", &["c"], &["y"]).with("then_branch", way("Relu")).with("else_branch", way("Identity")),
        ];
        model(nodes, (DType::F32, &[2]), DType::F32)
    };
    let x = Value::from_slice(&[-1.0f32, 2.0], &[2]).unwrap();
    assert_eq!(run(&branching(900), &x).unwrap().as_slice::<f32>().unwrap(), [0.0, 2.0]);
    let refused = run(&branching(3000), &x).unwrap_err();
    assert_eq!(
        (refused.kind(), refused.to_string().as_str()),
        (ErrorKind::Unsupported, "rten: node `y` (If) has a graph with a chain of 3000 nodes; at most 1000")
    );
}

#[test]
fn tensors_of_very_many_axes_are_refused() {
    let mut many = model(vec![Node::new("Relu", &["x"], &["y"])], (DType::F32, &[2]), DType::F32);
    many.graph.nodes = vec![Node::new("Unsqueeze", &["x", "axes"], &["y"])];
    let axes: Vec<i64> = (0..2000).collect();
    many.graph.initializers.push(Tensor::from_slice("axes", &axes, &[2000]).unwrap());
    let error = run(&many.checked().unwrap(), &Value::from_slice(&[1.0f32, 2.0], &[2]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("asks for 2000 axes"), "{error}");
}
