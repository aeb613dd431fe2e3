//! A model with its weights compressed without loss: a packed file whose tensors are the large floating-point initialisers, and
//! `graph`, the model without them.

use std::sync::Arc;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::external::Nowhere;
use super::tensor::{Data, Tensor};
use super::{Model, check, corrupt, read, write};
use crate::pack;
use crate::{Error, Result};

/// Smaller ones stay in the graph.
const MIN_BYTES: usize = 4096;
const GRAPH: &str = "graph";

impl Model {
    /// The model as a packed file.
    ///
    /// # Errors
    /// The weights cannot be packed, which memory alone can cause.
    pub fn to_packed(&self, options: &pack::Options<'_>) -> Result<Vec<u8>> {
        let mut bare = self.clone();
        let mut weights = Vec::new();
        for (index, tensor) in self.graph.initializers.iter().enumerate() {
            if let (Some(dtype), Data::Bytes(bytes), true) = (dtype(tensor.dtype), &tensor.data, tensor.rest.is_empty())
                && bytes.len() >= MIN_BYTES
            {
                weights.push((index, dtype, tensor, bytes));
            }
        }
        for (index, ..) in weights.iter().rev() {
            bare.graph.initializers.remove(*index);
        }
        let graph = write::model(&bare);
        let view = |dtype, shape, bytes| {
            TensorView::new(dtype, shape, bytes).map_err(|error| Error::invalid(format!("a packed model: {error}")))
        };
        let mut tensors = vec![(GRAPH.to_owned(), view(Dtype::U8, vec![graph.len()], &graph)?)];
        for (index, dtype, tensor, bytes) in weights {
            tensors.push((format!("{index}:{}", tensor.name), view(dtype, tensor.shape.clone(), bytes)?));
        }
        let source = safetensors::serialize(tensors, None);
        let source = source.map_err(|error| Error::invalid(format!("a packed model: {error}")))?;
        let mut packed = Vec::new();
        pack::pack(&source, &mut packed, options, &|_| {})?;
        Ok(packed)
    }

    /// Reads what [`Model::to_packed`] wrote, where it has at most `limit` bytes unpacked.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for other bytes, `Memory` beyond the limit.
    pub fn from_packed(packed: &[u8], limit: u64) -> Result<Self> {
        let source = pack::unpack_in_memory(packed, limit)?;
        let tensors = SafeTensors::deserialize(&source).map_err(|error| corrupt(format!("a packed model: {error}")))?;
        let graph = tensors.tensor(GRAPH).map_err(|error| corrupt(format!("a packed model: {error}")))?;
        let mut model = read::model(&graph.data(), &mut Nowhere)?;
        let mut weights = Vec::new();
        for (name, view) in tensors.iter().filter(|(name, _)| *name != GRAPH) {
            let parts = name.split_once(':').and_then(|(index, name)| Some((index.parse::<usize>().ok()?, name)));
            let (index, name) = parts.ok_or_else(|| corrupt(format!("a packed model with a tensor `{name}`")))?;
            let code = code(view.dtype()).ok_or_else(|| corrupt(format!("a packed model with {:?}", view.dtype())))?;
            let data = Data::Bytes(Arc::new(view.data().to_vec()));
            weights.push((
                index,
                Tensor { name: name.to_owned(), dtype: code, shape: view.shape().to_vec(), data, rest: Vec::new() },
            ));
        }
        weights.sort_by_key(|(index, _)| *index);
        for (index, tensor) in weights {
            let at = index.min(model.graph.initializers.len());
            model.graph.initializers.insert(at, tensor);
        }
        check::checked(model)
    }
}

fn dtype(code: i32) -> Option<Dtype> {
    Some(match code {
        1 => Dtype::F32,
        10 => Dtype::F16,
        16 => Dtype::BF16,
        _ => return None,
    })
}

fn code(dtype: Dtype) -> Option<i32> {
    Some(match dtype {
        Dtype::F32 => 1,
        Dtype::F16 => 10,
        Dtype::BF16 => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::optimize::models::{Snac, snac_decoder};
    use crate::optimize::pass;

    #[test]
    fn weights_come_back_and_take_less() {
        let mut model = snac_decoder(&Snac { latent_dim: 64, dim: 64, strides: &[2] }, 1).unwrap();
        let options = pack::Options::default();
        for is_half in [false, true] {
            if is_half {
                pass::to_half(&mut model, &Default::default()).unwrap();
            }
            let (plain, packed) = (model.to_bytes().unwrap(), model.to_packed(&options).unwrap());
            assert!(packed.len() < plain.len(), "{} of {}", packed.len(), plain.len());
            assert_eq!(Model::from_packed(&packed, 1 << 30).unwrap(), model);
            assert_eq!(Model::from_packed(&packed, 100).unwrap_err().kind(), Kind::Memory);
            for len in [0, 7, 100, packed.len() / 2, packed.len() - 1] {
                assert!(Model::from_packed(&packed[..len], 1 << 30).is_err());
            }
        }
        let nothing = Model::from_bytes(include_bytes!("../../../../../golden/optimize/control.onnx")).unwrap();
        assert_eq!(Model::from_packed(&nothing.to_packed(&options).unwrap(), 1 << 30).unwrap(), nothing);
    }
}
