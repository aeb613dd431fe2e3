//! Checkpoints of PyTorch as sources: their tensors become a safetensors file, which is what gets packed.

use std::fmt::Write;

use super::storage::{ReadAt, read};
use crate::checkpoint::Checkpoint;
use crate::{Error, Result};

/// The tensors of a checkpoint, by name, as a safetensors file.
///
/// # Errors
/// Those of [`Checkpoint::read`], or `Unsupported` for element types that safetensors does not have.
pub fn from_checkpoint(bytes: &[u8]) -> Result<Vec<u8>> {
    let checkpoint = Checkpoint::read(bytes)?;
    let (mut json, mut data) = (String::from("{"), Vec::new());
    for name in checkpoint.names() {
        let Some(view) = checkpoint.get(name) else { continue };
        let dtype = view.dtype.safetensors_name();
        let dtype = dtype.ok_or_else(|| Error::unsupported(format!("{name}: elements of type {:?}", view.dtype)))?;
        let begin = data.len();
        view.append_bytes(&mut data).map_err(|error| error.at(name))?;
        let quoted = serde_json::to_string(name).map_err(|error| Error::invalid(error.to_string()))?;
        let comma = if json.len() > 1 { "," } else { "" };
        let (shape, end) = (&view.shape, data.len());
        // Writing to a string cannot fail.
        let _ =
            write!(json, r#"{comma}{quoted}:{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#);
    }
    json.push('}');
    json += &" ".repeat(json.len().next_multiple_of(8) - json.len());
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(json.as_bytes());
    file.append(&mut data);
    Ok(file)
}

/// Whether a file begins as checkpoints of PyTorch do, of this century's format or the one before.
pub fn is_checkpoint(file: &dyn ReadAt) -> bool {
    matches!(read(file, 0, 4).as_deref(), Ok([b'P', b'K', 3, 4] | [0x80, 2, 0x8a, 0x0a]))
}
