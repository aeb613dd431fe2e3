//! `Encoder` and `Decoder`: single tiles, with tables and buffers that are used again.

use melisma::lock::Mutex;
use melisma::pack::{Decoder, Encoder, Split, Tile, split_of};
use melisma::runtime::Isa;
use melisma::{DType, Error, Result};
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;

/// Tiles to records, on one thread.
#[pyclass(name = "TileEncoder", module = "melisma._melisma", frozen)]
pub struct PyTileEncoder {
    encoder: Mutex<Encoder>,
}

#[pymethods]
impl PyTileEncoder {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self { encoder: Mutex::new(Encoder::new(Isa::from_env().map_err(raise)?)) })
    }

    /// Encodes the tile's entry of 16 bytes and its record, as docs/format.md describes them.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        dtype: &str,
        elements: PyReadonlyArray1<'py, u8>,
        number: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let elements = elements.as_slice()?;
        let encoded = py.detach(|| -> Result<Vec<u8>> {
            let mut out = vec![0; Tile::STORED];
            let split = split(dtype)?;
            let mut encoder = self.encoder.lock();
            let tile = encoder.encode(split, number, elements, &mut out)?;
            out[..Tile::STORED].copy_from_slice(&tile.to_bytes());
            Ok(out)
        });
        Ok(PyBytes::new(py, &encoded.map_err(raise)?))
    }
}

/// Records to tiles, on one thread.
#[pyclass(name = "TileDecoder", module = "melisma._melisma", frozen)]
pub struct PyTileDecoder {
    decoder: Mutex<Decoder>,
}

#[pymethods]
impl PyTileDecoder {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self { decoder: Mutex::new(Decoder::new(Isa::from_env().map_err(raise)?)) })
    }

    /// Decodes what the encoder wrote into `out`, which is exactly as long as the tile, and checks its hash.
    fn decode(
        &self,
        py: Python<'_>,
        dtype: &str,
        blob: &[u8],
        mut out: PyReadwriteArray1<'_, u8>,
        number: u64,
    ) -> PyResult<()> {
        let out = out.as_slice_mut()?;
        py.detach(|| {
            let short =
                || Error::truncated(format!("{} bytes; an encoded tile has at least {}", blob.len(), Tile::STORED));
            let (entry, record) = blob.split_first_chunk::<{ Tile::STORED }>().ok_or_else(short)?;
            let split = split(dtype)?;
            let mut decoder = self.decoder.lock();
            decoder.decode(split, number, &Tile::from_bytes(entry), record, out)
        })
        .map_err(raise)
    }
}

/// Returns how elements of a safetensors type are divided into planes.
fn split(dtype: &str) -> Result<Split> {
    let known = DType::from_safetensors(dtype).map(split_of);
    known.ok_or_else(|| Error::unsupported(format!("tiles cannot hold {dtype}")).with_hint("encode its bytes as uint8"))
}
