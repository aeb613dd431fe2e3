//! Splits a model into a small protobuf and its large tensors. The tensors are moved, not
//! serialized, so an engine that takes both holds the weights only once.

use std::sync::Arc;

use super::tensor::{Data, Tensor};
use super::wire::Writer;
use super::{Model, write};
use crate::{Error, Result};

/// Smaller tensors stay in the graph.
const MIN_BYTES: usize = 4096;

/// A model split into parts.
pub(crate) struct Detached {
    /// The model, with large tensors as external data.
    pub graph: Vec<u8>,
    /// File names and bytes of the large tensors.
    pub tensors: Vec<(String, Vec<u8>)>,
}

impl Model {
    /// Splits the model. Tensors without other owners are moved.
    ///
    /// # Errors
    /// `Unsupported` if the rest exceeds 2 GiB, the limit of protobuf messages.
    pub(crate) fn detached(mut self) -> Result<Detached> {
        let is_large = |tensor: &Tensor| matches!(&tensor.data, Data::Bytes(bytes) if bytes.len() >= MIN_BYTES);
        let (large, small): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.graph.initializers).into_iter().partition(is_large);
        self.graph.initializers = small;
        let mut tensors = Vec::with_capacity(large.len());
        let mut entries = Writer::default();
        for (index, mut tensor) in large.into_iter().enumerate() {
            let Data::Bytes(bytes) = std::mem::replace(&mut tensor.data, Data::Strings(Vec::new())) else { continue };
            let bytes = Arc::try_unwrap(bytes).unwrap_or_else(|shared| shared.to_vec());
            let file = format!("{index}.data");
            entries.message(5, |to| write::elsewhere(&tensor, (&file, bytes.len()), to));
            tensors.push((file, bytes));
        }
        self.graph.rest.extend(entries.0);
        let graph = self.to_bytes().map_err(|error: Error| error.at("the model without its weights"))?;
        Ok(Detached { graph, tensors })
    }
}
