//! Deduplication: stores equal tensors once and drops unread ones.

use std::collections::{HashMap, HashSet};

use super::reads;
use crate::onnx::{Content, Data, Graph, Model};

/// Merges equal initializers and drops unread ones. Returns the number of bytes saved.
pub fn share_initializers(model: &mut Model) -> usize {
    let graph = &mut model.graph;
    let inputs: HashSet<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
    let outputs: HashSet<&str> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
    let is_fixed = |name: &str| inputs.contains(name) || outputs.contains(name);
    let mut first: HashMap<(i32, &[usize], &[u8]), &str> = HashMap::new();
    let mut same: HashMap<String, String> = HashMap::new();
    for tensor in graph.initializers.iter().filter(|tensor| !is_fixed(&tensor.name)) {
        let Data::Bytes(bytes) = &tensor.data else { continue };
        let kept = *first.entry((tensor.dtype, &tensor.shape, bytes)).or_insert(&tensor.name);
        if kept != tensor.name {
            same.insert(tensor.name.clone(), kept.to_owned());
        }
    }
    rename(graph, &same);
    let read: HashSet<String> = reads(&model.graph).into_keys().map(str::to_owned).collect();
    let inputs: HashSet<String> = model.graph.inputs.iter().map(|input| input.name.clone()).collect();
    let mut saved = 0;
    model.graph.initializers.retain(|tensor| {
        let stays = read.contains(&tensor.name) || inputs.contains(&tensor.name);
        saved += if stays { 0 } else { tensor.byte_len() };
        stays
    });
    saved
}

/// Renames values that nodes read, also in subgraphs unless they shadow the name.
pub(super) fn rename(graph: &mut Graph, names: &HashMap<String, String>) {
    for node in &mut graph.nodes {
        for input in &mut node.inputs {
            if let Some(name) = names.get(input) {
                input.clone_from(name);
            }
        }
        for attribute in &mut node.attributes {
            match &mut attribute.content {
                Content::Graph(inner) => within(inner, names),
                Content::Graphs(graphs) => graphs.iter_mut().for_each(|inner| within(inner, names)),
                _ => {}
            }
        }
    }
}

fn within(graph: &mut Graph, names: &HashMap<String, String>) {
    let own = graph.inputs.iter().map(|input| &input.name).chain(graph.initializers.iter().map(|tensor| &tensor.name));
    let own = own.chain(graph.nodes.iter().flat_map(|node| &node.outputs));
    let own: HashSet<&str> = own.map(String::as_str).collect();
    let names = names.iter().filter(|(name, _)| !own.contains(name.as_str()));
    let names: HashMap<String, String> = names.map(|(from, to)| (from.clone(), to.clone())).collect();
    for output in &mut graph.outputs {
        if let Some(name) = names.get(&output.name) {
            output.name.clone_from(name);
        }
    }
    rename(graph, &names);
}
