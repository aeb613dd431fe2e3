//! The npy format, versions 1 to 3, C order, little-endian.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{DType, Value, byte_len};
use crate::{Error, Kind, Result};

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself writes headers of at most 64 KiB in version 1.
const MAX_HEADER: usize = 1 << 20;

/// The array in a file.
///
/// # Errors
/// The file cannot be read, or is not an npy file that [`parse`] takes.
pub fn read(path: &Path) -> Result<Value> {
    let failed = |error| Error::io(path.display(), error);
    let (mut file, mut bytes) = (File::open(path).map_err(failed)?, Vec::new());
    // What is no array, or has no end, is not read further than it says of itself; one byte shows whether there is more.
    type Length = fn(&[u8]) -> Option<usize>;
    let lengths: [Length; 3] = [|_| Some(MAGIC.len() + 6), header_end, end];
    for length in lengths {
        let Some(more) = length(&bytes).and_then(|len| len.checked_sub(bytes.len())) else { break };
        file.by_ref().take(more as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    }
    parse(&bytes).map_err(|error| error.at(path.display()))
}

/// Where the header ends, by the bytes before it.
fn header_end(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (len, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return None,
    };
    Some(MAGIC.len() + start + len).filter(|_| len <= MAX_HEADER)
}

/// Where the array ends, by its header.
fn end(bytes: &[u8]) -> Option<usize> {
    let end = header_end(bytes)?;
    let start = MAGIC.len() + if bytes.get(MAGIC.len()) == Some(&1) { 4 } else { 6 };
    let (dtype, shape) = describe(std::str::from_utf8(bytes.get(start..end)?).ok()?).ok()?;
    end.checked_add(byte_len(dtype, &shape).ok()?)
}

/// The array in the bytes of a file.
///
/// # Errors
/// `Corrupt`, `Truncated` or `Version` for bytes that are no npy file, `Unsupported` for Fortran order, big-endian
/// numbers, strings and records.
pub fn parse(bytes: &[u8]) -> Result<Value> {
    let cut = || Error::new(Kind::Truncated, format!("an npy file of {} bytes", bytes.len()));
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| {
        Error::new(Kind::Corrupt, "not an npy file").with_hint("save the array with numpy.save(\"NAME.npy\", array)")
    })?;
    let (&[major, _minor], rest) = rest.split_first_chunk().ok_or_else(cut)?;
    let (len, rest) = match major {
        1 => rest.split_first_chunk().map(|(len, rest)| (usize::from(u16::from_le_bytes(*len)), rest)),
        2 | 3 => rest.split_first_chunk().map(|(len, rest)| (u32::from_le_bytes(*len) as usize, rest)),
        other => return Err(Error::new(Kind::Version, format!("npy version {other}"))),
    }
    .ok_or_else(cut)?;
    if len > MAX_HEADER {
        return Err(corrupt(format!("an npy header of {len} bytes")));
    }
    let (header, data) = rest.split_at_checked(len).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| corrupt("an npy header that is not UTF-8"))?;
    let (dtype, shape) = describe(header)?;
    let expected = byte_len(dtype, &shape)?;
    match data.len().cmp(&expected) {
        std::cmp::Ordering::Less => Err(Error::new(
            Kind::Truncated,
            format!("an npy file with {} bytes of {} of shape {shape:?}", data.len(), dtype.name()),
        )),
        std::cmp::Ordering::Equal => Value::from_bytes(dtype, &shape, data),
        std::cmp::Ordering::Greater => Err(corrupt(format!("the file goes on after an array of {expected} bytes"))),
    }
}

/// A file with one array. Bfloat16, which npy does not know, is written as `<V2`.
pub fn write(value: &Value) -> Vec<u8> {
    let axes: Vec<String> = value.shape().iter().map(ToString::to_string).collect();
    let axes = if axes.len() == 1 { format!("{},", axes[0]) } else { axes.join(", ") };
    let descr = value.dtype().descr().unwrap_or("<V2");
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    let len = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', len.next_multiple_of(64) - len));
    text.push('\n');
    let mut bytes = Vec::with_capacity(128 + value.bytes().len());
    bytes.extend(MAGIC);
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(value.bytes());
    bytes
}

/// Element type and shape from a header in Python's notation.
fn describe(header: &str) -> Result<(DType, Vec<usize>)> {
    let field = |name: &str| {
        let at = header.find(&format!("'{name}'")).ok_or_else(|| corrupt(format!("an npy header without {name}")))?;
        let value = header[at + name.len() + 2..].trim_start().strip_prefix(':').map(str::trim_start);
        value.ok_or_else(|| corrupt(format!("an npy header without a value of {name}")))
    };
    let descr = field("descr")?;
    let descr = descr.strip_prefix('\'').and_then(|text| text.split('\'').next());
    let Some(descr) = descr else { return Err(Error::unsupported("an npy file of records")) };
    let native = descr.replacen('=', "<", 1);
    let dtype = DType::ALL.into_iter().find(|dtype| {
        let name = dtype.descr().unwrap_or_default();
        native == name
            || (dtype.size() == 1 && native.trim_start_matches(['<', '>', '|']) == &name[1.min(name.len())..])
    });
    let dtype = dtype.ok_or_else(|| Error::unsupported(format!("an npy file of `{descr}`")))?;
    if field("fortran_order")?.starts_with("True") {
        return Err(Error::unsupported("an npy file in Fortran order")
            .with_hint("save it with numpy.save(\"NAME.npy\", numpy.ascontiguousarray(array))"));
    }
    let axes = field("shape")?.strip_prefix('(').and_then(|text| text.split_once(')'));
    let (axes, _) = axes.ok_or_else(|| corrupt("an npy header without a shape"))?;
    let axes = axes.split(',').map(str::trim).filter(|axis| !axis.is_empty());
    let shape: Option<Vec<usize>> = axes.map(|axis| axis.parse().ok()).collect();
    Ok((dtype, shape.ok_or_else(|| corrupt("an npy header whose shape is not a list of numbers"))?))
}

fn corrupt(message: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_back() {
        for shape in [&[][..], &[3], &[2, 5], &[1, 0, 4]] {
            for dtype in DType::ALL.into_iter().filter(|dtype| dtype.descr().is_some()) {
                let mut value = Value::zeros(dtype, shape).unwrap();
                for (index, byte) in value.bytes_mut().iter_mut().enumerate() {
                    *byte = index as u8;
                }
                let bytes = write(&value);
                assert_eq!(parse(&bytes).unwrap(), value);
                for len in 0..bytes.len() {
                    assert!(parse(&bytes[..len]).is_err());
                }
            }
        }
    }

    #[test]
    fn files_are_read_as_far_as_their_header_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        for shape in [&[0][..], &[3], &[200, 3]] {
            let whole = write(&Value::zeros(DType::F32, shape).unwrap());
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
            parse(&bytes).unwrap_err().to_string()
        };
        assert!(message("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }").contains("`<c8`"));
        assert!(message("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }").contains("`>f4`"));
        assert!(message("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }").contains("Fortran"));
        assert!(message("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }").contains("records"));
        assert!(message("{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }").contains("shape"));
        assert!(
            message("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }").contains("over")
        );
        assert!(parse(b"RIFF").unwrap_err().hint().unwrap().contains("numpy.save"));
    }
}
