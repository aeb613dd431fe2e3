//! Passes: each transforms a model into one that computes the same, exactly or within a measured
//! error.
//!
//! | pass | what it does | exact |
//! |---|---|---|
//! | [`fix_shapes`] | fixes the lengths of variable input axes | yes |
//! | [`fold_constants`] | computes values that depend only on constants | yes |
//! | [`inline_branches`] | replaces a decided `If` by its branch | yes |
//! | [`fuse_snake`], [`lower_snake`] | fuses the five nodes of x + sin²(αx)/α; restores them | yes |
//! | [`share_initializers`] | merges equal tensors, drops unread ones | yes |
//! | [`to_half`] | converts to FP16, except for listed nodes, which [`keep_list`] measures | no |
//! | [`to_int8`] | computes products with constant matrices in 8 bits | no |

mod branch;
mod dead;
mod fix;
mod fold;
mod half;
mod int8;
mod kind;
mod sensitivity;
mod snake;
#[cfg(test)]
mod tests;

pub use branch::inline_branches;
pub use dead::share_initializers;
pub use fix::fix_shapes;
pub use fold::{Evaluate, fold_constants};
pub use half::to_half;
pub use int8::to_int8;
pub use sensitivity::{error, keep_list};
pub use snake::{DOMAIN, fuse_snake, lower_snake};

use std::collections::{HashMap, HashSet};

use crate::onnx::{Graph, Model, Node};

/// Generates unused names for new values.
struct Names {
    taken: HashSet<String>,
    /// The next number to try for each base name.
    next: HashMap<String, usize>,
}

impl Names {
    fn of(model: &Model) -> Self {
        let mut names = HashSet::new();
        collect(&model.graph, &mut names);
        Self { taken: names, next: HashMap::new() }
    }

    fn fresh(&mut self, base: &str) -> String {
        let next = self.next.entry(base.to_owned()).or_insert(1);
        loop {
            let name = if *next == 1 { base.to_owned() } else { format!("{base}_{next}") };
            *next += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

fn collect(graph: &Graph, names: &mut HashSet<String>) {
    let values = graph.inputs.iter().chain(&graph.outputs).chain(&graph.infos).map(|value| &value.name);
    names.extend(values.chain(graph.initializers.iter().map(|tensor| &tensor.name)).cloned());
    for node in &graph.nodes {
        names.extend(node.inputs.iter().chain(&node.outputs).cloned());
        node.graphs().for_each(|inner| collect(inner, names));
    }
}

/// Returns how often each value is read by nodes, subgraphs and outputs.
fn reads(graph: &Graph) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    count(graph, &mut counts);
    counts
}

fn count<'g>(graph: &'g Graph, counts: &mut HashMap<&'g str, usize>) {
    let outputs = graph.outputs.iter().map(|output| &output.name);
    for name in graph.nodes.iter().flat_map(|node| &node.inputs).chain(outputs) {
        *counts.entry(name).or_default() += 1;
    }
    graph.nodes.iter().flat_map(Node::graphs).for_each(|inner| count(inner, counts));
}
