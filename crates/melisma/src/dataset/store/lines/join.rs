//! Joins files of lines: the bytes of one after those of the other.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value};

use super::Lines;
use super::origin::Origin;
use crate::Result;
use crate::dataset::store::guard;
use crate::dataset::store::paths::beside;
use crate::output::{self, Existing, OutputFile};

/// Writes the lines of `parts` to `path`, in order, and that they have these attributes. Every byte is checked while
/// it is copied.
pub(in crate::dataset) fn join(
    parts: &[(&Path, Origin)],
    lines: Lines,
    attributes: Map<String, Value>,
    (path, existing): (&Path, Existing),
) -> Result<Origin> {
    let mut file = OutputFile::create(&beside(path, ".lines"), Existing::Replace)?;
    let (mut joined, mut hash) = (Origin::new(lines, attributes), blake3::Hasher::new());
    for (part, origin) in parts {
        origin.read(part, |bytes| {
            hash.update(bytes);
            file.write_all(bytes).map_err(|error| output::failed(path, error))
        })?;
        joined.rows += origin.rows;
        joined.bytes += origin.bytes;
    }
    if existing == Existing::Refuse && path.exists() {
        return Err(guard::already(path, ""));
    }
    // First: lines never appear without it.
    joined.blake3 = hash.finalize().to_hex().to_string();
    joined.write(path)?;
    file.commit_as(path.to_owned())?;
    Ok(joined)
}
