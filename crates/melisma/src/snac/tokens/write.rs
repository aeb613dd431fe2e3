//! Codes to the formats that [`Reader`](super::Reader) reads.
//!
//! Orpheus text, JSON and safetensors carry the hash of the model that made them; ids and npy have no place for it.

use super::{FIRST_ID, FIRST_TOKEN, SLOT_CODES, check_orpheus};
use crate::format::npy;
use crate::format::safetensors::{self, Tensor};
use crate::snac::{Codes, Frames, Model};
use crate::{DType, Result};

/// Text, which can be written while frames come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// `<custom_token_N>`, one frame a line, after a line with the model's hash.
    Orpheus,
    /// Vocabulary ids, one frame a line.
    Ids,
}

impl Text {
    /// Returns the text before the first frame.
    ///
    /// # Errors
    /// `Unsupported` when the model's frames do not have the seven slots of Orpheus.
    pub fn start(self, model: &Model) -> Result<String> {
        check_orpheus(model.config())?;
        Ok(match self {
            Self::Orpheus => format!("<melisma_model_{}>\n", model.hash()),
            Self::Ids => String::new(),
        })
    }

    /// Returns the text of some frames of a model that [`Text::start`] accepts.
    pub fn lines<'a>(self, frames: impl Into<Frames<'a>>) -> String {
        let mut text = String::new();
        for frame in frames.into().chunks(1) {
            for (slot, &code) in frame.as_slice().iter().enumerate() {
                let number = FIRST_TOKEN + slot as i64 * SLOT_CODES + i64::from(code);
                match self {
                    Self::Orpheus => text += &format!("<custom_token_{number}>"),
                    Self::Ids if slot == 0 => text += &(number + FIRST_ID).to_string(),
                    Self::Ids => text += &format!(" {}", number + FIRST_ID),
                }
            }
            text.push('\n');
        }
        text
    }

    fn write(self, model: &Model, codes: &Codes) -> Result<String> {
        Ok(self.start(model)? + &self.lines(codes))
    }
}

/// Returns [`Text::Orpheus`] of a whole clip.
///
/// # Errors
/// Those of [`Text::start`].
pub fn to_orpheus(model: &Model, codes: &Codes) -> Result<String> {
    Text::Orpheus.write(model, codes)
}

/// Returns [`Text::Ids`] of a whole clip.
///
/// # Errors
/// Those of [`Text::start`].
pub fn to_ids(model: &Model, codes: &Codes) -> Result<String> {
    Text::Ids.write(model, codes)
}

/// Returns `{"codes": [[level 0 codes], [level 1 codes], …], "model": "HASH"}`.
pub fn to_json(model: &Model, codes: &Codes) -> String {
    format!("{}\n", serde_json::json!({ "model": model.hash(), "codes": codes.levels() }))
}

/// Returns 32-bit integers, `[frames, slots]`, in the order of language models.
pub fn to_npy(model: &Model, codes: &Codes) -> Vec<u8> {
    let mut out = npy::header(npy::descr(DType::I32), &[codes.n_frames(), model.config().n_slots()]);
    out.extend(codes.frames().as_slice().iter().flat_map(|code| code.to_le_bytes()));
    out
}

/// Returns 32-bit integers `codes.0`, `codes.1`, …, with the model's hash as metadata.
///
/// # Errors
/// Those of [`safetensors::encode`].
pub fn to_safetensors(model: &Model, codes: &Codes) -> Result<Vec<u8>> {
    let levels = codes.levels();
    let tensors = levels.iter().enumerate().map(|(index, level)| Tensor {
        name: format!("codes.{index}"),
        dtype: DType::I32,
        shape: vec![level.len()],
        bytes: bytemuck::cast_slice(level),
    });
    safetensors::encode(tensors.collect(), &[("model", model.hash())])
}
