//! Compresses a single array in memory and restores it.

use std::borrow::Cow;

use melisma_kernels::{DType, Element};

use super::archive::Archive;
use super::storage::{ReadAt, Sink};
use super::writer::{Options, pack};
use crate::format::read_at::ends_at;
use crate::format::safetensors::HeaderJson;
use crate::runtime::memory::Budget;
use crate::{Error, ErrorKind, Result};

/// The tensor's name in the packed bytes.
const NAME: &str = "array";

/// The elements of a tensor, row-major, borrowed or owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array<'a> {
    dtype: Cow<'a, str>,
    shape: Vec<u64>,
    bytes: Cow<'a, [u8]>,
}

impl<'a> Array<'a> {
    /// Creates an array of `elements`.
    ///
    /// # Errors
    /// `InvalidArgument`: the shape has a different number of elements. `Unsupported`: safetensors
    /// has no such element type.
    pub fn new<T: Element>(elements: &'a [T], shape: &[usize]) -> Result<Self> {
        let n = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        if n != Some(elements.len()) {
            return Err(Error::invalid(format!("{} elements do not have the shape {shape:?}", elements.len())));
        }
        let bytes = Cow::Borrowed(bytemuck::cast_slice(elements));
        let shape = shape.iter().map(|&extent| extent as u64).collect();
        Ok(Self { dtype: Cow::Borrowed(name(T::DTYPE)?), shape, bytes })
    }

    /// Creates an array from bytes, for element types that Rust lacks. `dtype` is the safetensors
    /// name, for example `F8_E4M3`.
    pub fn from_bytes(dtype: &'a str, shape: &[u64], bytes: &'a [u8]) -> Self {
        Self { dtype: Cow::Borrowed(dtype), shape: shape.to_vec(), bytes: Cow::Borrowed(bytes) }
    }

    /// Returns the element type, by its safetensors name.
    pub fn dtype(&self) -> &str {
        &self.dtype
    }

    /// Returns the extent of each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the elements' bytes, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the elements.
    ///
    /// # Errors
    /// `InvalidArgument`: the elements have another type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if name(T::DTYPE)? != self.dtype {
            return Err(Error::invalid(format!("elements of {}, not {}", self.dtype, T::DTYPE.name())));
        }
        let mut elements = vec![T::zeroed(); self.bytes.len() / size_of::<T>()];
        bytemuck::cast_slice_mut(&mut elements).copy_from_slice(&self.bytes);
        Ok(elements)
    }
}

fn name(dtype: DType) -> Result<&'static str> {
    if dtype == DType::I24 {
        return Err(Error::unsupported("arrays of 24-bit integers are not supported"));
    }
    Ok(dtype.safetensors_name())
}

/// Compresses one array losslessly on all cores, and decodes the result before returning it. The
/// result is a packed file with one tensor, which `melisma unpack` also reads.
///
/// ```
/// use half::f16;
/// use melisma::Budget;
/// use melisma::pack::{self, Array};
///
/// let layer: Vec<f16> = (0..64 * 96).map(|i| f16::from_f32((i as f32 * 0.1).sin() * 0.02)).collect();
/// let budget = Budget::limited(64 << 20);
/// let compressed = pack::compress(&Array::new(&layer, &[64, 96])?, &budget)?;
/// assert!(compressed.len() < 2 * layer.len());
/// let restored = pack::decompress(&compressed, &budget)?;
/// assert_eq!(restored.shape(), [64, 96]);
/// assert_eq!(restored.to_vec::<f16>()?, layer);
/// # Ok::<(), melisma::Error>(())
/// ```
///
/// # Errors
/// `Corrupt`: the bytes of the array do not match its type and shape. `Memory`: `budget` has no
/// room for one row of tiles.
pub fn compress(array: &Array<'_>, budget: &Budget) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    compress_into(array, &mut packed, budget)?;
    Ok(packed)
}

/// Works like [`compress`], into any output.
///
/// # Errors
/// As [`compress`], or those of `packed`.
pub fn compress_into(array: &Array<'_>, packed: &mut dyn Sink, budget: &Budget) -> Result<()> {
    let Array { dtype, shape, bytes } = array;
    let mut json = HeaderJson::new(&[]);
    json.push(NAME, dtype, &format!("{shape:?}"), bytes.len() as u64);
    let header = json.header();
    let options = Options { threads: melisma_kernels::available_threads(), ..Options::new(budget) };
    pack(&Joined { header, data: bytes }, packed, &options, &|_| {}).map(drop)
}

/// Restores the array passed to [`compress`], bit for bit, and checks every hash.
///
/// # Errors
/// `Corrupt`, `Truncated` or `Version`: the bytes did not come from [`compress`].
/// `InvalidArgument`: a packed file with more or fewer than one tensor.
pub fn decompress(compressed: &[u8], budget: &Budget) -> Result<Array<'static>> {
    let archive = Archive::open(&compressed, budget)?;
    let [entry] = &archive.source().tensors[..] else {
        return Err(Error::invalid(format!("expected one packed tensor, found {}", archive.source().tensors.len()))
            .with_hint("`Archive::open` reads these"));
    };
    archive.check_hash()?;
    let len =
        usize::try_from(entry.len()).map_err(|_| Error::new(ErrorKind::Memory, "an array beyond the address space"))?;
    let mut bytes = Vec::new();
    // The length comes from the file, so a failed allocation is an error, not an abort.
    bytes.try_reserve_exact(len).map_err(|_| Error::new(ErrorKind::Memory, format!("no memory for {len} bytes")))?;
    archive.unpack_tensor(&entry.name, &mut bytes, melisma_kernels::available_threads())?;
    Ok(Array { dtype: Cow::Owned(entry.dtype.clone()), shape: entry.shape.clone(), bytes: Cow::Owned(bytes) })
}

/// A safetensors file whose header and data are separate in memory.
struct Joined<'a> {
    header: Vec<u8>,
    data: &'a [u8],
}

impl ReadAt for Joined<'_> {
    fn size(&self) -> Result<u64> {
        Ok((self.header.len() + self.data.len()) as u64)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let at_data = at.checked_sub(self.header.len() as u64);
        match at_data {
            Some(at) => self.data.read_at(at, out),
            None => {
                let of_header = self.header.get(at as usize..).ok_or_else(|| ends_at(at))?;
                let (head, rest) = out.split_at_mut(of_header.len().min(out.len()));
                head.copy_from_slice(&of_header[..head.len()]);
                self.data.read_at(0, rest)
            }
        }
    }
}
