//! Tensors in memory as a safetensors file, and files that fail after Ctrl-C.

use melisma::format::safetensors;
use melisma::pack::{Append, ReadAt, Sink};
use melisma::{Error, Result};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::signal::Stop;

/// A tensor as the package hands it over: name, safetensors type, shape and bytes.
pub type TensorArg<'py> = (String, String, Vec<u64>, PyReadonlyArray1<'py, u8>);

/// A safetensors file whose tensors stay where they are.
pub struct Joined<'a> {
    /// Each with the place of its first byte.
    parts: Vec<(u64, Part<'a>)>,
    len: u64,
}

enum Part<'a> {
    Header(Vec<u8>),
    Tensor(&'a [u8]),
}

impl Part<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Header(bytes) => bytes,
            Self::Tensor(bytes) => bytes,
        }
    }
}

impl<'a> Joined<'a> {
    pub fn new(tensors: &'a [TensorArg<'_>], metadata: &[(String, String)]) -> PyResult<Self> {
        let mut json: Vec<String> = Vec::new();
        if !metadata.is_empty() {
            let pairs: Vec<String> =
                metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
            json.push(format!("\"__metadata__\":{{{}}}", pairs.join(",")));
        }
        let mut end = 0;
        let mut parts = Vec::new();
        for (name, dtype, shape, bytes) in tensors {
            let (bytes, begin) = (bytes.as_slice()?, end);
            end += bytes.len() as u64;
            let (name, dtype) = (quoted(name), quoted(dtype));
            json.push(format!("{name}:{{\"dtype\":{dtype},\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]}}"));
            parts.push((begin, Part::Tensor(bytes)));
        }
        let header = safetensors::header(format!("{{{}}}", json.join(",")), 8);
        let start = header.len() as u64;
        parts.iter_mut().for_each(|(at, _)| *at += start);
        parts.insert(0, (0, Part::Header(header)));
        Ok(Self { parts, len: start + end })
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl ReadAt for Joined<'_> {
    fn size(&self) -> Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, mut at: u64, mut out: &mut [u8]) -> Result<()> {
        let mut index = self.parts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        while !out.is_empty() {
            let Some((start, part)) = self.parts.get(index) else {
                return Err(Error::truncated(format!("byte {at} is beyond the end ({} bytes)", self.len)));
            };
            let rest = part.bytes().get((at - start) as usize..).unwrap_or_default();
            let n = rest.len().min(out.len());
            let (now, later) = out.split_at_mut(n);
            now.copy_from_slice(&rest[..n]);
            (at, out, index) = (at + n as u64, later, index + 1);
        }
        Ok(())
    }
}

/// A source that cannot be read after the work was asked to stop.
pub struct Stoppable<'a> {
    pub source: &'a dyn ReadAt,
    pub stop: &'a Stop,
}

impl ReadAt for Stoppable<'_> {
    fn size(&self) -> Result<u64> {
        self.source.size()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.stop.check()?;
        self.source.read_at(at, out)
    }
}

/// An output that cannot be written after the work was asked to stop.
pub struct StoppableSink<'a> {
    pub sink: &'a mut dyn Sink,
    pub stop: &'a Stop,
}

impl Append for StoppableSink<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.stop.check()?;
        self.sink.append(bytes)
    }
}

impl Sink for StoppableSink<'_> {
    fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.sink.patch(at, bytes)
    }

    fn check(&mut self, check: &mut dyn FnMut(&dyn ReadAt) -> Result<()>) -> Result<()> {
        let stop = self.stop;
        self.sink.check(&mut |source| check(&Stoppable { source, stop }))
    }
}
