//! A model with losslessly compressed weights: a packed file that contains the large floating-point
//! initializers, and `graph`, the model without them.

use std::sync::Arc;

use super::external::NoFolder;
use super::tensor::{Data, Tensor};
use super::{Model, check, read, write};
use crate::format::safetensors;
use crate::pack::{self, Archive, ReadAt};
use crate::runtime::memory::{Budget, Space};
use crate::{DType, Error, ErrorKind, Remedy, Result};

/// Smaller tensors stay in the graph.
const MIN_BYTES: usize = 4096;
const GRAPH: &str = "graph";

impl Model {
    /// Returns the model as a packed file.
    ///
    /// # Errors
    /// There is not enough memory to pack the weights.
    pub fn to_packed(&self, options: &pack::Options<'_>) -> Result<Vec<u8>> {
        let mut bare = self.clone();
        let mut weights = Vec::new();
        for (index, tensor) in self.graph.initializers.iter().enumerate() {
            if let (Some(dtype), Data::Bytes(bytes), true) =
                (DType::from_code(tensor.dtype).ok().filter(is_packed), &tensor.data, tensor.rest.is_empty())
                && bytes.len() >= MIN_BYTES
            {
                weights.push((index, dtype, tensor, bytes));
            }
        }
        for (index, ..) in weights.iter().rev() {
            bare.graph.initializers.remove(*index);
        }
        let graph = write::model(&bare);
        let graph =
            safetensors::Tensor { name: GRAPH.to_owned(), dtype: DType::U8, shape: vec![graph.len()], bytes: &graph };
        let weights = weights.iter().map(|(index, dtype, tensor, bytes)| safetensors::Tensor {
            name: format!("{index}:{}", tensor.name),
            dtype: *dtype,
            shape: tensor.shape.clone(),
            bytes,
        });
        let source = safetensors::encode(std::iter::once(graph).chain(weights).collect(), &[])?;
        let mut packed = Vec::new();
        pack::pack(&source, &mut packed, options, &|_| {})?;
        Ok(packed)
    }

    /// Reads the output of [`Model::to_packed`], if the unpacked model fits into `budget`.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for other bytes, `Memory` beyond the budget.
    pub fn from_packed(packed: &dyn ReadAt, budget: &Budget) -> Result<Self> {
        let archive = Archive::open(packed, budget)?;
        if archive.source_len() > budget.free(Space::Host) {
            let message = budget.refusal(Space::Host, "the unpacked model", archive.source_len());
            return Err(Error::new(ErrorKind::Memory, message).with_hint(Remedy::RaiseMemoryLimit { least: None }));
        }
        archive.check_hash()?;
        // Unpacks one tensor at a time, so that memory never holds the whole file as well.
        let unpacked = |name: &str| -> Result<Vec<u8>> {
            let mut bytes = Vec::new();
            archive.unpack_tensor(name, &mut bytes, melisma_kernels::available_threads())?;
            bytes.shrink_to_fit();
            Ok(bytes)
        };
        let graph = unpacked(GRAPH).map_err(|error| Error::corrupt(format!("a packed model: {error}")))?;
        let mut model = read::model(&graph, &mut NoFolder)?;
        let mut weights = Vec::new();
        for entry in archive.source().tensors.iter().filter(|entry| entry.name != GRAPH) {
            let parts = entry.name.split_once(':').and_then(|(index, name)| Some((index.parse::<usize>().ok()?, name)));
            let wrong = |what: &str| Error::corrupt(format!("the packed model has {what} `{}`", entry.name));
            let (index, name) = parts.ok_or_else(|| wrong("an unknown tensor"))?;
            let dtype = DType::from_safetensors(&entry.dtype).filter(is_packed).map(DType::code);
            let dtype = dtype.ok_or_else(|| wrong("an unknown element type of tensor"))?;
            let shape: Option<Vec<usize>> = entry.shape.iter().map(|&axis| usize::try_from(axis).ok()).collect();
            let shape = shape.ok_or_else(|| wrong("a wrong shape of tensor"))?;
            let data = Data::Bytes(Arc::new(unpacked(&entry.name)?));
            weights.push((index, Tensor { name: name.to_owned(), dtype, shape, data, rest: Vec::new() }));
        }
        weights.sort_by_key(|(index, _)| *index);
        for (index, tensor) in weights {
            let at = index.min(model.graph.initializers.len());
            model.graph.initializers.insert(at, tensor);
        }
        check::checked(model)
    }
}

/// Returns whether weights of this type are packed.
fn is_packed(dtype: &DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::pass;
    use crate::onnx::synthetic::{Snac, snac_decoder};

    #[test]
    fn weights_come_back_and_take_less() {
        let mut model = snac_decoder(&Snac { latent_dim: 64, dim: 64, strides: &[2] }, 1).unwrap();
        let budget = Budget::unlimited();
        let options = pack::Options::new(&budget);
        for is_half in [false, true] {
            if is_half {
                pass::to_half(&mut model, &Default::default()).unwrap();
            }
            let (plain, packed) = (model.to_bytes().unwrap(), model.to_packed(&options).unwrap());
            assert!(packed.len() < plain.len(), "{} of {}", packed.len(), plain.len());
            assert_eq!(Model::from_packed(&packed, &budget).unwrap(), model);
            assert_eq!(Model::from_packed(&packed, &Budget::limited(100)).unwrap_err().kind(), ErrorKind::Memory);
            for len in [0, 7, 100, packed.len() / 2, packed.len() - 1] {
                assert!(Model::from_packed(&&packed[..len], &budget).is_err());
            }
        }
        let nothing = Model::from_bytes(crate::golden::CONTROL).unwrap();
        assert_eq!(Model::from_packed(&nothing.to_packed(&options).unwrap(), &budget).unwrap(), nothing);
    }
}
