//! One element at a time, as the contract states it.

use half::{bf16, f16};

use crate::memory::dtype::I24;

pub(crate) fn f32_f16(x: f32) -> f16 {
    f16::from_f32_const(x)
}

pub(crate) fn f32_bf16(x: f32) -> bf16 {
    bf16::from_f32_const(x)
}

pub(crate) fn f32_i16(x: f32) -> i16 {
    quantize(x, 15) as i16
}

pub(crate) fn f32_i24(x: f32) -> I24 {
    I24::from_i32(quantize(x, 23))
}

pub(crate) fn f32_u8(x: f32) -> u8 {
    (quantize(x, 7) + 128) as u8
}

pub(crate) fn f16_f32(x: f16) -> f32 {
    x.to_f32_const()
}

pub(crate) fn bf16_f32(x: bf16) -> f32 {
    x.to_f32_const()
}

pub(crate) fn i16_f32(x: i16) -> f32 {
    (f64::from(x) / 32_768.0) as f32
}

pub(crate) fn i24_f32(x: I24) -> f32 {
    (f64::from(x.to_i32()) / 8_388_608.0) as f32
}

pub(crate) fn u8_f32(x: u8) -> f32 {
    ((f64::from(x) - 128.0) / 128.0) as f32
}

/// Returns the integer nearest to `x · 2^bits`, within -2^bits ..= 2^bits - 1.
fn quantize(x: f32, bits: i32) -> i32 {
    if x.is_nan() {
        return 0;
    }
    let full_scale = 2f64.powi(bits);
    (f64::from(x) * full_scale).round_ties_even().clamp(-full_scale, full_scale - 1.0) as i32
}
