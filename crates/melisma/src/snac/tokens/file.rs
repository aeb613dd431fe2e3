//! Lists of codes: JSON, npy and safetensors.

use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use crate::snac::config::Config;
use crate::snac::slots;
use crate::{Error, Kind, Result};

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
        let slots = slots(config);
        match &self.codes {
            Layout::Frames(codes) => codes.iter().enumerate().for_each(|(i, &code)| found(i % slots.len(), code)),
            Layout::Levels(levels) => {
                let per_frame: Vec<usize> = config.frame_codes().collect();
                for frame in 0..levels[0].len() {
                    for (index, slot) in slots.iter().enumerate() {
                        found(index, levels[slot.level][frame * per_frame[slot.level] + slot.index]);
                    }
                }
            }
        }
    }
}

pub fn read(bytes: &[u8], config: &Config) -> Result<List> {
    let list = if bytes.starts_with(b"\x93NUMPY") {
        List { stamp: None, codes: Layout::Frames(npy(bytes, slots(config).len())?) }
    } else if matches!(bytes.trim_ascii_start().first(), Some(b'[' | b'{')) {
        json(bytes)?
    } else {
        tensors(bytes, config)?
    };
    if let Layout::Levels(levels) = &list.codes {
        check(levels, config)?;
    }
    Ok(list)
}

fn check(levels: &[Vec<i64>], config: &Config) -> Result<()> {
    if levels.len() != config.vq_strides.len() {
        let message = format!("{} levels of codes, the model has {}", levels.len(), config.vq_strides.len());
        return Err(Error::corrupt(message));
    }
    let n_frames = levels[0].len();
    for (index, (level, per_frame)) in levels.iter().zip(config.frame_codes()).enumerate() {
        if Some(level.len()) != n_frames.checked_mul(per_frame) {
            let message = format!("level {index} has {} codes, {n_frames} frames need {per_frame} each", level.len());
            return Err(Error::corrupt(message));
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Stamped {
    model: Option<String>,
    codes: Vec<Vec<i64>>,
}

fn json(bytes: &[u8]) -> Result<List> {
    let refused = |error: serde_json::Error| {
        let kind = if error.is_eof() { Kind::Truncated } else { Kind::Corrupt };
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
    let refused = |error: safetensors::SafeTensorError| {
        Error::corrupt(format!("neither JSON nor npy, and as safetensors: {error}")).with_source(error)
    };
    let file = SafeTensors::deserialize(bytes).map_err(refused)?;
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(refused)?;
    let stamp = metadata.metadata().as_ref().and_then(|texts| texts.get("model").cloned());
    let level = |level: usize| {
        let name = format!("codes.{level}");
        let tensor = file.tensor(&name).map_err(|_| Error::corrupt(format!("{name}: this tensor is missing")))?;
        let kind = match tensor.dtype() {
            Dtype::U8 => "u1",
            Dtype::I16 => "i2",
            Dtype::U16 => "u2",
            Dtype::I32 => "i4",
            Dtype::U32 => "u4",
            Dtype::I64 => "i8",
            other => return Err(Error::unsupported(format!("{name}: codes of type {other:?}"))),
        };
        integers(kind, tensor.data())
    };
    let levels = (0..config.vq_strides.len()).map(level).collect::<Result<_>>()?;
    Ok(List { stamp, codes: Layout::Levels(levels) })
}

/// Version 1 to 3, C order, shape `[frames, slots]` or `[frames · slots]`.
fn npy(bytes: &[u8], n_slots: usize) -> Result<Vec<i64>> {
    let cut = || Error::truncated(format!("an npy file of {} bytes", bytes.len()));
    let (header_len, start) = match bytes.get(6).ok_or_else(cut)? {
        1 => (usize::from(u16::from_le_bytes(field(bytes, 8).ok_or_else(cut)?)), 10),
        2 | 3 => (u32::from_le_bytes(field(bytes, 8).ok_or_else(cut)?) as usize, 12),
        other => return Err(Error::new(Kind::Version, format!("npy version {other}"))),
    };
    let header = bytes.get(start..).and_then(|rest| rest.get(..header_len)).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| Error::corrupt("an npy header that is not UTF-8"))?;
    let value =
        |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start_matches([' ', ':', '\'', '"', '<', '|']));
    let kind = value("'descr'").and_then(|rest| rest.split(['\'', '"']).next()).unwrap_or_default();
    if !value("'fortran_order'").is_some_and(|rest| rest.starts_with("False")) {
        return Err(Error::unsupported("an npy file in Fortran order"));
    }
    let shape = value("'shape'").and_then(|rest| rest.strip_prefix('(')?.split(')').next()).unwrap_or_default();
    let shape: Option<Vec<usize>> =
        shape.split(',').map(str::trim).filter(|extent| !extent.is_empty()).map(|extent| extent.parse().ok()).collect();
    let count = match shape.as_deref() {
        Some(&[n]) if n.is_multiple_of(n_slots) => Some(n),
        Some(&[n, width]) if width == n_slots => n.checked_mul(width),
        _ => None,
    };
    let count = count.ok_or_else(|| Error::corrupt(format!("an npy file whose shape is not [frames, {n_slots}]")))?;
    let data = &bytes[start + header_len..];
    let codes = integers(kind, data)?;
    codes.get(..count).map(<[i64]>::to_vec).ok_or_else(cut)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn integers(kind: &str, data: &[u8]) -> Result<Vec<i64>> {
    fn each<const N: usize>(data: &[u8], integer: impl Fn([u8; N]) -> i64) -> Vec<i64> {
        data.as_chunks::<N>().0.iter().map(|&bytes| integer(bytes)).collect()
    }
    Ok(match kind {
        "u1" => data.iter().map(|&byte| byte.into()).collect(),
        "i2" => each(data, |bytes| i16::from_le_bytes(bytes).into()),
        "u2" => each(data, |bytes| u16::from_le_bytes(bytes).into()),
        "i4" => each(data, |bytes| i32::from_le_bytes(bytes).into()),
        "u4" => each(data, |bytes| u32::from_le_bytes(bytes).into()),
        "i8" => each(data, i64::from_le_bytes),
        other => return Err(Error::unsupported(format!("codes of type {other:?}; integers of 8 to 64 bits"))),
    })
}
