//! Turns panics of the crate into errors that name the source location and, if it can be inferred,
//! the node.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Once;

use melisma_kernels::lock::Mutex;
use rten::ThreadPool;

use super::NAME;
use crate::onnx::{Graph, Model};
use crate::runtime::thread;
use crate::{Error, Remedy, Result};

/// Name prefix of the crate's pool threads.
const THREADS: &str = "rten-";
/// A longer list of nodes would not help.
const MAX_SUSPECTS: usize = 3;

/// Limit on nodes that are planned on any thread: the crate follows chains recursively. It plans
/// branches on the pool's threads, whose stack size it does not let us choose.
pub(in crate::engine) const MAX_SHALLOW: usize = 1000;
/// More nodes would need an unreasonable stack size.
const MAX_NODES: usize = 250_000;
/// Stack per node, more than four times what an unoptimized build takes.
const NODE_BYTES: usize = 6 << 10;

/// Location of the last panic on a pool thread.
static PLACE: Mutex<Option<String>> = Mutex::new(None);

/// A node that may have been running.
#[derive(Debug)]
pub(super) struct Suspect {
    operator: String,
    label: String,
}

/// Returns the nodes of a model, including those of subgraphs.
pub(super) fn suspects(model: &Model) -> Vec<Suspect> {
    let mut all = Vec::new();
    collect(&model.graph, &mut all);
    all
}

fn collect(graph: &Graph, all: &mut Vec<Suspect>) {
    for node in &graph.nodes {
        all.push(Suspect { operator: node.op.to_lowercase(), label: node.label() });
        node.graphs().for_each(|inner| collect(inner, all));
    }
}

/// Rejects a model with a subgraph whose chains are too long for the pool's threads.
pub(super) fn check_depth(graph: &Graph) -> Result<()> {
    for node in &graph.nodes {
        for inner in node.graphs() {
            let depth = depth(inner);
            if depth > MAX_SHALLOW {
                let message = format!(
                    "{NAME}: {} has a graph with a chain of {depth} nodes; at most {MAX_SHALLOW}",
                    node.label()
                );
                return Err(Error::unsupported(message).with_hint(Remedy::use_engine("onnxruntime")));
            }
            check_depth(inner)?;
        }
    }
    Ok(())
}

/// Returns the number of nodes in the longest chain of a graph, without subgraphs.
fn depth(graph: &Graph) -> usize {
    let mut depths: HashMap<&str, usize> = HashMap::new();
    let mut deepest = 0;
    for node in &graph.nodes {
        let depth = 1 + node.inputs.iter().filter_map(|name| depths.get(name.as_str())).max().copied().unwrap_or(0);
        depths.extend(node.outputs.iter().map(|name| (name.as_str(), depth)));
        deepest = deepest.max(depth);
    }
    deepest
}

/// Starts a pool of `n` threads.
///
/// # Errors
/// The system refuses one of them.
pub(super) fn pool(n: usize) -> Result<ThreadPool> {
    thread::probe(n)?;
    let pool = ThreadPool::with_num_threads(n);
    // Between the two the system may have run out of threads. Then the pool has none, and its work would run here and start
    // those of every processor.
    let is_of_pool = || std::thread::current().name().is_some_and(|name| name.starts_with(THREADS));
    if pool.run(is_of_pool) { Ok(pool) } else { Err(thread::refused(io::ErrorKind::WouldBlock.into())) }
}

/// Runs foreign code on the pool's threads; panics become errors and are not printed.
pub(in crate::engine) fn guarded<R: Send>(pool: &ThreadPool, work: impl FnOnce() -> R + Send) -> Result<R> {
    caught(&[], || pool.run(work))
}

/// Works like [`guarded`], but the error names the node, if known. `nodes` are all nodes of the model. A
/// model with many nodes gets a thread with a large enough stack.
pub(super) fn guarded_at<R: Send>(pool: &ThreadPool, nodes: &[Suspect], work: impl FnOnce() -> R + Send) -> Result<R> {
    if nodes.len() <= MAX_SHALLOW {
        return caught(nodes, || pool.run(work));
    }
    if nodes.len() > MAX_NODES {
        return Err(Error::unsupported(format!("{NAME}: the model has {} nodes; at most {MAX_NODES}", nodes.len()))
            .with_hint(Remedy::use_engine("onnxruntime")));
    }
    caught(nodes, || {
        std::thread::scope(|scope| {
            let stack = (2 << 20) + NODE_BYTES * nodes.len();
            let deep = std::thread::Builder::new().name(format!("{THREADS}deep")).stack_size(stack);
            let started = deep.spawn_scoped(scope, work).map_err(thread::refused);
            started.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    })?
}

fn caught<R>(nodes: &[Suspect], work: impl FnOnce() -> R) -> Result<R> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name().is_some_and(|name| name.starts_with(THREADS)) {
                *PLACE.lock() = panic.location().map(place);
            } else {
                loud(panic);
            }
        }));
    });
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let place = PLACE.lock().take();
        error(text.unwrap_or("no message"), place.as_deref().unwrap_or("unknown place"), nodes)
    })
}

/// Returns the file, starting at its crate's folder, and the line.
fn place(location: &Location<'_>) -> String {
    let file = location.file();
    let start = file.rfind("/src/").and_then(|src| file[..src].rfind('/')).map_or(0, |at| at + 1);
    format!("{}:{}", &file[start..], location.line())
}

fn error(text: &str, place: &str, nodes: &[Suspect]) -> Error {
    let at = match &running(place, nodes)[..] {
        [] => String::new(),
        [node] => format!("{node}: "),
        several => format!("one of {}: ", several.join(", ")),
    };
    Error::unsupported(format!("{NAME}: {at}the engine crashed in its own code ({place}): {text}"))
        .with_hint(Remedy::use_engine("onnxruntime"))
        .or_hint("check the values of the inputs")
}

/// Returns the nodes that the code belongs to, by its file name: `ops/gather.rs` implements
/// `Gather` and `GatherND`.
fn running<'n>(place: &str, nodes: &'n [Suspect]) -> Vec<&'n str> {
    let file = place.rsplit('/').next().and_then(|name| name.split(".rs").next()).unwrap_or_default();
    let family = file.replace('_', "");
    let is_of = |suspect: &&Suspect| !family.is_empty() && suspect.operator.starts_with(&family);
    let all: Vec<&str> = nodes.iter().filter(is_of).map(|suspect| suspect.label.as_str()).collect();
    if all.len() <= MAX_SUSPECTS { all } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_is_named_where_the_code_tells_it() {
        let suspect = |(operator, label): (&str, &str)| Suspect { operator: operator.into(), label: label.into() };
        let all = [("gathernd", "node `pick` (GatherND)"), ("conv", "node `a` (Conv)"), ("conv", "node `b` (Conv)")];
        let nodes = all.map(suspect);
        let message = |place: &str| error("index out of bounds", place, &nodes).to_string();
        assert_eq!(
            message("rten-0.27.0/src/ops/gather.rs:45"),
            "rten: node `pick` (GatherND): the engine crashed in its own code (rten-0.27.0/src/ops/gather.rs:45): index out of \
             bounds"
        );
        assert!(message("rten-0.27.0/src/ops/conv.rs:1").contains("one of node `a` (Conv), node `b` (Conv): "));
        for place in ["rten-0.27.0/src/graph.rs:9", "unknown place", ""] {
            assert!(message(place).starts_with("rten: the engine crashed in its own code"), "{place}");
        }
    }
}
