//! Soundness of the reader: accepted models round-trip, rejected ones get a precise error, and no
//! bytes make it panic.

mod external;
mod mutate;

use super::wire::Writer;
use super::*;
use crate::golden::{CONTROL, VOCODER};
use crate::{DType, ErrorKind};

/// Computes y = x + w, each with one element.
fn sum() -> Model {
    let port = |name| ValueInfo::tensor(name, DType::F32.code(), &[Dim::Known(1)]);
    let graph = Graph {
        name: "sum".to_owned(),
        nodes: vec![Node::new("Add", &["x", "w"], &["y"])],
        initializers: vec![Tensor::from_slice("w", &[1.0f32], &[1]).unwrap()],
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        ..Graph::default()
    };
    Model { ir_version: 8, opsets: vec![Opset { domain: String::new(), version: 17 }], graph, rest: vec![] }
}

fn message(model: Model) -> String {
    let bytes = model.to_bytes().unwrap();
    Model::from_bytes(&bytes).unwrap_err().to_string()
}

#[test]
fn models_come_back() {
    for bytes in [VOCODER, CONTROL] {
        let model = Model::from_bytes(bytes).unwrap();
        let written = model.to_bytes().unwrap();
        let again = Model::from_bytes(&written).unwrap();
        assert_eq!(model, again);
        assert_eq!(written, again.to_bytes().unwrap());
    }
    let model = Model::from_bytes(VOCODER).unwrap();
    assert_eq!(model.graph.nodes.len(), 10);
    assert_eq!(model.graph.initializer("tiny").unwrap().value().unwrap().as_slice::<f32>().unwrap(), [1e-9]);
    assert_eq!(model.graph.nodes[8].attribute("strides").unwrap().ints(), Some(&[2][..]));
    assert_eq!((model.opset(""), model.opset("ai.onnx"), model.opset("other")), (Some(17), Some(17), None));
    assert!(model.rest.windows(6).any(|bytes| bytes == b"golden"), "metadata is carried along");
    let control = Model::from_bytes(CONTROL).unwrap();
    assert_eq!(control.graph.nodes[2].graphs().count(), 2);
}

#[test]
fn unknown_fields_are_carried_along() {
    let mut model = sum();
    let mut unknown = Writer::default();
    unknown.bytes(4711, b"from the future");
    model.rest = unknown.0.clone();
    model.graph.rest = unknown.0.clone();
    model.graph.nodes[0].rest = unknown.0.clone();
    model.graph.initializers[0].rest = unknown.0.clone();
    model.graph.inputs[0].rest = unknown.0;
    let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(again, model);
}

#[test]
fn other_files_are_not_models() {
    for bytes in [&b""[..], b"RIFF\x24\x00\x00\x00WAVE", b"not a model", b"\x89PNG\r\n\x1a\n", &[0xff; 64], b"{}"] {
        let error = Model::from_bytes(bytes).unwrap_err();
        assert!(error.to_string().starts_with("not an ONNX model"), "{error}");
        assert!(error.hint().unwrap().contains(".onnx"));
    }
}

#[test]
fn every_truncation_is_an_error() {
    for bytes in [VOCODER, CONTROL, &sum().to_bytes().unwrap()] {
        for len in 0..bytes.len() {
            // A clean cut after the graph leaves a model without opsets or metadata.
            if let Ok(model) = Model::from_bytes(&bytes[..len]) {
                assert_eq!(model.graph, Model::from_bytes(bytes).unwrap().graph, "cut at {len}");
            }
        }
    }
}

#[test]
fn cycles_are_found_and_disorder_is_mended() {
    let mut model = sum();
    model.graph.nodes = vec![Node::new("Add", &["b", "x"], &["y"]), Node::new("Relu", &["w"], &["b"])];
    let mended = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(mended.graph.nodes[0].op, "Relu");
    model.graph.nodes[1].inputs[0] = "y".to_owned();
    assert_eq!(message(model), "the graph has a cycle through node `y` (Add)");
    let mut model = sum();
    model.graph.nodes[0].inputs[0] = "y".to_owned();
    assert_eq!(message(model), "the graph has a cycle through node `y` (Add)", "a node that reads itself");
}

#[test]
fn tensors_from_4096_bytes_on_are_detached() {
    let mut model = sum();
    for (name, len) in [("small", 1023), ("large", 1024)] {
        model.graph.initializers.push(Tensor::from_slice(name, &vec![0.5f32; len], &[len]).unwrap());
    }
    let lens: Vec<usize> = model.detached().unwrap().tensors.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lens, [4096]);
}

#[test]
fn a_cycle_through_an_inner_graph_is_found() {
    let mut model = Model::from_bytes(CONTROL).unwrap();
    let Some(Content::Graph(inner)) =
        model.graph.nodes[2].attributes.iter_mut().map(|attribute| &mut attribute.content).next()
    else {
        panic!("the node has graphs")
    };
    inner.nodes[0].inputs[0] = "y".to_owned();
    assert!(message(model).contains("cycle"));
}

#[test]
fn names_without_or_with_two_makers() {
    let mut model = sum();
    model.graph.initializers.clear();
    assert_eq!(message(model), "node `y` (Add) reads `w`, which is neither an initialiser nor made by a node");
    let mut model = sum();
    model.graph.nodes.push(Node::new("Relu", &["x"], &["y"]));
    assert!(message(model).contains("makes `y`, which is made elsewhere too"));
    let mut inner = Model::from_bytes(CONTROL).unwrap();
    let branch = inner.graph.nodes.iter_mut().find(|node| node.is("If")).unwrap();
    if let Content::Graph(way) = &mut branch.attributes[0].content {
        way.nodes.push(Node::new("Neg", &["x"], &["sum"]));
    }
    assert!(message(inner).contains("makes `sum`, which is made elsewhere too"), "a name of the graph around");
    let mut model = sum();
    model.graph.initializers.push(model.graph.initializers[0].clone());
    assert!(message(model).contains("two initialisers are called `w`"));
    let mut model = sum();
    model.graph.inputs.push(model.graph.inputs[0].clone());
    assert!(message(model).contains("two inputs are called `x`"));
    let mut model = sum();
    model.graph.outputs[0].name = "z".to_owned();
    assert!(message(model).contains("nothing makes output `z`"));
    let mut model = sum();
    model.graph.nodes[0].op.clear();
    assert!(message(model).contains("no operator"));
}

#[test]
fn versions_are_checked() {
    let error = |model: Model| Model::from_bytes(&model.to_bytes().unwrap()).unwrap_err();
    let model = Model { ir_version: 99, ..sum() };
    assert_eq!(
        (error(model).kind(), message(Model { ir_version: 0, ..sum() }).contains("version 0")),
        (ErrorKind::Version, true)
    );
    assert!(error(Model { opsets: vec![], ..sum() }).to_string().contains("which version"));
}

#[test]
fn sizes_that_overflow_or_do_not_match() {
    let tensor = |write: &dyn Fn(&mut Writer)| {
        let mut to = Writer::default();
        to.int(1, 8);
        to.message(7, |to| to.message(5, |to| write(to)));
        Model::from_bytes(&to.0).unwrap_err().to_string()
    };
    let overflow = tensor(&|to| {
        to.ints(1, &[1 << 40, 1 << 40]);
        to.int(2, 1);
        to.text(8, "w");
    });
    assert_eq!(overflow, "tensor `w`: shape [1099511627776, 1099511627776]: the number of elements overflows");
    let negative = tensor(&|to| {
        to.ints(1, &[-4]);
        to.int(2, 1);
    });
    assert!(negative.contains("invalid shape [-4]"), "{negative}");
    let short = tensor(&|to| {
        to.ints(1, &[1 << 30]);
        to.int(2, 1);
        to.bytes(9, &[0; 12]);
    });
    assert!(short.contains("1073741824 elements of 32 bits have 4294967296 bytes, not 12"), "{short}");
    let odd = tensor(&|to| {
        to.int(2, 1);
        to.bytes(4, &[0; 3]);
    });
    assert!(odd.contains("not a list of floats"), "{odd}");
    let strange = tensor(&|to| to.int(2, 77));
    assert!(strange.contains("element type 77"), "{strange}");
    let strings = tensor(&|to| {
        to.ints(1, &[3]);
        to.int(2, 8);
        to.bytes(6, b"one");
    });
    assert!(strings.contains("3 strings are expected, not 1"), "{strings}");
}

#[test]
fn lists_of_numbers_become_elements() {
    let read = |dtype: i64, number: u32, ints: &[i64]| {
        let mut to = Writer::default();
        to.int(1, 8);
        to.message(7, |to| {
            to.message(5, |to| {
                to.ints(1, &[ints.len() as i64]);
                to.int(2, dtype);
                to.text(8, "w");
                to.ints(number, ints);
            });
        });
        Model::from_bytes(&to.0).unwrap().graph.initializers.remove(0).value().unwrap()
    };
    assert_eq!(read(3, 5, &[-1, 5]).as_slice::<i8>().unwrap(), [-1, 5]);
    assert_eq!(read(7, 7, &[-1, 1 << 40]).as_slice::<i64>().unwrap(), [-1, 1 << 40]);
    assert_eq!(read(12, 11, &[7, 1 << 31]).as_slice::<u32>().unwrap(), [7, 1 << 31]);
    assert_eq!(read(10, 5, &[0x3c00]).as_slice::<half::f16>().unwrap()[0].to_f32(), 1.0);
    assert_eq!(read(9, 5, &[1, 0]).bytes(), [1, 0]);
}

#[test]
fn too_deep_and_too_many() {
    let mut inner = Writer::default();
    for _ in 0..100 {
        let mut node = Writer::default();
        node.message(1, |to| {
            to.bytes(4, b"If");
            to.message(5, |to| {
                to.bytes(1, b"then_branch");
                to.bytes(6, &inner.0);
                to.int(20, 5);
            });
        });
        inner = node;
    }
    let mut to = Writer::default();
    to.int(1, 8);
    to.bytes(7, &inner.0);
    assert!(Model::from_bytes(&to.0).unwrap_err().to_string().contains("deep"));
    let mut to = Writer::default();
    to.int(1, 8);
    to.bytes(7, &[0x0a, 0x00].repeat((1 << 21) + 1));
    assert!(Model::from_bytes(&to.0).unwrap_err().to_string().contains("more than 2097152 parts"));
}
