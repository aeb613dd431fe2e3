//! Codes to the formats that [`Reader`](super::Reader) reads.
//!
//! Orpheus text, JSON and safetensors carry the hash of the model that made them; ids and npy have no place for it.

use std::fmt::Write as _;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};

use super::{FIRST_ID, FIRST_TOKEN, SLOT_CODES, check_orpheus};
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
    let n_slots = slots(model.config()).len();
    let mut header =
        format!("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}, {n_slots}), }}", codes.n_frames());
    // Magic, version, length and header fill a multiple of 64 bytes, and the header ends with a line feed.
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header.extend(std::iter::repeat_n(' ', padded - header.len() - 1));
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend(codes.frames().as_slice().iter().flat_map(|code| code.to_le_bytes()));
    out
}

/// 32-bit integers `codes.0`, `codes.1`, …, with the model's hash as metadata.
///
/// # Errors
/// None in practice.
pub fn to_safetensors(model: &Model, codes: &Codes) -> Result<Vec<u8>> {
    let refused = |error: safetensors::SafeTensorError| Error::new(Kind::Io, error.to_string()).with_source(error);
    let bytes = |level: &Vec<i32>| -> Vec<u8> { level.iter().flat_map(|code| code.to_le_bytes()).collect() };
    let levels: Vec<(usize, Vec<u8>)> = codes.levels().iter().map(|level| (level.len(), bytes(level))).collect();
    let views = levels.iter().enumerate().map(|(index, (len, bytes))| {
        Ok((format!("codes.{index}"), TensorView::new(Dtype::I32, vec![*len], bytes).map_err(refused)?))
    });
    let metadata = [("model".to_owned(), model.hash().to_owned())].into();
    serialize(views.collect::<Result<Vec<_>>>()?, Some(metadata)).map_err(refused)
}
