//! Serializes models. Tensors are written as raw data, lists element by element as in the format's
//! schema.

use super::tensor::Data;
use super::wire::Writer;
use super::{Attribute, Content, Dim, Graph, Model, Node, Tensor, ValueInfo, ValueType};

pub(super) fn model(model: &Model) -> Vec<u8> {
    // Reserves most of the space: growing later would hold the old and the new buffer at once.
    let bytes: usize = model.graph.initializers.iter().map(|tensor| tensor.byte_len() + 64).sum();
    let mut to = Writer(Vec::with_capacity(bytes + bytes / 64 + 4096));
    to.int(1, model.ir_version);
    for opset in &model.opsets {
        to.message(8, |to| {
            to.text(1, &opset.domain);
            to.int(2, opset.version);
        });
    }
    to.message(7, |to| graph(&model.graph, to));
    to.raw(&model.rest);
    to.0
}

pub(super) fn graph(graph: &Graph, to: &mut Writer) {
    for item in &graph.nodes {
        to.message(1, |to| node(item, to));
    }
    to.text(2, &graph.name);
    for item in &graph.initializers {
        to.message(5, |to| tensor(item, to));
    }
    for (number, values) in [(11, &graph.inputs), (12, &graph.outputs), (13, &graph.infos)] {
        for item in values {
            to.message(number, |to| value(item, to));
        }
    }
    to.raw(&graph.rest);
}

pub(super) fn node(node: &Node, to: &mut Writer) {
    // An empty name marks an omitted value, so it must be written.
    node.inputs.iter().for_each(|name| to.bytes(1, name.as_bytes()));
    node.outputs.iter().for_each(|name| to.bytes(2, name.as_bytes()));
    to.text(3, &node.name);
    to.text(4, &node.op);
    for item in &node.attributes {
        to.message(5, |to| attribute(item, to));
    }
    to.text(7, &node.domain);
    to.raw(&node.rest);
}

pub(super) fn attribute(attribute: &Attribute, to: &mut Writer) {
    to.text(1, &attribute.name);
    match &attribute.content {
        Content::Float(value) => to.float(2, *value),
        Content::Int(value) => to.int(3, *value),
        Content::Text(bytes) => to.bytes(4, bytes),
        Content::Tensor(item) => to.message(5, |to| tensor(item, to)),
        Content::Graph(item) => to.message(6, |to| graph(item, to)),
        Content::Floats(values) => values.iter().for_each(|&value| to.float(7, value)),
        Content::Ints(values) => values.iter().for_each(|&value| to.int(8, value)),
        Content::Texts(texts) => texts.iter().for_each(|text| to.bytes(9, text)),
        Content::Graphs(graphs) => graphs.iter().for_each(|item| to.message(11, |to| graph(item, to))),
        Content::Other(_) => {}
    }
    to.int(20, attribute.content.code());
    to.raw(&attribute.rest);
}

pub(super) fn tensor(tensor: &Tensor, to: &mut Writer) {
    tensor.shape.iter().for_each(|&axis| to.int(1, axis as i64));
    to.int(2, i64::from(tensor.dtype));
    to.text(8, &tensor.name);
    match &tensor.data {
        Data::Bytes(bytes) => to.bytes(9, bytes),
        Data::Strings(texts) => texts.iter().for_each(|text| to.bytes(6, text)),
    }
    to.raw(&tensor.rest);
}

/// Writes a tensor whose bytes are in a file with this name and length.
pub(super) fn elsewhere(tensor: &Tensor, (file, len): (&str, usize), to: &mut Writer) {
    tensor.shape.iter().for_each(|&axis| to.int(1, axis as i64));
    to.int(2, i64::from(tensor.dtype));
    to.text(8, &tensor.name);
    for (key, value) in [("location", file), ("offset", "0"), ("length", &len.to_string())] {
        to.message(13, |to| {
            to.text(1, key);
            to.text(2, value);
        });
    }
    to.int(14, 1);
}

fn value(value: &ValueInfo, to: &mut Writer) {
    to.text(1, &value.name);
    match &value.r#type {
        ValueType::Tensor { dtype, shape } => to.message(2, |to| {
            to.message(1, |to| {
                to.int(1, i64::from(*dtype));
                if let Some(shape) = shape {
                    to.message(2, |to| shape.iter().for_each(|axis| to.message(1, |to| dim(axis, to))));
                }
            });
        }),
        ValueType::Other(raw) if raw.is_empty() => {}
        ValueType::Other(raw) => to.bytes(2, raw),
    }
    to.raw(&value.rest);
}

fn dim(dim: &Dim, to: &mut Writer) {
    match dim {
        Dim::Known(len) => to.int(1, *len),
        Dim::Named(name) => to.bytes(2, name.as_bytes()),
        Dim::Open => {}
    }
}
