//! What is said of packed files: a line, a table, or JSON.

use std::path::Path;

use melisma::Result;
use melisma::pack::{Archive, Packed, TensorInfo};
use melisma::text::size;
use melisma::text::table::{Align, Table};
use serde_json::{Value, json};

use crate::terminal;

/// Describes one file after packing.
pub fn packed(path: &Path, packed: &Packed, infos: &[TensorInfo]) -> Value {
    let Packed { source_len, packed_len, encode_seconds, .. } = *packed;
    json!({
        "output": path.display().to_string(), "bytes_in": source_len, "bytes_out": packed_len,
        "ratio": ratio(packed_len, source_len),
        "encode_bytes_per_second": source_len as f64 / encode_seconds.max(1e-9), "verified": true,
        "tensors": tensors(infos),
    })
}

/// Returns the report as text. It names the size of a checkpoint of `file_len` bytes whose tensors take more or less
/// than that.
pub fn packed_line(path: &Path, packed: &Packed, file_len: u64) -> String {
    let Packed { source_len, packed_len, .. } = *packed;
    let [tensors, file] = [source_len, file_len].map(size::show);
    let note = if tensors == file { String::new() } else { format!("; the checkpoint has {file}") };
    format!(
        "{}: {tensors} to {} ({:.2} %), verified{note}\n",
        terminal::name(path),
        size::show(packed_len),
        100.0 * ratio(packed_len, source_len)
    )
}

/// Describes one file after `-t`.
pub fn tested(archive: &Archive<'_>, bytes_out: u64) -> Result<Value> {
    let bytes_in = archive.source_len();
    Ok(json!({
        "bytes_in": bytes_in, "bytes_out": bytes_out, "ratio": ratio(bytes_out, bytes_in),
        "verified": true, "tensors": tensors(&archive.list()?),
    }))
}

/// Describes one file for `-l`.
pub fn listed(archive: &Archive<'_>, bytes_out: u64) -> Result<Value> {
    let bytes_in = archive.source_len();
    Ok(json!({
        "bytes_in": bytes_in, "bytes_out": bytes_out, "ratio": ratio(bytes_out, bytes_in), "verified": false,
        "delta": archive.is_delta(), "gpu_index": archive.has_gpu_index(),
        "tensors": tensors(&archive.list()?),
    }))
}

/// Returns the tensors of files, with the bytes of all.
pub fn table(files: &[Vec<TensorInfo>], [bytes_in, bytes_out]: [u64; 2]) -> String {
    let right = |name| (name, Align::Right);
    let left = |name| (name, Align::Left);
    let mut table = Table::new([
        left("tensor"),
        left("dtype"),
        left("shape"),
        right("bytes"),
        right("packed"),
        right("ratio"),
        left("modes"),
    ]);
    for info in files.iter().flatten() {
        let entry = &info.entry;
        table.push([
            terminal::one_line(&entry.name),
            entry.dtype.clone(),
            format!("{:?}", entry.shape),
            entry.len().to_string(),
            info.packed_len.to_string(),
            format!("{:.4}", ratio(info.packed_len, entry.len())),
            modes(info).join(" | "),
        ]);
    }
    table.text() + &format!("{bytes_in} bytes in {bytes_out}, {:.2} %\n", 100.0 * ratio(bytes_out, bytes_in))
}

pub fn ratio(bytes_out: u64, bytes_in: u64) -> f64 {
    bytes_out as f64 / bytes_in.max(1) as f64
}

/// Returns the modes of each plane, such as `pairs` or `raw 3, bytes 1`.
fn modes(info: &TensorInfo) -> Vec<String> {
    let plane = |modes: &Vec<(&str, u64)>| match &modes[..] {
        [(name, _)] => (*name).to_owned(),
        modes => modes.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", "),
    };
    info.modes.iter().map(plane).collect()
}

fn tensors(infos: &[TensorInfo]) -> Vec<Value> {
    let tensor = |info: &TensorInfo| {
        json!({
            "name": info.entry.name, "dtype": info.entry.dtype, "shape": info.entry.shape,
            "bytes_in": info.entry.len(), "bytes_out": info.packed_len, "modes": modes(info),
            "tiles": info.layout.grid(),
        })
    };
    infos.iter().map(tensor).collect()
}
