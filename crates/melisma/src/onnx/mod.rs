//! Reads, checks and writes ONNX models. Models are untrusted, so we use our own small protobuf
//! code: it checks every length before use, and passes unknown fields through unchanged.
//!
//! Every [`Model`] is sound: no cycle, no value without a source, no tensor whose bytes do not fit
//! its shape.
//!
//! ```no_run
//! use melisma::onnx::Model;
//!
//! let model = Model::open("model.onnx")?;
//! println!("opset {:?}", model.opset(""));
//! model.graph.inputs.iter().for_each(|input| println!("{}", input.name));
//! # Ok::<(), melisma::Error>(())
//! ```

mod attribute;
mod check;
mod detached;
mod external;
mod graph;
mod identity;
pub(crate) mod lookup;
mod packed;
#[doc(hidden)]
pub mod pass;
mod read;
pub(crate) mod shape;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod synthetic;
#[cfg(not(feature = "bench"))]
pub(crate) mod synthetic;
mod tensor;
#[cfg(test)]
mod tests;

mod wire;
mod write;

use std::fs::File;
use std::path::Path;

pub use attribute::{Attribute, Content};
pub(super) use detached::Detached;
pub use graph::{Dim, Graph, Node, Opset, ValueInfo, ValueType};
pub use identity::fingerprint;
pub use tensor::{Data, Tensor};

use crate::{Error, Result};
use external::{Folder, NoFolder};

/// Size limit of a protobuf message.
const MAX_BYTES: u64 = i32::MAX as u64;
const EXPECTED: &str = "an .onnx file is expected, as torch.onnx.export writes it";

/// A model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Model {
    /// The version of the format.
    pub ir_version: i64,
    /// The operator sets that it uses.
    pub opsets: Vec<Opset>,
    /// The computation.
    pub graph: Graph,
    /// Fields that are passed through: producer, texts, functions, training information.
    pub rest: Vec<u8>,
}

impl Model {
    /// Reads a model and its external data.
    ///
    /// # Errors
    /// The file cannot be read, is not a model, or its external data is outside its folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::open_within(path, u64::MAX)
    }

    /// Reads a model of at most `limit` bytes, including its external data.
    ///
    /// # Errors
    /// As [`Model::open`]; `Memory` beyond the limit.
    pub fn open_within(path: impl AsRef<Path>, limit: u64) -> Result<Self> {
        let path = path.as_ref();
        let (file, len) = open(path)?;
        let left = limit.checked_sub(len).ok_or_else(|| external::too_large(path, limit))?;
        let mut folder = Folder::of(path, left)?;
        read::model(&file, &mut folder).and_then(check::checked).map_err(|error| error.at(path.display()))
    }

    /// Reads a model without external data.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for bytes that are not a sound model, `Unsupported` for external
    /// data or an unknown format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        read::model(&bytes, &mut NoFolder).and_then(check::checked)
    }

    /// Creates a model of one graph, for tests.
    #[cfg(test)]
    pub(crate) fn of(graph: Graph) -> Self {
        let opsets = vec![Opset { domain: String::new(), version: 17 }];
        Self { ir_version: 8, opsets, graph, rest: Vec::new() }.checked().unwrap()
    }

    /// Checks a modified model again, with the same guarantees as for a model read from a file.
    /// Reorders nodes if necessary.
    ///
    /// # Errors
    /// `Corrupt` names the defect.
    pub fn checked(self) -> Result<Self> {
        check::checked(self)
    }

    /// Serializes the model into one file that includes all data.
    ///
    /// # Errors
    /// `Unsupported` beyond 2 GiB, the limit of protobuf messages.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = write::model(self);
        if i32::try_from(bytes.len()).is_err() {
            return Err(Error::unsupported(format!(
                "a model of {} bytes in one file; the format ends at 2 GiB",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// Returns the version of an operator set that it uses; an empty name means ONNX's own.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        let same = |known: &str| known == domain || [known, domain].iter().all(|name| matches!(*name, "" | "ai.onnx"));
        self.opsets.iter().find(|opset| same(&opset.domain)).map(|opset| opset.version)
    }
}

/// Opens a model and returns its length: it must be a plain file within the size limit of a
/// message.
fn open(path: &Path) -> Result<(File, u64)> {
    let failed = |error| Error::io(path.display(), error);
    // Checked before opening, because opening a pipe would block.
    let data = std::fs::metadata(path).map_err(|error| failed(error).with_hint(EXPECTED))?;
    if !data.is_file() {
        return Err(Error::invalid(format!("{}: not a plain file", path.display())).with_hint(EXPECTED));
    }
    if data.len() > MAX_BYTES {
        let message = format!("{}: {} bytes in one file; the format ends at 2 GiB", path.display(), data.len());
        return Err(Error::unsupported(message).with_hint("larger models keep their weights in external data"));
    }
    Ok((File::open(path).map_err(failed)?, data.len()))
}
