//! Codes to the formats that [`Reader`](super::Reader) reads.
//!
//! Orpheus text, JSON and safetensors carry the hash of the model that made them; ids and npy have no place for it.

use std::fmt::Write as _;

use super::{FIRST_ID, FIRST_TOKEN, SLOT_CODES, check_orpheus};
use crate::format::safetensors::{self, Tensor};
use crate::format::{DType, npy};
use crate::snac::{Codes, Model, slots};
use crate::{Error, Kind, Result};

/// `<custom_token_N>`, one frame a line, after a line with the model's hash.
///
/// # Errors
/// `Unsupported` when the model's frames do not have the seven slots of Orpheus.
pub fn to_orpheus(model: &Model, codes: &Codes) -> Result<String> {
    check_orpheus(model.config())?;
    let mut text = format!("<melisma_model_{}>\n", model.hash());
    each_line(codes, |out, number| write!(out, "<custom_token_{number}>"), &mut text)?;
    Ok(text)
}

/// Vocabulary ids, one frame a line.
///
/// # Errors
/// As [`to_orpheus`].
pub fn to_ids(model: &Model, codes: &Codes) -> Result<String> {
    check_orpheus(model.config())?;
    let mut text = String::new();
    each_line(codes, |out, number| write!(out, "{} ", number + FIRST_ID), &mut text)?;
    Ok(text)
}

fn each_line(codes: &Codes, write: impl Fn(&mut String, i64) -> std::fmt::Result, text: &mut String) -> Result<()> {
    for frame in codes.frames().chunks(1) {
        for (slot, &code) in frame.as_slice().iter().enumerate() {
            write(text, FIRST_TOKEN + slot as i64 * SLOT_CODES + i64::from(code))
                .map_err(|error| Error::new(Kind::Io, error.to_string()))?;
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    Ok(())
}

/// `{"codes": [[level 0 codes], [level 1 codes], …], "model": "HASH"}`.
pub fn to_json(model: &Model, codes: &Codes) -> String {
    format!("{}\n", serde_json::json!({ "model": model.hash(), "codes": codes.levels() }))
}

/// 32-bit integers, `[frames, slots]`, in the order of [`slots`].
pub fn to_npy(model: &Model, codes: &Codes) -> Vec<u8> {
    let mut out = npy::header(npy::descr(DType::I32), &[codes.n_frames(), slots(model.config()).len()]);
    out.extend(codes.frames().as_slice().iter().flat_map(|code| code.to_le_bytes()));
    out
}

/// 32-bit integers `codes.0`, `codes.1`, …, with the model's hash as metadata.
pub fn to_safetensors(model: &Model, codes: &Codes) -> Vec<u8> {
    let levels = codes.levels();
    let tensors = levels.iter().enumerate().map(|(index, level)| Tensor {
        name: format!("codes.{index}"),
        dtype: DType::I32,
        shape: vec![level.len()],
        bytes: bytemuck::cast_slice(level),
    });
    safetensors::write(tensors.collect(), &[("model", model.hash())])
}
