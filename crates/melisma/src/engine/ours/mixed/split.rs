//! Converts the graph to steps: alternately all nodes that the embedded engine can run next, then
//! all convolutions and branches that are ready.

use std::collections::HashSet;

use melisma_kernels::conv::Curve;

use super::NAME;
use super::piece::{Parts, Piece};
use super::program::{Branch, Program, Step, Window, Work};
use super::scope::{Scope, reads};
use super::window::{Maker, is_window};
use crate::onnx::{Content, Graph, Model, Node};
use crate::{Error, Result};

/// A model split into steps.
pub(super) struct Split {
    pub program: Program,
    pub n_slots: usize,
    pub n_windows: usize,
}

/// Splits `model` into steps.
pub(super) fn split(model: &Model, maker: &Maker<'_>) -> Result<Split> {
    let mut cutter = Cutter { model, maker, n_slots: 0, n_windows: 0 };
    let mut scope = Scope::default().within(&model.graph);
    let mut inputs = Vec::new();
    for input in model.graph.inputs.iter().filter(|input| model.graph.initializer(&input.name).is_none()) {
        inputs.push(cutter.slot(&input.name, &mut scope));
    }
    let mut program = cutter.program(&model.graph, scope, &inputs)?;
    program.inputs = inputs;
    Ok(Split { program, n_slots: cutter.n_slots, n_windows: cutter.n_windows })
}

struct Cutter<'m, 'a> {
    model: &'m Model,
    maker: &'a Maker<'a>,
    n_slots: usize,
    n_windows: usize,
}

/// A node, or a convolution with its ReLU.
struct Unit<'m> {
    node: &'m Node,
    kind: Kind,
    reads: Vec<&'m str>,
    makes: Vec<&'m str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Window(Curve),
    Branch,
}

impl<'m> Cutter<'m, '_> {
    fn slot(&mut self, name: &'m str, scope: &mut Scope<'m>) -> usize {
        let slot = self.n_slots;
        self.n_slots += 1;
        scope.insert(name, slot);
        slot
    }

    /// Converts a graph whose inputs are in `scope`; the slots in `own` may be moved out.
    fn program(&mut self, graph: &'m Graph, mut scope: Scope<'m>, own: &[usize]) -> Result<Program> {
        let outputs: Vec<&str> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
        let mut waiting = units(graph, &scope);
        let mut made: HashSet<&str> = HashSet::new();
        let mut works = Vec::new();
        let mut own = own.to_vec();
        while !waiting.is_empty() {
            let before = waiting.len();
            let nodes: Vec<&Node> = take(&mut waiting, &mut made, &scope, |unit| unit.kind == Kind::Plain)
                .iter()
                .map(|unit| unit.node)
                .collect();
            if !nodes.is_empty() {
                let wanted: HashSet<&str> =
                    waiting.iter().flat_map(|unit| unit.reads.iter().copied()).chain(outputs.iter().copied()).collect();
                let makes = nodes.iter().flat_map(|node| &node.outputs).map(String::as_str);
                let makes: Vec<&str> = makes.filter(|name| wanted.contains(name)).collect();
                for name in &makes {
                    own.push(self.slot(name, &mut scope));
                }
                if !makes.is_empty() {
                    let parts = Parts { nodes: &nodes, outputs: &makes, scope: &scope, of: self.model };
                    works.push(Work::Piece(Piece::new(&parts)?));
                }
            }
            for unit in take_ready(&mut waiting, &made, &scope) {
                let work = match unit.kind {
                    Kind::Branch => Work::Branch(Box::new(self.branch(&unit, &mut scope)?)),
                    Kind::Window(curve) => Work::Window(self.window(&unit, curve, &mut scope)?),
                    Kind::Plain => continue,
                };
                own.extend(work.writes());
                works.push(work);
                made.extend(unit.makes);
            }
            if waiting.len() == before {
                return Err(Error::unsupported(format!("{NAME}: the graph has nodes that wait for each other")));
            }
        }
        let slot = |name: &&str| {
            let slot = scope.slot(name).filter(|slot| own.contains(slot));
            slot.ok_or_else(|| Error::unsupported(format!("{NAME}: no node makes output `{name}`")))
        };
        let outputs = outputs.iter().map(slot).collect::<Result<Vec<_>>>()?;
        Ok(Program { steps: with_last_reads(works, &own, &outputs), inputs: Vec::new(), outputs })
    }

    fn window(&mut self, unit: &Unit<'m>, curve: Curve, scope: &mut Scope<'m>) -> Result<Window> {
        let refused = || Error::unsupported(format!("{NAME}: {}", unit.node.label()));
        let from = scope.slot(&unit.node.inputs[0]).ok_or_else(refused)?;
        let weight = scope.initializer(&unit.node.inputs[1]).ok_or_else(refused)?;
        let plan = self.maker.plan(unit.node, scope, curve)?.ok_or_else(refused)?;
        self.n_windows += 1;
        let to = self.slot(unit.makes[0], scope);
        let operator = match curve {
            Curve::Identity => "Conv",
            Curve::Relu => "Conv + Relu",
        };
        Ok(Window { plan, label: unit.node.label(), operator, n_axes: weight.shape.len(), from, to })
    }

    fn branch(&mut self, unit: &Unit<'m>, scope: &mut Scope<'m>) -> Result<Branch> {
        let refused = || Error::unsupported(format!("{NAME}: {}", unit.node.label()));
        let condition = unit.node.inputs.first().and_then(|name| scope.slot(name)).ok_or_else(refused)?;
        let mut ways = Vec::new();
        for name in ["then_branch", "else_branch"] {
            let Some(Content::Graph(graph)) = unit.node.attribute(name) else { return Err(refused()) };
            ways.push(self.program(graph, scope.within(graph), &[])?);
        }
        let ways: [Program; 2] = ways.try_into().map_err(|_| refused())?;
        let reads = unit.reads.iter().filter_map(|name| scope.slot(name)).collect();
        let to = unit.makes.iter().map(|name| self.slot(name, scope)).collect();
        Ok(Branch { condition, label: unit.node.label(), ways, reads, to })
    }
}

/// Returns the nodes of a graph; a ReLU joins a convolution whose output only it reads.
fn units<'m>(graph: &'m Graph, scope: &Scope<'m>) -> Vec<Unit<'m>> {
    let all: Vec<&str> =
        graph.nodes.iter().flat_map(reads).chain(graph.outputs.iter().map(|output| output.name.as_str())).collect();
    let alone = |name: &str| all.iter().filter(|read| **read == name).count() == 1;
    let mut fused: HashSet<&str> = HashSet::new();
    let mut units = Vec::new();
    for node in &graph.nodes {
        let mut makes: Vec<&str> = node.outputs.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let kind = if is_window(node, scope) {
            let relu =
                graph.nodes.iter().find(|relu| relu.is("Relu") && relu.inputs == node.outputs && alone(makes[0]));
            match relu.and_then(|relu| relu.outputs.first()) {
                Some(output) => {
                    fused.insert(output);
                    makes = vec![output];
                    Kind::Window(Curve::Relu)
                }
                None => Kind::Window(Curve::Identity),
            }
        } else if is_branch(node, scope) {
            Kind::Branch
        } else {
            Kind::Plain
        };
        let reads = scope.variable(reads(node));
        units.push(Unit { node, kind, reads, makes });
    }
    units.retain(|unit| unit.kind != Kind::Plain || !unit.makes.iter().any(|name| fused.contains(name)));
    units
}

/// Returns whether the node is an `If` that contains our convolutions and computes its results
/// inside.
fn is_branch<'m>(node: &'m Node, scope: &Scope<'m>) -> bool {
    let is_variable = node.inputs.first().is_some_and(|name| scope.initializer(name).is_none());
    let makes = |graph: &Graph| {
        let made: HashSet<&String> = graph.nodes.iter().flat_map(|node| &node.outputs).collect();
        graph.outputs.iter().all(|output| made.contains(&output.name))
    };
    let has_ours = |graph: &'m Graph| {
        let inner = scope.within(graph);
        graph.nodes.iter().any(|node| is_window(node, &inner) || is_branch(node, &inner))
    };
    node.is("If")
        && is_variable
        && node.outputs.iter().all(|name| !name.is_empty())
        && node.graphs().all(makes)
        && node.graphs().any(has_ours)
}

/// Removes units of one kind whose inputs are available, until none is left.
fn take<'m>(
    waiting: &mut Vec<Unit<'m>>,
    made: &mut HashSet<&'m str>,
    scope: &Scope<'m>,
    is_wanted: impl Fn(&Unit<'m>) -> bool,
) -> Vec<Unit<'m>> {
    let mut taken = Vec::new();
    loop {
        let is_ready = |unit: &Unit<'m>| is_wanted(unit) && unit.is_ready(made, scope);
        let ready: Vec<Unit<'m>> = waiting.extract_if(.., |unit| is_ready(unit)).collect();
        if ready.is_empty() {
            return taken;
        }
        made.extend(ready.iter().flat_map(|unit| unit.makes.iter().copied()));
        taken.extend(ready);
    }
}

/// Removes the units whose inputs are available.
fn take_ready<'m>(waiting: &mut Vec<Unit<'m>>, made: &HashSet<&'m str>, scope: &Scope<'m>) -> Vec<Unit<'m>> {
    waiting.extract_if(.., |unit| unit.is_ready(made, scope)).collect()
}

impl<'m> Unit<'m> {
    fn is_ready(&self, made: &HashSet<&'m str>, scope: &Scope<'m>) -> bool {
        self.reads.iter().all(|name| made.contains(name) || scope.slot(name).is_some())
    }
}

/// Pairs each step with the slots that no later step reads.
fn with_last_reads(works: Vec<Work>, own: &[usize], outputs: &[usize]) -> Vec<Step> {
    let mut needed: HashSet<usize> = outputs.iter().copied().collect();
    let mut steps: Vec<Step> = Vec::new();
    for work in works.into_iter().rev() {
        let touched = work.reads().into_iter().chain(work.writes().iter().copied());
        let last = touched.filter(|slot| own.contains(slot) && needed.insert(*slot)).collect();
        steps.push(Step { work, last });
    }
    steps.reverse();
    steps
}
