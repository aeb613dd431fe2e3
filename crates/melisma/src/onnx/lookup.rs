//! The integers that may be given for an input because nodes look something up with them: rows of an
//! embedding, elements of an axis, a one-hot depth.
//!
//! An input is followed through nodes that move or shift its elements. Arithmetic beyond that ends
//! the trace, so an input without a [`Lookup`] may still be an index of something.

use std::collections::HashMap;

use super::{Content, Dim, Graph, Model, Node, ValueType};
use crate::DType;

/// Limit on the nesting of branches.
const MAX_DEPTH: usize = 24;

/// How many values an index may have, and the node that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// The index is below this.
    pub end: u64,
    /// The node's name in messages.
    pub label: String,
}

/// An input, and what was added to its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin<'m> {
    input: &'m str,
    shift: i64,
}

#[derive(Default)]
struct Walk<'m> {
    /// The shapes of inputs that the caller knows.
    shapes: HashMap<&'m str, Vec<u64>>,
    origins: HashMap<&'m str, Vec<Origin<'m>>>,
    found: HashMap<&'m str, Lookup>,
}

/// Returns the tightest lookup for each input that is used as an index. `shapes` are those of the
/// inputs.
pub(crate) fn lookups<'m>(
    model: &'m Model,
    shapes: impl IntoIterator<Item = (&'m str, Vec<u64>)>,
) -> HashMap<&'m str, Lookup> {
    let mut walk = Walk { shapes: shapes.into_iter().collect(), ..Walk::default() };
    for input in &model.graph.inputs {
        let name = input.name.as_str();
        walk.origins.insert(name, vec![Origin { input: name, shift: 0 }]);
    }
    walk.graph(&[&model.graph], 0);
    walk.found
}

impl<'m> Walk<'m> {
    /// Follows the nodes of the last of `graphs`, the innermost.
    fn graph(&mut self, graphs: &[&'m Graph], depth: usize) {
        let Some(graph) = graphs.last().filter(|_| depth < MAX_DEPTH) else { return };
        for node in &graph.nodes {
            self.limit(graphs, node);
            if let Some(origins) = self.moved(graphs, node) {
                self.origins.extend(node.outputs.iter().map(|name| (name.as_str(), origins.clone())));
            }
            for inner in node.graphs() {
                self.graph(&[graphs, &[inner]].concat(), depth + 1);
            }
        }
    }

    /// Records the limit that a node sets to its indices.
    fn limit(&mut self, graphs: &[&'m Graph], node: &'m Node) {
        let (index, end) = match node.op.as_str() {
            "Gather" | "GatherElements" | "GatherBlockQuantized" | "ScatterElements" | "Scatter" => {
                let axis_of = |shape: &[u64]| {
                    let axis = node.attribute("axis").and_then(Content::int).unwrap_or(0);
                    let axis = if axis < 0 { axis.checked_add(shape.len() as i64)? } else { axis };
                    shape.get(usize::try_from(axis).ok()?).copied()
                };
                (1, self.shape(graphs, node, 0).and_then(|shape| axis_of(&shape)))
            }
            "GatherND" | "ScatterND" => (1, self.shape(graphs, node, 0).and_then(|shape| shape.into_iter().min())),
            "OneHot" => (0, number(graphs, node, 1).map(|[_, most]| most.unsigned_abs())),
            "EmbedLayerNormalization" => {
                self.limit_to(node, 1, self.shape(graphs, node, 4).and_then(|shape| shape.first().copied()));
                (0, self.shape(graphs, node, 2).and_then(|shape| shape.first().copied()))
            }
            _ => return,
        };
        self.limit_to(node, index, end);
    }

    fn limit_to(&mut self, node: &'m Node, index: usize, end: Option<u64>) {
        let Some(origins) = node.inputs.get(index).and_then(|name| self.origins.get(name.as_str())) else { return };
        for Origin { input, shift } in origins {
            // Nearly every axis has two elements.
            let end = end.unwrap_or(2).saturating_add_signed(shift.saturating_neg()).max(1);
            let lookup = Lookup { end, label: node.label() };
            let known = self.found.entry(input).or_insert_with(|| lookup.clone());
            if end < known.end {
                *known = lookup;
            }
        }
    }

    /// Returns where the elements of the outputs come from, if the node only moves or shifts them.
    fn moved(&self, graphs: &[&'m Graph], node: &'m Node) -> Option<Vec<Origin<'m>>> {
        let origins = |index: usize| self.origins.get(node.inputs.get(index)?.as_str()).cloned();
        match node.op.as_str() {
            "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Transpose" | "Expand" | "Tile"
            | "Slice" | "Split" | "Gather" => origins(0),
            "Cast" if node.attribute("to").and_then(Content::int).is_some_and(is_integer) => origins(0),
            "Concat" => {
                let all: Vec<_> = (0..node.inputs.len()).filter_map(origins).flatten().collect();
                (!all.is_empty()).then_some(all)
            }
            "Where" => {
                let all: Vec<_> = [1, 2].into_iter().filter_map(origins).flatten().collect();
                (!all.is_empty()).then_some(all)
            }
            "Add" | "Sub" => {
                let (at, other) = if origins(0).is_some() { (0, 1) } else { (1, 0) };
                let [least, most] = number(graphs, node, other)?;
                let shift = match (node.op.as_str(), at) {
                    ("Add", _) => most,
                    (_, 0) => least.checked_neg()?,
                    _ => return None,
                };
                let shifted = |origin: Origin<'m>| Origin { shift: origin.shift.saturating_add(shift), ..origin };
                Some(origins(at)?.into_iter().map(shifted).collect())
            }
            _ => None,
        }
    }

    /// Returns the shape of a node's input, where it is constant, declared or given.
    fn shape(&self, graphs: &[&'m Graph], node: &Node, index: usize) -> Option<Vec<u64>> {
        let name = node.inputs.get(index)?.as_str();
        if let Some(tensor) = constant(graphs, name) {
            return Some(tensor.shape.iter().map(|&axis| axis as u64).collect());
        }
        if let Some(shape) = self.shapes.get(name) {
            return Some(shape.clone());
        }
        let info = graphs.iter().rev().find_map(|graph| graph.infos.iter().find(|info| info.name == name))?;
        let ValueType::Tensor { shape: Some(axes), .. } = &info.r#type else { return None };
        let known = |dim: &Dim| match dim {
            Dim::Known(axis) => u64::try_from(*axis).ok(),
            Dim::Named(_) | Dim::Open => None,
        };
        axes.iter().map(known).collect()
    }
}

/// Returns the constant called `name`: an initializer, or the output of a `Constant`.
fn constant<'m>(graphs: &[&'m Graph], name: &str) -> Option<&'m super::Tensor> {
    graphs.iter().rev().find_map(|graph| {
        graph.initializer(name).or_else(|| {
            let node = graph.nodes.iter().find(|node| node.outputs.iter().any(|output| output == name))?;
            match node.attribute("value").filter(|_| node.is("Constant"))? {
                Content::Tensor(tensor) => Some(tensor),
                _ => None,
            }
        })
    })
}

/// Returns the least and the largest element of a constant list of integers.
fn number(graphs: &[&Graph], node: &Node, index: usize) -> Option<[i64; 2]> {
    let value = constant(graphs, node.inputs.get(index)?)?.value().ok()?;
    let numbers: Vec<i64> = match value.dtype() {
        DType::I64 => value.as_slice::<i64>().ok()?.to_vec(),
        DType::I32 => value.as_slice::<i32>().ok()?.iter().map(|&x| i64::from(x)).collect(),
        DType::F32 => value.as_slice::<f32>().ok()?.iter().map(|&x| x as i64).collect(),
        _ => return None,
    };
    Some([*numbers.iter().min()?, *numbers.iter().max()?])
}

/// Returns whether the element type with this number is an integer that can be an index.
fn is_integer(code: i64) -> bool {
    i32::try_from(code).is_ok_and(|code| {
        DType::from_code(code).is_ok_and(|dtype| {
            matches!(
                dtype,
                DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 | DType::U64
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::{Tensor, ValueInfo};

    fn model(nodes: Vec<Node>) -> Model {
        let table = |name: &str, rows: usize| Tensor::from_slice(name, &vec![0.5f32; rows * 2], &[rows, 2]).unwrap();
        let ints = |name: &str, values: &[i64]| Tensor::from_slice(name, values, &[values.len()]).unwrap();
        let graph = Graph {
            nodes,
            initializers: vec![
                table("words", 50),
                table("places", 9),
                ints("two", &[2]),
                ints("steps", &[0, 10, 20]),
                Tensor::from_slice("depth", &[7i64], &[]).unwrap(),
                Tensor::from_slice("ends", &[0f32, 1.0], &[2]).unwrap(),
            ],
            inputs: vec![ValueInfo::tensor("ids", DType::I64.code(), &[Dim::Named("n".to_owned())])],
            outputs: vec![ValueInfo::tensor("y", 1, &[Dim::Open, Dim::Open])],
            ..Graph::default()
        };
        Model::of(graph)
    }

    fn end(nodes: Vec<Node>) -> Option<(u64, String)> {
        let model = model(nodes);
        let found = lookups(&model, [("ids", vec![4])]);
        found.get("ids").map(|lookup| (lookup.end, lookup.label.clone()))
    }

    #[test]
    fn an_embedding_limits_its_indices() {
        let found = end(vec![Node::new("Gather", &["words", "ids"], &["y"])]).unwrap();
        assert_eq!(found, (50, "node `y` (Gather)".to_owned()));
        let columns = end(vec![Node::new("Gather", &["words", "ids"], &["y"]).with("axis", -1)]).unwrap();
        assert_eq!(columns.0, 2);
    }

    #[test]
    fn the_tightest_of_several_counts_also_behind_moves_and_shifts() {
        let words = || Node::new("Gather", &["words", "ids"], &["w"]);
        let nodes = |shift: &str| {
            vec![
                words(),
                Node::new("Unsqueeze", &["ids", "two"], &["row"]),
                Node::new("Cast", &["row"], &["narrow"]).with("to", i64::from(DType::I32.code())),
                Node::new("Add", &["narrow", shift], &["place"]),
                Node::new("Gather", &["places", "place"], &["p"]),
                Node::new("Identity", &["p"], &["y"]),
            ]
        };
        assert_eq!(end(nodes("two")).unwrap(), (7, "node `p` (Gather)".to_owned()));
        assert_eq!(end(nodes("steps")).unwrap().0, 1, "the largest shift counts");
        let less = vec![Node::new("Sub", &["ids", "two"], &["back"]), Node::new("Gather", &["places", "back"], &["y"])];
        assert_eq!(end(less).unwrap().0, 11);
    }

    #[test]
    fn one_hot_and_elements_have_limits_too() {
        assert_eq!(end(vec![Node::new("OneHot", &["ids", "depth", "ends"], &["y"])]).unwrap().0, 7);
        assert_eq!(end(vec![Node::new("GatherElements", &["words", "ids"], &["y"])]).unwrap().0, 50);
        assert_eq!(end(vec![Node::new("GatherND", &["words", "ids"], &["y"])]).unwrap().0, 2);
    }

    #[test]
    fn what_is_unknown_stays_narrow_and_arithmetic_is_no_index() {
        let unknown =
            vec![Node::new("Mul", &["words", "words"], &["table"]), Node::new("Gather", &["table", "ids"], &["y"])];
        assert_eq!(end(unknown).unwrap().0, 2);
        let product = vec![Node::new("Mul", &["ids", "two"], &["i"]), Node::new("Gather", &["words", "i"], &["y"])];
        assert_eq!(end(product), None);
        assert_eq!(end(vec![Node::new("Cast", &["ids"], &["y"]).with("to", 1i64)]), None);
    }
}
