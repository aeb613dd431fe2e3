//! The rows that a forecast rests on.

use crate::Row;

/// Times real time of a build of spectrograms.
pub const MEL_BUILD: &str = "dataset.build.mel";
/// GB/s of a merge of shards.
pub const MERGE: &str = "dataset.merge";
/// Times real time of a build of tokens at 24 kHz.
pub const TOKEN_BUILD: &str = "dataset.build.tokens.24khz";
/// GB/s of packing bf16 weights.
pub const PACK: &str = "pack.encode.bf16";
/// GB/s of decoding packed bf16 weights.
pub const UNPACK: &str = "pack.decode.bf16";

/// Returns the id of a row from any record. Rows of records without ids have it from what they were
/// called.
pub(super) fn of(row: &Row) -> Option<&str> {
    row.id.as_deref().or_else(|| older(&row.name, &row.unit))
}

fn older(name: &str, unit: &str) -> Option<&'static str> {
    match (name, unit) {
        ("dataset/build, times real time", "x") => Some(MEL_BUILD),
        ("dataset/merge of shards", "GB/s") => Some(MERGE),
        (name, "x") if name.starts_with("snac/encode corpus of ") && name.ends_with(" 24 kHz") => Some(TOKEN_BUILD),
        (name, "GB/s") if name.starts_with("pack/encode ") && name.contains(" bf16 ") => Some(PACK),
        (name, "GB/s") if name.starts_with("pack/decode ") && name.contains(" bf16 ") => Some(UNPACK),
        _ => None,
    }
}
