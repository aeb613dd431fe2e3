use super::*;
use crate::config::Chunking;
use crate::engine::{Engine, Options, rten};
use crate::golden::optimize as golden;
use crate::onnx::{Dim, Tensor, ValueInfo};
use crate::{ErrorKind, Remedy, Result};

/// Returns a model of these nodes, with inputs and outputs of any shape.
fn model(nodes: Vec<Node>, tensors: Vec<Tensor>, (inputs, outputs): (&[(&str, i32)], &[&str])) -> Model {
    let any = |(name, dtype): &(&str, i32)| ValueInfo {
        name: (*name).to_owned(),
        r#type: crate::onnx::ValueType::Tensor { dtype: *dtype, shape: None },
        rest: Vec::new(),
    };
    let graph = Graph {
        nodes,
        initializers: tensors,
        inputs: inputs.iter().map(any).collect(),
        outputs: outputs.iter().map(|name| any(&(name, 1))).collect(),
        ..Graph::default()
    };
    Model::of(graph)
}

fn ints(name: &str, values: &[i64]) -> Tensor {
    Tensor::from_slice(name, values, &[values.len()]).unwrap()
}

fn zeros(shape: &[usize]) -> Value {
    Value::zeros(crate::DType::F32, shape).unwrap()
}

fn limits(limit: Option<u64>) -> Limits {
    Limits { limit_bytes: limit, free_bytes: Some(20 << 30), chunking: Chunking::Auto }
}

const MIB: u64 = 1 << 20;

/// Returns Tile, Pad and Conv with a constant that makes their output huge.
fn bombs() -> Vec<Model> {
    let io: (&[(&str, i32)], &[&str]) = (&[("x", 1)], &["y"]);
    let tile = || vec![Node::new("Tile", &["x", "n"], &["y"])];
    let pad = || vec![Node::new("Pad", &["x", "n"], &["y"])];
    let conv = Node::new("Conv", &["x", "w"], &["y"]).with("pads", vec![100_000i64; 4]);
    let weight = Tensor::from_slice("w", &[1.0f32], &[1, 1, 1, 1]).unwrap();
    vec![
        model(tile(), vec![ints("n", &[1, 1, 100_000, 100_000])], io),
        model(pad(), vec![ints("n", &[0, 0, 100_000, 100_000, 0, 0, 0, 0])], io),
        model(vec![conv], vec![weight], io),
    ]
}

#[test]
fn bombs_are_refused_before_they_are_built() {
    for bomb in bombs() {
        let x = [zeros(&[1, 1, 1, 1])];
        for limits in [limits(Some(256 * MIB)), limits(None)] {
            let refused = limits.admit(&bomb, &x).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Memory);
            let (text, op) = (refused.to_string(), &bomb.graph.nodes[0].op);
            assert!(text.starts_with(&format!("node `y` ({op}) needs ")), "{text}");
            assert!(text.contains("0GiB") || text.contains("GiB for its output of shape [1, 1, "), "{text}");
            assert!(limits.refuse_hopeless(&bomb, &x).unwrap_err().to_string().contains("node `y`"));
        }
        let refused = limits(Some(256 * MIB)).admit(&bomb, &x).unwrap_err();
        let [Remedy::RaiseMemoryLimit { least }, ..] = Remedy::of(&refused)[..] else { panic!("{refused:?}") };
        let enough = Limits { limit_bytes: least, free_bytes: None, chunking: Chunking::Auto };
        assert_eq!(enough.admit(&bomb, &x).unwrap(), Admission::Whole, "{least:?}");
    }
}

#[test]
fn numbers_that_are_inputs_count() {
    let io: (&[(&str, i32)], &[&str]) = (&[("x", 1), ("n", 7)], &["y"]);
    let tile = model(vec![Node::new("Tile", &["x", "n"], &["y"])], Vec::new(), io);
    let times = |n: i64| [zeros(&[1000]), Value::from_slice(&[n], &[1]).unwrap()];
    assert_eq!(limits(Some(MIB)).admit(&tile, &times(10)).unwrap(), Admission::Whole);
    let refused = limits(Some(MIB)).admit(&tile, &times(1_000_000)).unwrap_err();
    assert!(refused.to_string().contains("node `y` (Tile) needs 3.73GiB"), "{refused}");
    let need = Need::of_shapes(&tile, [("x", &[1000][..]), ("n", &[1])]).unwrap();
    assert_eq!(need.hidden[0].label, "node `y` (Tile)", "other values, other sizes");
}

/// Sizes that follow from the values of a large tensor are unknown in advance.
#[test]
fn what_depends_on_data_goes_apart() {
    let io: (&[(&str, i32)], &[&str]) = (&[("x", 1)], &["y"]);
    let nodes = vec![
        Node::new("ReduceSum", &["x"], &["s"]).with("keepdims", 0i64),
        Node::new("Cast", &["s"], &["i"]).with("to", 7i64),
        Node::new("Unsqueeze", &["i", "zero"], &["n"]),
        Node::new("Tile", &["x", "n"], &["y"]),
    ];
    let counted = model(nodes, vec![ints("zero", &[0])], io);
    let Admission::Apart(hidden) = limits(None).admit(&counted, &[zeros(&[5000])]).unwrap() else { panic!() };
    assert_eq!(hidden.iter().map(|node| node.label.as_str()).collect::<Vec<_>>(), ["node `y` (Tile)"]);
    assert_eq!(limits(None).admit(&counted, &[zeros(&[50])]).unwrap(), Admission::Whole, "few values are followed");
}

/// Every test model runs within its counted memory, and does not need much less.
#[test]
fn shapes_are_those_of_the_engine() -> Result<()> {
    for (name, inputs) in [("control.onnx", "control.x.npy"), ("vocoder.onnx", "vocoder.x.npy")] {
        let model = Model::open(golden(name))?;
        let x = [crate::format::npy::read(golden(inputs))?];
        let need = Need::of(&model, &x)?;
        let outputs = rten::build(&model, &Options::default())?.run(&x)?;
        let bytes: usize = outputs.iter().map(|value| value.len() * shape::size(value.dtype()) as usize).sum();
        let is_known = need.hidden.is_empty();
        assert!(!is_known || need.output_bytes == bytes as u64, "{name}: {need:?}, {bytes}");
        assert!(is_known || name == "control.onnx", "{:?}", need.hidden);
    }
    Ok(())
}

/// Checks each operator against the shape that the engine computes.
#[test]
fn rules_agree_with_the_engine() {
    let n = |op: &str, inputs: &[&str]| Node::new(op, inputs, &["y"]);
    let pads = ints("pads", &[0, 0, 1, 2, 0, 0, 3, 4]);
    let tensors = || {
        vec![
            pads.clone(),
            ints("to", &[2, -1]),
            ints("shape", &[3, 1, 1, 8, 10]),
            ints("zero", &[0]),
            ints("two", &[2]),
            ints("three", &[3]),
            ints("sizes", &[2, 3, 5, 7]),
            ints("none", &[]),
            ints("starts", &[-4, 1]),
            ints("ends", &[i64::from(i32::MAX), -1]),
            ints("axes", &[3, 2]),
            ints("steps", &[2, 1]),
            ints("repeats", &[1, 2, 1, 3]),
            Tensor::from_slice("scales", &[1.0f32, 1.0, 1.5, 2.0], &[4]).unwrap(),
            Tensor::from_slice("w", &[0.5f32; 5 * 3 * 9], &[5, 3, 3, 3]).unwrap(),
            Tensor::from_slice("up", &[0.5f32; 3 * 5 * 16], &[3, 5, 4, 4]).unwrap(),
            Tensor::from_slice("b", &[0.5f32; 40], &[10, 4]).unwrap(),
            Tensor::from_slice("grid", &[0.5f32; 2 * 4 * 4 * 2], &[2, 4, 4, 2]).unwrap(),
        ]
    };
    let cases = [
        n("Relu", &["x"]),
        n("Add", &["x", "scales_"]),
        n("Conv", &["x", "w"]).with("strides", vec![2i64, 1]).with("pads", vec![1i64, 0, 1, 2]),
        n("Conv", &["x", "w"])
            .with("dilations", vec![2i64, 3])
            .with("pads", vec![0i64; 4])
            .with("strides", vec![1i64; 2]),
        n("ConvTranspose", &["x", "up"]).with("strides", vec![2i64, 3]).with("pads", vec![1i64; 4]),
        n("MaxPool", &["x"]).with("kernel_shape", vec![3i64, 2]).with("strides", vec![2i64, 2]),
        n("MaxPool", &["x"]).with("kernel_shape", vec![3i64, 2]).with("strides", vec![2i64, 2]).with("ceil_mode", 1i64),
        n("AveragePool", &["x"]).with("kernel_shape", vec![3i64, 3]).with("pads", vec![1i64; 4]),
        n("GlobalAveragePool", &["x"]),
        n("MatMul", &["x", "b"]),
        n("Reshape", &["x", "to"]),
        n("Transpose", &["x"]).with("perm", vec![0i64, 2, 1, 3]),
        n("Flatten", &["x"]).with("axis", 2i64),
        n("Slice", &["x", "starts", "ends", "axes", "steps"]),
        n("Gather", &["x", "two"]).with("axis", 3i64),
        n("Pad", &["x", "pads"]),
        n("Tile", &["x", "repeats"]),
        n("Expand", &["x_", "shape"]),
        n("Resize", &["x", "", "scales"]).with("mode", "nearest"),
        n("Resize", &["x", "", "", "sizes"]).with("mode", "nearest"),
        n("Concat", &["x", "x"]).with("axis", 1i64),
        n("Unsqueeze", &["x", "zero"]),
        n("ReduceMean", &["x"]).with("axes", vec![1i64, -1]).with("keepdims", 0i64),
        n("ReduceMax", &["x"]),
        n("ArgMax", &["x"]).with("axis", -1i64),
        n("TopK", &["x", "three"]),
        n("Softmax", &["x"]),
        n("Einsum", &["x", "b"]).with("equation", "abcd,de->eb"),
        n("GridSample", &["x", "grid"]),
        n("Shape", &["x"]),
    ];
    for mut case in cases {
        let prelude =
            vec![Node::new("Identity", &["x"], &["scales_"]), Node::new("Unsqueeze", &["x2", "zero"], &["x_"])];
        let prelude = prelude.into_iter().filter(|node| case.inputs.contains(&node.outputs[0])).collect::<Vec<_>>();
        let is_int = ["ArgMax", "Shape"].contains(&case.op.as_str());
        if case.op == "TopK" {
            case.outputs.push("indices".to_owned());
        }
        let label = case.label();
        let nodes = [prelude, vec![case]].concat();
        let reads_x2 = nodes.iter().any(|node| node.inputs.iter().any(|name| name == "x2"));
        let given: &[(&str, i32)] = if reads_x2 { &[("x2", 1)] } else { &[("x", 1)] };
        let mut model = model(nodes, tensors(), (given, &["y"]));
        if is_int {
            model.graph.outputs[0] = ValueInfo { ..any_int() };
        }
        let x = [zeros(if reads_x2 { &[1, 1, 8, 10] } else { &[2, 3, 8, 10] })];
        let walk = shape_of(&model, &x).unwrap_or_else(|| panic!("{label} is hidden"));
        let found =
            rten::build(&model, &Options::default()).unwrap().run(&x).unwrap_or_else(|e| panic!("{label}: {e}"));
        let found: Vec<u64> = found[0].shape().iter().map(|&axis| axis as u64).collect();
        assert_eq!(walk, found, "{label}");
    }
}

fn any_int() -> ValueInfo {
    ValueInfo {
        name: "y".to_owned(),
        r#type: crate::onnx::ValueType::Tensor { dtype: 7, shape: None },
        rest: Vec::new(),
    }
}

fn shape_of(model: &Model, inputs: &[Value]) -> Option<Vec<u64>> {
    let mut walk = Walk { opset: 17, ..Walk::default() };
    for (name, fact) in facts(model, inputs).unwrap() {
        walk.facts.insert(name, fact);
    }
    walk.graph(&model.graph, 0);
    walk.facts.get("y").map(|fact| fact.shape.clone())
}

/// A chain that does not fit whole is computed in pieces; one that fits in no piece is rejected
/// with the lowest limit that works.
#[test]
fn long_signals_are_cut_before_they_are_refused() {
    let axes = |n: i64| [Dim::Known(1), Dim::Known(n), Dim::Named("time".to_owned())];
    let ones = vec![0.5f32; 256];
    let nodes = vec![
        Node::new("Mul", &["x", "wide"], &["h"]),
        Node::new("Conv", &["h", "w"], &["y"]).with("kernel_shape", vec![1i64]),
    ];
    let tensors = vec![
        Tensor::from_slice("wide", &ones, &[1, 256, 1]).unwrap(),
        Tensor::from_slice("w", &ones, &[1, 256, 1]).unwrap(),
    ];
    let mut fan = model(nodes, tensors, (&[("x", 1)], &["y"]));
    fan.graph.inputs[0] = ValueInfo::tensor("x", 1, &axes(1));
    fan.graph.outputs[0] = ValueInfo::tensor("y", 1, &axes(1));
    let x = [zeros(&[1, 1, 20_000])];
    assert_eq!(limits(Some(64 * MIB)).admit(&fan, &x).unwrap(), Admission::Whole);
    let Admission::Pieces(len) = limits(Some(8 * MIB)).admit(&fan, &x).unwrap() else { panic!() };
    assert!((64..20_000).contains(&len), "{len}");
    let off = Limits { chunking: Chunking::Off, ..limits(Some(8 * MIB)) };
    assert_eq!(off.admit(&fan, &x).unwrap_err().kind(), ErrorKind::Memory);
    let refused = limits(Some(1000)).admit(&fan, &x).unwrap_err();
    assert_eq!(Remedy::of(&refused)[0], Remedy::RaiseMemoryLimit { least: Some(MIB) });
}

/// Engines that copy the model need more than the embedded one, and a chain does not need the whole signal.
#[test]
fn other_engines_have_their_own_need() {
    let weights = Tensor::from_slice("w", &vec![0.5f32; 1 << 18], &[512, 512]).unwrap();
    let product = model(vec![Node::new("MatMul", &["x", "w"], &["y"])], vec![weights], (&[("x", 1)], &["y"]));
    let x = [zeros(&[1, 512])];
    let need = Need::of(&product, &x).unwrap();
    assert_eq!((need.weight_bytes, need.model_bytes), (MIB, 2 * MIB), "once as it is, once in packed order");
    for (engine, least) in [(EngineName::Onnxruntime, 5 * MIB), (EngineName::OnnxruntimeCuda, 3 * MIB)] {
        let refused = limits(Some(2 * MIB)).admit_in(engine, &product, &x).unwrap_err();
        assert!(refused.to_string().ends_with("; the memory limit is 2MiB"), "{refused}");
        assert_eq!(Remedy::of(&refused)[0], Remedy::RaiseMemoryLimit { least: Some(least) }, "{refused}");
        assert_eq!(limits(Some(least)).admit_in(engine, &product, &x).unwrap(), Vec::new());
        assert!(limits(None).admit_in(engine, &product, &x).is_ok());
    }
    let vocoder = Model::open(golden("vocoder.onnx")).unwrap();
    let long = [zeros(&[1, 3, 2_000_000])];
    let least = |engine| {
        let refused = limits(Some(MIB)).admit_in(engine, &vocoder, &long).unwrap_err();
        let [Remedy::RaiseMemoryLimit { least: Some(least) }, ..] = Remedy::of(&refused)[..] else { panic!() };
        least
    };
    assert!(least(EngineName::MelismaChain) < least(EngineName::Onnxruntime));
    assert_eq!(least(EngineName::Melisma), least(EngineName::MelismaChain));
}

/// Many nodes, values and constants: the cost must not grow with their square.
#[test]
fn large_graphs_are_walked_once() {
    let chain = |n_nodes: usize| {
        let mut nodes = vec![Node::new("Relu", &["x"], &["v0"])];
        for index in 1..n_nodes {
            let (from, to) = (format!("v{}", index - 1), format!("v{index}"));
            nodes.push(Node::new("Tile", &[&from, &format!("n{index}")], &[&to]));
        }
        let tensors = (1..n_nodes).map(|index| ints(&format!("n{index}"), &[1])).collect();
        let last = format!("v{}", n_nodes - 1);
        model(nodes, tensors, (&[("x", 1)], &[&last]))
    };
    let chains = [2_500, 20_000].map(|n_nodes| (n_nodes, chain(n_nodes)));
    crate::growth::check_linear(2_500, |n_nodes| {
        let (_, chain) = chains.iter().find(|(n, _)| *n == n_nodes).unwrap();
        assert_eq!(limits(None).admit(chain, &[zeros(&[7])]).unwrap(), Admission::Whole);
        rten::check(chain).unwrap();
    });
}
