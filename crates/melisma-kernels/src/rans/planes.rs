//! Elements to byte planes and back. Plane 0 holds the highest bits.

use super::record::MAX_PLANES;
use crate::Isa;
use crate::device::isa::dispatch;

/// How an element, little-endian in memory, is split into bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// Single bytes, unchanged.
    Bytes1,
    /// The bytes of 16-bit elements, higher byte first: integers and IEEE half-precision floats.
    Bytes2,
    /// The bytes of 32-bit integers, highest first.
    Bytes4,
    /// The bytes of 64-bit elements, highest first.
    Bytes8,
    /// bf16: the exponent, then sign and mantissa.
    BrainFloat16,
    /// f32: the exponent, then sign and upper mantissa, then the lower mantissa's bytes.
    Float32,
}

impl Split {
    /// Every split; its number in a file is its index here.
    pub const ALL: [Self; 6] =
        [Self::Bytes1, Self::Bytes2, Self::Bytes4, Self::Bytes8, Self::BrainFloat16, Self::Float32];

    /// Returns the bytes of an element, which is the number of planes.
    pub fn width(self) -> usize {
        match self {
            Self::Bytes1 => 1,
            Self::Bytes2 | Self::BrainFloat16 => 2,
            Self::Bytes4 | Self::Float32 => 4,
            Self::Bytes8 => 8,
        }
    }

    /// Returns its number in a file.
    pub fn number(self) -> u8 {
        Self::ALL.iter().position(|split| *split == self).unwrap_or(0) as u8
    }
}

/// Splits `elements` into planes of equal length, one after another in `planes`.
pub(super) fn split(isa: Isa, split: Split, elements: &[u8], planes: &mut [u8]) {
    match split {
        Split::Bytes1 => planes.copy_from_slice(elements),
        Split::Bytes2 => dispatch!(isa, split_bytes2(elements: &[u8], planes: &mut [u8])),
        Split::Bytes4 => dispatch!(isa, split_bytes4(elements: &[u8], planes: &mut [u8])),
        Split::Bytes8 => dispatch!(isa, split_bytes8(elements: &[u8], planes: &mut [u8])),
        Split::BrainFloat16 => dispatch!(isa, split_brain(elements: &[u8], planes: &mut [u8])),
        Split::Float32 => dispatch!(isa, split_float(elements: &[u8], planes: &mut [u8])),
    }
}

/// Joins the first `width` planes of `planes` into `elements`.
pub(super) fn join(isa: Isa, split: Split, planes: &[&[u8]; MAX_PLANES], elements: &mut [u8]) {
    match split {
        Split::Bytes1 => elements.copy_from_slice(planes[0]),
        Split::Bytes2 => dispatch!(isa, join_bytes2(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8])),
        Split::Bytes4 => dispatch!(isa, join_bytes4(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8])),
        Split::Bytes8 => dispatch!(isa, join_bytes8(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8])),
        Split::BrainFloat16 => dispatch!(isa, join_brain(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8])),
        Split::Float32 => dispatch!(isa, join_float(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8])),
    }
}

/// Returns the exponent, then sign and mantissa.
#[inline(always)]
fn parts(bits: u16) -> [u8; 2] {
    [(bits >> 7) as u8, (bits >> 8 & 0x80 | bits & 0x7f) as u8]
}

#[inline(always)]
fn bits(exponent: u8, rest: u8) -> u16 {
    let (exponent, rest) = (u16::from(exponent), u16::from(rest));
    (rest & 0x80) << 8 | exponent << 7 | rest & 0x7f
}

#[inline(always)]
fn split_brain(elements: &[u8], planes: &mut [u8]) {
    let elements = elements.as_chunks::<2>().0;
    let (exponents, rests) = planes.split_at_mut(elements.len());
    for ((element, exponent), rest) in elements.iter().zip(exponents).zip(rests) {
        [*exponent, *rest] = parts(u16::from_le_bytes(*element));
    }
}

#[inline(always)]
fn join_brain(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8]) {
    let elements = elements.as_chunks_mut::<2>().0;
    for ((element, &exponent), &rest) in elements.iter_mut().zip(planes[0]).zip(planes[1]) {
        *element = bits(exponent, rest).to_le_bytes();
    }
}

#[inline(always)]
fn split_float(elements: &[u8], planes: &mut [u8]) {
    let elements = elements.as_chunks::<4>().0;
    let (exponents, planes) = planes.split_at_mut(elements.len());
    let (rests, planes) = planes.split_at_mut(elements.len());
    let (middles, lows) = planes.split_at_mut(elements.len());
    let planes = exponents.iter_mut().zip(rests).zip(middles.iter_mut().zip(lows));
    for (element, ((exponent, rest), (middle, low))) in elements.iter().zip(planes) {
        let bits = u32::from_le_bytes(*element);
        [*exponent, *rest] = parts((bits >> 16) as u16);
        (*middle, *low) = ((bits >> 8) as u8, bits as u8);
    }
}

#[inline(always)]
fn join_float(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8]) {
    let elements = elements.as_chunks_mut::<4>().0;
    let planes = planes[0].iter().zip(planes[1]).zip(planes[2].iter().zip(planes[3]));
    for (element, ((&exponent, &rest), (&middle, &low))) in elements.iter_mut().zip(planes) {
        let high = u32::from(bits(exponent, rest)) << 16;
        *element = (high | u32::from(middle) << 8 | u32::from(low)).to_le_bytes();
    }
}

macro_rules! bytes {
    ($($width:literal: $split:ident, $join:ident;)+) => { $(
        #[inline(always)]
        fn $split(elements: &[u8], planes: &mut [u8]) {
            let elements = elements.as_chunks::<$width>().0;
            for (index, plane) in planes.chunks_exact_mut(elements.len().max(1)).enumerate() {
                for (byte, element) in plane.iter_mut().zip(elements) {
                    *byte = element[$width - 1 - index % $width];
                }
            }
        }

        #[inline(always)]
        fn $join(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8]) {
            let elements = elements.as_chunks_mut::<$width>().0;
            for (index, plane) in planes[..$width].iter().enumerate() {
                for (element, &byte) in elements.iter_mut().zip(*plane) {
                    element[$width - 1 - index] = byte;
                }
            }
        }
    )+ };
}
bytes! {
    4: split_bytes4, join_bytes4;
    8: split_bytes8, join_bytes8;
}

#[inline(always)]
fn split_bytes2(elements: &[u8], planes: &mut [u8]) {
    let elements = elements.as_chunks::<2>().0;
    let (highs, lows) = planes.split_at_mut(elements.len());
    for ((element, high), low) in elements.iter().zip(highs).zip(lows) {
        [*low, *high] = *element;
    }
}

#[inline(always)]
fn join_bytes2(planes: &[&[u8]; MAX_PLANES], elements: &mut [u8]) {
    let elements = elements.as_chunks_mut::<2>().0;
    for ((element, &high), &low) in elements.iter_mut().zip(planes[0]).zip(planes[1]) {
        *element = (u16::from(high) << 8 | u16::from(low)).to_le_bytes();
    }
}
