//! Operations of NEON that are several instructions.

pub(super) use std::arch::aarch64::*;

use crate::device::vector::neon::registers;
pub(super) use crate::device::vector::neon::{Pair, larger, smaller};

registers! {
    /// Returns `a * b - c`, rounded once.
    fused_minus(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(vnegq_f32(c), a, b);
    shift_left_4<const BITS: u32>(a: int32x4_t) -> int32x4_t = vshlq_s32(a, vdupq_n_s32(BITS as i32));
    shift_right_4<const BITS: u32>(a: int32x4_t) -> int32x4_t =
        vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-(BITS as i32))));
    look_up_4(table: &[f32; 16], index: int32x4_t) -> float32x4_t = {
        let table = vld1q_u8_x4(table.as_ptr().cast());
        // The four bytes of an entry begin at four times its index.
        let bytes = vmlaq_s32(vdupq_n_s32(0x0302_0100), index, vdupq_n_s32(0x0404_0404));
        vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_s32(bytes)))
    };
    /// Returns `(high, low) + (a, b)`.
    add_wide_4([high, low]: [int32x4_t; 2], [a, b]: [int32x4_t; 2]) -> [int32x4_t; 2] = {
        let sum = vaddq_s32(low, b);
        // A carry is -1.
        let carry = vreinterpretq_s32_u32(vcltq_u32(vreinterpretq_u32_s32(sum), vreinterpretq_u32_s32(b)));
        [vsubq_s32(vaddq_s32(high, a), carry), sum]
    };
}
