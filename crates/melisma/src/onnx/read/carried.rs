//! Passed-through messages that can contain tensors. They are parsed like all others, so that the
//! same rules apply to external data, and rewritten with all data inside.

use super::super::wire::{Entry, Writer};
use super::super::write;
use super::{Context, attribute, graph, node, tensor};
use crate::Result;

/// The kind of a passed-through field.
#[derive(Clone, Copy)]
pub(super) enum Carried {
    Function,
    Training,
    SparseTensor,
    Node,
    Attribute,
    Graph,
    Tensor,
}

impl Carried {
    /// Returns the kind of message in one of its fields, if it can contain tensors.
    fn below(self, field: u32) -> Option<Self> {
        Some(match (self, field) {
            (Self::Function, 7) => Self::Node,
            (Self::Function, 11) => Self::Attribute,
            (Self::Training, 1 | 2) => Self::Graph,
            (Self::SparseTensor, 1 | 2) => Self::Tensor,
            _ => return None,
        })
    }

    /// Rewrites the field, including its tag.
    pub(super) fn rewritten(self, entry: &Entry<'_>, context: &mut Context<'_>) -> Result<Vec<u8>> {
        context.count()?;
        let (mut to, number) = (Writer::default(), entry.number);
        match self {
            Self::Node => {
                let item = node(entry, context)?;
                to.message(number, |to| write::node(&item, to));
            }
            Self::Attribute => {
                let item = attribute(entry, context)?;
                to.message(number, |to| write::attribute(&item, to));
            }
            Self::Graph => {
                let item = graph(entry, context)?;
                to.message(number, |to| write::graph(&item, to));
            }
            Self::Tensor => {
                let item = tensor(entry, context)?;
                to.message(number, |to| write::tensor(&item, to));
            }
            Self::Function | Self::Training | Self::SparseTensor => {
                let mut inner = Writer::default();
                let mut fields = entry.message()?;
                while let Some(entry) = fields.next()? {
                    match self.below(entry.number) {
                        Some(below) => inner.raw(&below.rewritten(&entry, context)?),
                        None => inner.raw(entry.raw),
                    }
                }
                to.bytes(number, &inner.0);
            }
        }
        Ok(to.0)
    }
}
