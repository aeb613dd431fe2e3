//! The npy format, version 1.0: a header in Python's notation, then the values.

use super::{Spectrogram, Values};

/// The header of an array of `descr` (`<f2`, `<f4`, ...), padded so that the values start on a multiple of 64 bytes.
pub fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let axes: String = shape.iter().map(|axis| format!("{axis}, ")).collect();
    let axes = if shape.len() == 1 { axes.trim_end() } else { axes.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    let len = 10 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', len.next_multiple_of(64) - len));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// The header of a file with one spectrogram, whose [`Values::bytes`] follow.
pub fn header_of(mel: &Spectrogram) -> Vec<u8> {
    let descr = match mel.values {
        Values::F16(_) => "<f2",
        Values::F32(_) => "<f4",
    };
    header(descr, &mel.shape)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
