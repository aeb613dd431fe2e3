//! The npy format: versions 1 to 3, C order, either byte order.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::format::{Value, byte_len};
use crate::{DType, Error, ErrorKind, Result};

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// The longest accepted header. NumPy itself writes at most 64 KiB in version 1.
const MAX_HEADER: usize = 1 << 20;
/// The bytes up to the end of the header's length field.
const LONGEST_START: usize = MAGIC.len() + 6;

/// Reads the array in a file.
///
/// # Errors
/// The file cannot be read, or [`decode`] rejects it.
pub fn read(path: impl AsRef<Path>) -> Result<Value> {
    let path = path.as_ref();
    let mut file = File::open(path).map_err(|error| Error::io(path.display(), error))?;
    from_file(&mut file, path).map_err(|error| error.at(path.display()))
}

/// Reads no more than the header declares, so that endless inputs and other files end early.
fn from_file(file: &mut File, path: &Path) -> Result<Value> {
    let failed = |error: io::Error| Error::new(ErrorKind::Io, error.to_string()).with_source(error);
    let mut bytes = Vec::new();
    file.take(LONGEST_START as u64).read_to_end(&mut bytes).map_err(failed)?;
    if let Some(more) = header_end(&bytes).and_then(|end| end.checked_sub(bytes.len())) {
        file.take(more as u64).read_to_end(&mut bytes).map_err(failed)?;
    }
    let header = Header::parse(&bytes)?;
    let expected = byte_len(header.dtype, &header.shape)?;
    let data = std::fs::metadata(path).map_err(failed)?;
    if data.is_file() {
        header.check(data.len().saturating_sub(header.end as u64), expected)?;
        let mut value = Value::zeros(header.dtype, &header.shape)?;
        let start = &bytes[header.end.min(bytes.len())..];
        let (first, rest) = value.bytes_mut().split_at_mut(start.len().min(expected));
        first.copy_from_slice(&start[..first.len()]);
        file.read_exact(rest).map_err(failed)?;
        return Ok(header.native(value));
    }
    // A pipe: reading one byte beyond the array shows whether it ends there.
    let more = header.end.saturating_add(expected).saturating_sub(bytes.len()) as u64;
    file.take(more + 1).read_to_end(&mut bytes).map_err(failed)?;
    decode(&bytes)
}

/// Returns the end of the header, from the bytes before it.
fn header_end(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (len, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return None,
    };
    Some(MAGIC.len() + start + len).filter(|_| len <= MAX_HEADER)
}

/// Parses the bytes of a file.
///
/// # Errors
/// `Corrupt`, `Truncated` or `Version` if the bytes are not an npy file, `Unsupported` for Fortran
/// order, complex numbers, strings and records.
pub fn decode(bytes: &[u8]) -> Result<Value> {
    let header = Header::parse(bytes)?;
    let data = &bytes[header.end..];
    header.check(data.len() as u64, byte_len(header.dtype, &header.shape)?)?;
    Ok(header.native(Value::from_bytes(header.dtype, &header.shape, data)?))
}

/// The header of an npy file.
struct Header {
    dtype: DType,
    order: Order,
    shape: Vec<usize>,
    /// The offset of the array.
    end: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    LittleEndian,
    BigEndian,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let cut = || Error::truncated(format!("the npy file ends in its header, after {} bytes", bytes.len()));
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| {
            Error::corrupt("not an npy file").with_hint("save the array with numpy.save(\"NAME.npy\", array)")
        })?;
        let (&[major, _minor], rest) = rest.split_first_chunk().ok_or_else(cut)?;
        let (len, rest) = match major {
            1 => rest.split_first_chunk().map(|(len, rest)| (usize::from(u16::from_le_bytes(*len)), rest)),
            2 | 3 => rest.split_first_chunk().map(|(len, rest)| (u32::from_le_bytes(*len) as usize, rest)),
            other => return Err(Error::new(ErrorKind::Version, format!("unsupported npy version {other}"))),
        }
        .ok_or_else(cut)?;
        if len > MAX_HEADER {
            return Err(Error::corrupt(format!("the npy header claims {len} bytes; at most {MAX_HEADER}")));
        }
        let (header, data) = rest.split_at_checked(len).ok_or_else(cut)?;
        let header = std::str::from_utf8(header).map_err(|_| Error::corrupt("an npy header that is not UTF-8"))?;
        let (dtype, order, shape) = describe(header)?;
        Ok(Self { dtype, order, shape, end: bytes.len() - data.len() })
    }

    /// Checks that the array has as many bytes as its shape implies.
    fn check(&self, found: u64, expected: usize) -> Result<()> {
        let Self { dtype, shape, .. } = self;
        match found.cmp(&(expected as u64)) {
            Ordering::Less => {
                Err(Error::truncated(format!("an npy file with {found} bytes of {} of shape {shape:?}", dtype.name())))
            }
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(Error::corrupt(format!("the file goes on after an array of {expected} bytes"))),
        }
    }

    /// Converts the value to native byte order.
    fn native(&self, mut value: Value) -> Value {
        if self.order == Order::BigEndian {
            value.bytes_mut().chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
        }
        value
    }
}

/// Encodes one array as a file. Bfloat16, which npy lacks, is written as `<V2`.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = header(descr(value.dtype()), value.shape());
    bytes.extend_from_slice(value.bytes());
    bytes
}

/// Returns the header for an array of `descr` (`<f2`, `|S16`, ...), padded so that the elements
/// start at a multiple of 64 bytes.
#[doc(hidden)]
pub fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let axes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let axes = if axes.len() == 1 { format!("{},", axes[0]) } else { axes.join(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    let len = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', len.next_multiple_of(64) - len));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Returns the little-endian name of an element type in headers.
#[doc(hidden)]
pub fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::F16 => "<f2",
        // NumPy has no bfloat16, and reads it as two opaque bytes.
        DType::BF16 => "<V2",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I24 => "|V3",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::Bool => "|b1",
    }
}

/// Parses element type and shape from a header in Python syntax.
fn describe(header: &str) -> Result<(DType, Order, Vec<usize>)> {
    let field = |name: &str| {
        let at =
            header.find(&format!("'{name}'")).ok_or_else(|| Error::corrupt(format!("an npy header without {name}")))?;
        let value = header[at + name.len() + 2..].trim_start().strip_prefix(':').map(str::trim_start);
        value.ok_or_else(|| Error::corrupt(format!("an npy header without a value of {name}")))
    };
    let descr = field("descr")?;
    let Some(descr) = descr.strip_prefix('\'').and_then(|text| text.split('\'').next()) else {
        return Err(Error::unsupported("an npy file of records; an array has one number in each place")
            .with_hint("save each field by itself: numpy.save(\"NAME.npy\", array[\"FIELD\"])"));
    };
    let (dtype, order) = element(descr)?;
    if field("fortran_order")?.starts_with("True") {
        return Err(Error::unsupported("npy files in Fortran order are not supported")
            .with_hint("save it with numpy.save(\"NAME.npy\", numpy.ascontiguousarray(array))"));
    }
    let axes = field("shape")?.strip_prefix('(').and_then(|text| text.split_once(')'));
    let (axes, _) = axes.ok_or_else(|| Error::corrupt("an npy header without a shape"))?;
    let axes = axes.split(',').map(str::trim).filter(|axis| !axis.is_empty());
    let shape: Option<Vec<usize>> = axes.map(|axis| axis.parse().ok()).collect();
    Ok((dtype, order, shape.ok_or_else(|| Error::corrupt("an npy header whose shape is not a list of numbers"))?))
}

/// Parses element type and byte order in NumPy's notation: `<f4`, `>i8`, `|u1`.
fn element(text: &str) -> Result<(DType, Order)> {
    let name = text.trim_start_matches(['<', '>', '=', '|']);
    let order = if text.starts_with('>') { Order::BigEndian } else { Order::LittleEndian };
    if let Some(dtype) = DType::STORED.into_iter().find(|&dtype| descr(dtype)[1..] == *name) {
        return Ok((dtype, order));
    }
    let what = match name.chars().next() {
        Some('c') => "complex numbers",
        Some('f') => "floats of an unusual width",
        Some('U' | 'S' | 'a') => "text",
        Some('O') => "Python objects",
        Some('M' | 'm') => "dates or durations",
        _ => "elements of an unknown type",
    };
    Err(Error::unsupported(format!("an npy file of {what} (`{text}`); models take numbers and truth values"))
        .with_hint("save it as numbers: numpy.save(\"NAME.npy\", array.astype(numpy.float32))"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back() {
        for shape in [&[][..], &[3], &[2, 5], &[1, 0, 4]] {
            for dtype in DType::STORED {
                let mut value = Value::zeros(dtype, shape).unwrap();
                for (index, byte) in value.bytes_mut().iter_mut().enumerate() {
                    *byte = index as u8;
                }
                let bytes = encode(&value);
                assert_eq!(decode(&bytes).unwrap(), value);
                for len in 0..bytes.len() {
                    assert!(decode(&bytes[..len]).is_err());
                }
            }
        }
    }

    #[test]
    fn headers_end_on_a_multiple_of_64() {
        for shape in [&[3][..], &[80, 119], &[], &[1, 2, 3]] {
            let header = header("<f4", shape);
            assert_eq!(header.len() % 64, 0);
            assert_eq!(u16::from_le_bytes([header[8], header[9]]) as usize, header.len() - 10);
        }
        let text = |shape: &[usize]| String::from_utf8_lossy(&header("<f2", shape)[10..]).trim_end().to_owned();
        assert_eq!(text(&[3]), "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }");
        assert_eq!(text(&[3, 4]), "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }");
    }

    #[test]
    fn big_endian_arrays_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let file = |descr: &str, data: &[u8]| {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}\n");
            [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), data].concat()
        };
        let check = |descr: &str, data: Vec<u8>, expected: Value| {
            let bytes = file(descr, &data);
            assert_eq!(decode(&bytes).unwrap(), expected, "{descr}");
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path).unwrap(), expected, "{descr} from a file");
        };
        let floats = [1.5f32, -2e9];
        check(">f4", floats.iter().flat_map(|x| x.to_be_bytes()).collect(), Value::from_slice(&floats, &[2]).unwrap());
        check("=f4", floats.iter().flat_map(|x| x.to_le_bytes()).collect(), Value::from_slice(&floats, &[2]).unwrap());
        let wide = [1.5f64, -2e99];
        check(">f8", wide.iter().flat_map(|x| x.to_be_bytes()).collect(), Value::from_slice(&wide, &[2]).unwrap());
        let ints = [-3i64, 1 << 40];
        check(">i8", ints.iter().flat_map(|x| x.to_be_bytes()).collect(), Value::from_slice(&ints, &[2]).unwrap());
        let short = [-3i16, 700];
        check(">i2", short.iter().flat_map(|x| x.to_be_bytes()).collect(), Value::from_slice(&short, &[2]).unwrap());
        check(">u1", vec![3, 7], Value::from_slice(&[3u8, 7], &[2]).unwrap());
    }

    #[test]
    fn files_are_read_as_far_as_their_header_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        for shape in [&[0][..], &[3], &[200, 3]] {
            let whole = encode(&Value::zeros(DType::F32, shape).unwrap());
            std::fs::write(&path, &whole).unwrap();
            assert_eq!(read(&path).unwrap().shape(), shape);
            for len in (0..whole.len()).step_by(7) {
                std::fs::write(&path, &whole[..len]).unwrap();
                assert!(read(&path).is_err());
            }
            let endless = File::create(&path).unwrap();
            std::fs::write(&path, &whole).unwrap();
            endless.set_len(1 << 40).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("goes on after an array"));
        }
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().ends_with("not an npy file"));
    }

    #[test]
    fn what_is_not_ours_is_named() {
        let message = |text: &str| {
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.as_bytes());
            decode(&bytes).unwrap_err().to_string()
        };
        assert!(message("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }").contains("`<c8`"));
        assert!(
            message("{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }").contains("unusual width (`<f16`)")
        );
        assert!(message("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }").contains("Python objects"));
        assert!(message("{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }").contains("text (`<U5`)"));
        assert!(message("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }").contains("Fortran"));
        assert!(message("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }").contains("records"));
        assert!(message("{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }").contains("shape"));
        assert!(
            message("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }").contains("over")
        );
        assert!(decode(b"RIFF").unwrap_err().hint().unwrap().contains("numpy.save"));
    }
}
