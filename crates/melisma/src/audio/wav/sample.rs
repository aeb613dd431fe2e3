//! Converts the bytes of a file to numbers, scaled by a power of two.

use super::SampleFormat;
use super::header::Coding;

/// Converts as many samples as `to` holds.
pub(crate) fn to_f32(coding: Coding, data: &[u8], to: &mut [f32]) {
    use SampleFormat::{F32, F64, S16, S24, S32, U8};
    match coding {
        Coding::Little(U8) | Coding::Big(U8) => each(data, to, |[b]: [u8; 1]| (f32::from(b) - 128.0) / 128.0),
        Coding::Little(S16) => each(data, to, |b| from_i16(i16::from_le_bytes(b))),
        Coding::Big(S16) => each(data, to, |b| from_i16(i16::from_be_bytes(b))),
        Coding::Little(S24) => each(data, to, |[a, b, c]: [u8; 3]| from_i24([0, a, b, c])),
        Coding::Big(S24) => each(data, to, |[a, b, c]: [u8; 3]| from_i24([0, c, b, a])),
        Coding::Little(S32) => each(data, to, |b| from_i32(i32::from_le_bytes(b))),
        Coding::Big(S32) => each(data, to, |b| from_i32(i32::from_be_bytes(b))),
        Coding::Little(F32) => each(data, to, f32::from_le_bytes),
        Coding::Big(F32) => each(data, to, f32::from_be_bytes),
        Coding::Little(F64) => each(data, to, |b| f64::from_le_bytes(b) as f32),
        Coding::Big(F64) => each(data, to, |b| f64::from_be_bytes(b) as f32),
        Coding::ALaw => each(data, to, |[b]: [u8; 1]| from_i16(a_law(b))),
        Coding::MuLaw => each(data, to, |[b]: [u8; 1]| from_i16(mu_law(b))),
    }
}

/// Reads samples as 16-bit integers; false for encodings that do not decode to them.
pub(crate) fn to_i16(coding: Coding, data: &[u8], to: &mut [i16]) -> bool {
    match coding {
        Coding::Little(SampleFormat::S16) => each(data, to, i16::from_le_bytes),
        Coding::Big(SampleFormat::S16) => each(data, to, i16::from_be_bytes),
        Coding::ALaw => each(data, to, |[b]: [u8; 1]| a_law(b)),
        Coding::MuLaw => each(data, to, |[b]: [u8; 1]| mu_law(b)),
        _ => return false,
    }
    true
}

fn each<const N: usize, T>(data: &[u8], to: &mut [T], sample: impl Fn([u8; N]) -> T) {
    for (to, &bytes) in to.iter_mut().zip(data.as_chunks::<N>().0) {
        *to = sample(bytes);
    }
}

fn from_i16(value: i16) -> f32 {
    f32::from(value) / 32_768.0
}

/// Returns a 24-bit sample. It is in the upper three bytes, so its sign is that of the integer.
fn from_i24(bytes: [u8; 4]) -> f32 {
    (i32::from_le_bytes(bytes) >> 8) as f32 / 8_388_608.0
}

fn from_i32(value: i32) -> f32 {
    (f64::from(value) / 2_147_483_648.0) as f32
}

/// Decodes ITU-T G.711, A-law: sign, three bits of exponent, four of mantissa, every other bit inverted.
fn a_law(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (exponent, mantissa) = (i16::from(byte >> 4 & 7), i16::from(byte & 15));
    let size = match exponent {
        0 => (mantissa << 4) + 8,
        _ => ((mantissa << 4) + 0x108) << (exponent - 1),
    };
    if byte & 0x80 == 0 { -size } else { size }
}

/// Decodes ITU-T G.711, mu-law: all bits inverted.
fn mu_law(byte: u8) -> i16 {
    let byte = !byte;
    let (exponent, mantissa) = (i16::from(byte >> 4 & 7), i16::from(byte & 15));
    let size = (((mantissa << 3) + 0x84) << exponent) - 0x84;
    if byte & 0x80 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_laws_have_the_values_of_the_standard() {
        assert_eq!([0x55, 0xd5, 0x2a, 0xaa, 0x7f].map(a_law), [-8, 8, -32_256, 32_256, -848]);
        assert_eq!([0xff, 0x7f, 0x80, 0x00, 0xef].map(mu_law), [0, 0, 32_124, -32_124, 132]);
    }
}
