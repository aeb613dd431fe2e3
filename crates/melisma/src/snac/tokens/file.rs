//! Lists of codes: JSON, npy and safetensors.

use serde::Deserialize;

use crate::format::npy;
use crate::format::safetensors::Header;
use crate::snac::codes::{check_levels, each_slot};
use crate::snac::config::Config;
use crate::{DType, Error, ErrorKind, Result};

/// Codes of whole frames as the file has them; single codes may still be outside the codebooks.
#[derive(Debug)]
pub struct List {
    pub stamp: Option<String>,
    codes: Layout,
}

#[derive(Debug)]
enum Layout {
    Levels(Vec<Vec<i64>>),
    Frames(Vec<i64>),
}

impl List {
    /// Hands out slot and code, frame after frame.
    pub fn each_slot(&self, config: &Config, mut found: impl FnMut(usize, i64)) {
        let n_slots = config.n_slots();
        match &self.codes {
            Layout::Frames(codes) => codes.iter().enumerate().for_each(|(i, &code)| found(i % n_slots, code)),
            Layout::Levels(levels) => each_slot(config, levels, found),
        }
    }
}

pub fn read(bytes: &[u8], config: &Config) -> Result<List> {
    let list = if bytes.starts_with(npy::MAGIC) {
        List { stamp: None, codes: Layout::Frames(npy(bytes, config.n_slots())?) }
    } else if matches!(bytes.trim_ascii_start().first(), Some(b'[' | b'{')) {
        json(bytes)?
    } else {
        tensors(bytes, config)?
    };
    if let Layout::Levels(levels) = &list.codes {
        check_levels(config, levels).map_err(Error::corrupt)?;
    }
    Ok(list)
}

#[derive(Deserialize)]
struct Stamped {
    model: Option<String>,
    codes: Vec<Vec<i64>>,
}

fn json(bytes: &[u8]) -> Result<List> {
    let refused = |error: serde_json::Error| {
        let kind = if error.is_eof() { ErrorKind::Truncated } else { ErrorKind::Corrupt };
        Error::new(kind, format!("codes in JSON: {error}")).with_source(error)
    };
    if bytes.trim_ascii_start().starts_with(b"{") {
        let stamped: Stamped = serde_json::from_slice(bytes).map_err(refused)?;
        return Ok(List { stamp: stamped.model, codes: Layout::Levels(stamped.codes) });
    }
    let levels = serde_json::from_slice(bytes).map_err(refused)?;
    Ok(List { stamp: None, codes: Layout::Levels(levels) })
}

fn tensors(bytes: &[u8], config: &Config) -> Result<List> {
    let file = Header::read(&bytes).map_err(|error| {
        Error::corrupt(format!("neither JSON nor npy, and as safetensors: {error}")).with_source(error)
    })?;
    let level = |level: usize| {
        let name = format!("codes.{level}");
        let entry = file.get(&name).ok_or_else(|| Error::corrupt(format!("{name}: this tensor is missing")))?;
        let [begin, end] = entry.bytes.map(|at| (file.len + at) as usize);
        let data = bytes.get(begin..end).ok_or_else(|| Error::truncated(format!("{name}: the file ends within it")))?;
        integers(DType::from_safetensors(&entry.dtype), data).map_err(|error| error.at(name))
    };
    let levels = (0..config.vq_strides.len()).map(level).collect::<Result<_>>()?;
    Ok(List { stamp: file.metadata.get("model").cloned(), codes: Layout::Levels(levels) })
}

/// Reads shape `[frames, slots]` or `[frames · slots]`.
fn npy(bytes: &[u8], n_slots: usize) -> Result<Vec<i64>> {
    let codes = npy::decode(bytes)?;
    match codes.shape() {
        [n] if n.is_multiple_of(n_slots) => {}
        [_, width] if *width == n_slots => {}
        shape => return Err(Error::corrupt(format!("an npy file of shape {shape:?}, not [frames, {n_slots}]"))),
    }
    integers(Some(codes.dtype()), codes.bytes())
}

fn integers(dtype: Option<DType>, data: &[u8]) -> Result<Vec<i64>> {
    fn each<const N: usize>(data: &[u8], integer: impl Fn([u8; N]) -> i64) -> Vec<i64> {
        data.as_chunks::<N>().0.iter().map(|&bytes| integer(bytes)).collect()
    }
    Ok(match dtype {
        Some(DType::U8) => data.iter().map(|&byte| byte.into()).collect(),
        Some(DType::I16) => each(data, |bytes| i16::from_le_bytes(bytes).into()),
        Some(DType::U16) => each(data, |bytes| u16::from_le_bytes(bytes).into()),
        Some(DType::I32) => each(data, |bytes| i32::from_le_bytes(bytes).into()),
        Some(DType::U32) => each(data, |bytes| u32::from_le_bytes(bytes).into()),
        Some(DType::I64) => each(data, i64::from_le_bytes),
        other => {
            let name = other.map_or("unknown", DType::name);
            return Err(Error::unsupported(format!("codes of type {name}; they are integers of 8 to 64 bits")));
        }
    })
}
