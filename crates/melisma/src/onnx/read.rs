//! Deserializes models. Unknown fields are passed through unchanged.

mod carried;
mod stream;
mod tensor;

use super::external::Source;
use super::wire::Entry;
use super::{Attribute, Content, Dim, EXPECTED, Graph, Model, Node, Opset, ValueInfo, ValueType};
use crate::pack::ReadAt;
use crate::{Error, Result};
use carried::Carried;
use stream::{Item, Stream};
use tensor::tensor;

const GRAPH_OF_MODEL: u32 = 7;
const TENSOR_OF_GRAPH: u32 = 5;

/// Limit on the messages in a model: a message of two bytes becomes a struct of a few hundred.
const MAX_ITEMS: usize = 1 << 21;
/// Limit on the nesting of graphs.
const MAX_DEPTH: usize = 24;

/// The reader's state for one file.
pub(super) struct Context<'s> {
    source: &'s mut dyn Source,
    n_items: usize,
    depth: usize,
}

pub(super) fn model(file: &dyn ReadAt, source: &mut dyn Source) -> Result<Model> {
    let mut context = Context { source, n_items: 0, depth: 0 };
    let mut model = Model::default();
    let mut found = None;
    let mut fields = Stream::new(file)?;
    // Until a graph is found, the bytes may belong to any kind of file; after that, they are a
    // damaged model.
    while let Some(item) =
        fields.next(GRAPH_OF_MODEL).map_err(|error| if found.is_none() { foreign(error) } else { error })?
    {
        let whole = match item {
            Item::Content(content) if found.is_some() => {
                return Err(Error::corrupt(format!("byte {}: the model has a second graph", content.start)));
            }
            Item::Content(content) => {
                found = Some(streamed_graph(fields.within(content), &mut context)?);
                continue;
            }
            Item::FieldBytes(whole) => whole,
        };
        let entry = whole.entry().map_err(|error| if found.is_none() { foreign(error) } else { error })?;
        match entry.number {
            1 => model.ir_version = entry.int().map_err(foreign)?,
            8 => model.opsets.push(opset(&entry, &mut context)?),
            GRAPH_OF_MODEL => {
                return Err(foreign(Error::corrupt(format!("byte {}: a graph that is not a message", entry.at))));
            }
            20 => model.rest.extend(Carried::Training.rewritten(&entry, &mut context)?),
            25 => model.rest.extend(Carried::Function.rewritten(&entry, &mut context)?),
            _ => model.rest.extend(entry.raw),
        }
    }
    model.graph = found.ok_or_else(|| foreign(Error::corrupt("the graph is missing")))?;
    Ok(model)
}

fn foreign(error: Error) -> Error {
    error.at("not an ONNX model").with_hint(EXPECTED)
}

impl Context<'_> {
    fn count(&mut self) -> Result<()> {
        self.n_items += 1;
        if self.n_items > MAX_ITEMS {
            return Err(Error::unsupported(format!("a model of more than {MAX_ITEMS} parts")));
        }
        Ok(())
    }
}

fn opset(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<Opset> {
    context.count()?;
    let mut opset = Opset { domain: String::new(), version: 0 };
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        match entry.number {
            1 => opset.domain = entry.text()?,
            2 => opset.version = entry.int()?,
            _ => {}
        }
    }
    Ok(opset)
}

/// Reads the main graph, one tensor at a time.
fn streamed_graph(mut fields: Stream<'_>, context: &mut Context<'_>) -> Result<Graph> {
    let mut graph = Graph::default();
    context.depth += 1;
    while let Some(item) = fields.next(TENSOR_OF_GRAPH)? {
        match item {
            Item::Content(content) => {
                graph.initializers.push(tensor::streamed(fields.within(content), context)?);
            }
            Item::FieldBytes(whole) => add_to_graph(&mut graph, &whole.entry()?, context)?,
        }
    }
    context.depth -= 1;
    Ok(graph)
}

fn graph(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<Graph> {
    context.depth += 1;
    if context.depth > MAX_DEPTH {
        return Err(Error::unsupported(format!("byte {}: graphs in graphs, more than {MAX_DEPTH} deep", entry.at)));
    }
    let mut graph = Graph::default();
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        add_to_graph(&mut graph, &entry, context)?;
    }
    context.depth -= 1;
    Ok(graph)
}

fn add_to_graph(graph: &mut Graph, entry: &Entry<'_>, context: &mut Context<'_>) -> Result<()> {
    match entry.number {
        1 => graph.nodes.push(node(entry, context)?),
        2 => graph.name = entry.text()?,
        TENSOR_OF_GRAPH => graph.initializers.push(tensor(entry, context)?),
        11 => graph.inputs.push(value(entry, context)?),
        12 => graph.outputs.push(value(entry, context)?),
        13 => graph.infos.push(value(entry, context)?),
        15 => return Err(Error::unsupported("sparse initialisers are not supported")),
        _ => graph.rest.extend(entry.raw),
    }
    Ok(())
}

fn node(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<Node> {
    context.count()?;
    let mut node = Node::default();
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        match entry.number {
            1 | 2 => {
                context.count()?;
                let names = if entry.number == 1 { &mut node.inputs } else { &mut node.outputs };
                names.push(entry.text()?);
            }
            3 => node.name = entry.text()?,
            4 => node.op = entry.text()?,
            5 => node.attributes.push(attribute(&entry, context)?),
            7 => node.domain = entry.text()?,
            _ => node.rest.extend(entry.raw),
        }
    }
    Ok(node)
}

/// All fields of an attribute; its type says which one counts.
#[derive(Default)]
struct Fields {
    float: f32,
    int: i64,
    text: Vec<u8>,
    tensor: Option<super::Tensor>,
    graph: Option<Graph>,
    floats: Vec<u8>,
    ints: Vec<i64>,
    texts: Vec<Vec<u8>>,
    graphs: Vec<Graph>,
    /// The type implied by the last field, because old models omit the type.
    implied: i64,
}

fn attribute(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<Attribute> {
    context.count()?;
    let place = entry.at;
    let (mut name, mut code, mut rest, mut all) = (String::new(), 0, Vec::new(), Fields::default());
    let mut is_parameter = false;
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        all.implied = match entry.number {
            2..=9 => i64::from(entry.number) - 1,
            11 => 10,
            _ => all.implied,
        };
        match entry.number {
            1 => name = entry.text()?,
            2 => all.float = entry.float()?,
            3 => all.int = entry.int()?,
            4 => all.text = entry.bytes()?.to_vec(),
            5 => all.tensor = Some(tensor(&entry, context)?),
            6 => all.graph = Some(graph(&entry, context)?),
            7 => entry.fixed(4, &mut all.floats)?,
            8 => entry.ints(&mut all.ints)?,
            9 => {
                context.count()?;
                all.texts.push(entry.bytes()?.to_vec());
            }
            10 => rest.extend(Carried::Tensor.rewritten(&entry, context)?),
            11 => all.graphs.push(graph(&entry, context)?),
            20 => code = entry.int()?,
            // A parameter of a function replaces a value.
            21 => {
                is_parameter = !entry.bytes()?.is_empty();
                rest.extend(entry.raw);
            }
            22 | 23 => rest.extend(Carried::SparseTensor.rewritten(&entry, context)?),
            _ => rest.extend(entry.raw),
        }
    }
    if name.is_empty() {
        return Err(Error::corrupt(format!("byte {place}: an attribute without a name")));
    }
    let missing = |what: &str| Error::corrupt(format!("byte {place}: attribute `{name}` without its {what}"));
    let content = match if code == 0 { all.implied } else { code } {
        code if is_parameter => Content::Other(code),
        1 => Content::Float(all.float),
        2 => Content::Int(all.int),
        3 => Content::Text(all.text),
        4 => Content::Tensor(all.tensor.ok_or_else(|| missing("tensor"))?),
        5 => Content::Graph(Box::new(all.graph.ok_or_else(|| missing("graph"))?)),
        6 => Content::Floats(all.floats.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
        7 => Content::Ints(all.ints),
        8 => Content::Texts(all.texts),
        10 => Content::Graphs(all.graphs),
        other => Content::Other(other),
    };
    Ok(Attribute { name, content, rest })
}

fn value(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<ValueInfo> {
    context.count()?;
    let mut value = ValueInfo { name: String::new(), r#type: ValueType::Other(Vec::new()), rest: Vec::new() };
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        match entry.number {
            1 => value.name = entry.text()?,
            2 => value.r#type = r#type(&entry, context)?,
            _ => value.rest.extend(entry.raw),
        }
    }
    Ok(value)
}

fn r#type(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<ValueType> {
    let mut found = ValueType::Other(entry.bytes()?.to_vec());
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        if entry.number != 1 {
            continue;
        }
        let (mut dtype, mut shape) = (0, None);
        let mut fields = entry.message()?;
        while let Some(entry) = fields.next()? {
            match entry.number {
                1 => dtype = entry.int()? as i32,
                2 => shape = Some(axes(&entry, context)?),
                _ => {}
            }
        }
        found = ValueType::Tensor { dtype, shape };
    }
    Ok(found)
}

fn axes(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<Vec<Dim>> {
    let mut axes = Vec::new();
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        if entry.number != 1 {
            continue;
        }
        context.count()?;
        let mut axis = Dim::Open;
        let mut fields = entry.message()?;
        while let Some(entry) = fields.next()? {
            match entry.number {
                1 => axis = Dim::Known(entry.int()?),
                2 => axis = Dim::Named(entry.text()?),
                _ => {}
            }
        }
        axes.push(match axis {
            Dim::Named(name) if name.is_empty() => Dim::Open,
            // Some exporters write an open axis as -1.
            Dim::Known(len) if len < 0 => Dim::Open,
            axis => axis,
        });
    }
    Ok(axes)
}
