//! Loops that the compiler vectorises for each instruction set, with hand-written F16C, AVX-512
//! and NEON for half precision.
//!
//! Large outputs bypass the cache: a block is converted into a buffer that fits in L1 and is
//! written with streaming stores, so that memory is not read before it is written.

use half::{bf16, f16};

use super::Convert;
use crate::Element;
use crate::device::isa::{Isa, Level, dispatch};
use crate::memory::dtype::I24;
use crate::queue::CpuQueue;

/// Elements per task. A multiple of 64 keeps every task's output as aligned as the whole.
const TASK_LEN: usize = 1 << 16;
/// Outputs of this size or more do not fit in the cache beside their inputs.
const STREAM_BYTES: usize = 32 << 20;

pub(super) fn run<S: Convert<D>, D: Element>(queue: &CpuQueue, src: &[S], dst: &mut [D]) {
    let isa = queue.cpu().isa;
    let streams = size_of_val(dst) >= STREAM_BYTES;
    queue.run_in_parts(dst, TASK_LEN, |first, dst| {
        let src = &src[first..first + dst.len()];
        if streams { stream(isa, src, dst) } else { S::slice(isa, src, dst) }
    });
}

/// Converts with four parts of a block side by side. A core waits for memory, and the hardware
/// prefetcher stops at every page; this way it runs ahead in four pages at once.
#[cfg(target_arch = "x86_64")]
fn stream<S: Convert<D>, D: Element>(isa: Isa, src: &[S], dst: &mut [D]) {
    const PARTS: usize = 4;
    const PART: usize = 2048;
    const GROUP: usize = 128;
    #[repr(align(64))]
    struct Group([u8; GROUP * 4]);

    let head = dst.as_ptr().align_offset(64).min(dst.len());
    let (src_head, src) = src.split_at(head);
    let (dst_head, dst) = dst.split_at_mut(head);
    S::slice(isa, src_head, dst_head);
    let mut group = Group([0; GROUP * 4]);
    for (src, dst) in src.chunks(PARTS * PART).zip(dst.chunks_mut(PARTS * PART)) {
        if dst.len() < PARTS * PART {
            S::slice(isa, src, dst);
            continue;
        }
        for step in (0..PART).step_by(GROUP) {
            for part in 0..PARTS {
                let first = part * PART + step;
                let to = &mut dst[first..first + GROUP];
                let bytes = size_of_val(to);
                S::slice(isa, &src[first..first + GROUP], bytemuck::cast_slice_mut(&mut group.0[..bytes]));
                // SAFETY: `dst` starts on a multiple of 64 bytes, and so does every group of 128
                // elements; `bytes` is a multiple of 64; every x86-64 machine has SSE2.
                unsafe { stream_bytes(&group.0[..bytes], to.as_mut_ptr().cast()) };
            }
        }
    }
    // SAFETY: orders the streaming stores before everything that follows.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// # Safety
/// `dst` is aligned to 16 bytes and holds `src.len()`, a multiple of 64; `src` is aligned to 16 bytes.
#[cfg(target_arch = "x86_64")]
unsafe fn stream_bytes(src: &[u8], dst: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
    for offset in (0..src.len()).step_by(64) {
        for part in [0, 16, 32, 48] {
            // SAFETY: the caller's promise.
            unsafe {
                let value = _mm_load_si128(src.as_ptr().add(offset + part).cast::<__m128i>());
                _mm_stream_si128(dst.add(offset + part).cast::<__m128i>(), value);
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn stream<S: Convert<D>, D: Element>(isa: Isa, src: &[S], dst: &mut [D]) {
    S::slice(isa, src, dst);
}

/// Defines `fn name(isa, src, dst)` from the conversion of one element.
macro_rules! loops {
    ($($name:ident: $src:ty => $dst:ty, $element:expr;)+) => { $(
        pub(super) fn $name(isa: Isa, src: &[$src], dst: &mut [$dst]) {
            #[inline(always)]
            fn each(src: &[$src], dst: &mut [$dst]) {
                for (dst, &src) in dst.iter_mut().zip(src) {
                    *dst = $element(src);
                }
            }
            dispatch!(isa, each(src: &[$src], dst: &mut [$dst]));
        }
    )+ };
}
loops! {
    f32_bf16: f32 => bf16, |x: f32| bf16::from_bits(bf16_bits(x));
    f32_i16: f32 => i16, |x| quantize::<15>(x) as i16;
    f32_i24: f32 => I24, |x| I24::from_i32(quantize::<23>(x));
    f32_u8: f32 => u8, |x| (quantize::<7>(x) + 128) as u8;
    bf16_f32: bf16 => f32, |x: bf16| f32::from_bits(bf16_value(x.to_bits()));
    i16_f32: i16 => f32, |x: i16| f32::from(x) * (1.0 / 32_768.0);
    i24_f32: I24 => f32, |x: I24| x.to_i32() as f32 * (1.0 / 8_388_608.0);
    u8_f32: u8 => f32, |x: u8| (f32::from(x) - 128.0) * (1.0 / 128.0);
}

#[inline(always)]
fn quantize<const BITS: u32>(x: f32) -> i32 {
    let full_scale = (1u32 << BITS) as f32;
    let scaled = (x * full_scale).round_ties_even().max(-full_scale).min(full_scale - 1.0);
    // SAFETY: between -2^23 and 2^23 - 1.
    if x.is_nan() { 0 } else { unsafe { scaled.to_int_unchecked::<i32>() } }
}

#[inline(always)]
fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x0040;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { nearest }) as u16
}

/// Returns the bits in f32; a signalling NaN becomes quiet, as on every other path.
#[inline(always)]
fn bf16_value(bits: u16) -> u32 {
    let wide = u32::from(bits) << 16;
    if bits & 0x7fff > 0x7f80 { wide | 0x0040_0000 } else { wide }
}

pub(super) fn f32_f16(isa: Isa, src: &[f32], dst: &mut [f16]) {
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have it; the slices are of equal length.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::f32_f16_avx512(src, dst) },
        // SAFETY: an `Isa` exists only on machines that have it; the slices are of equal length.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::f32_f16_avx2(src, dst) },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => neon::f32_f16(src, dst),
        _ => src.iter().zip(dst).for_each(|(&src, dst)| *dst = f16::from_f32_const(src)),
    }
}

pub(super) fn f16_f32(isa: Isa, src: &[f16], dst: &mut [f32]) {
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have it; the slices are of equal length.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::f16_f32_avx512(src, dst) },
        // SAFETY: an `Isa` exists only on machines that have it; the slices are of equal length.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::f16_f32_avx2(src, dst) },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => neon::f16_f32(src, dst),
        _ => src.iter().zip(dst).for_each(|(&src, dst)| *dst = src.to_f32_const()),
    }
}

/// Converts slices of equal length. The last, partial vector is copied through an array of full size.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn in_vectors<const N: usize, S: Element, D: Element>(
    src: &[S],
    dst: &mut [D],
    convert: impl Fn(&[S; N], &mut [D; N]),
) {
    let (vectors, rest) = src.as_chunks::<N>();
    let (dst_vectors, dst_rest) = dst.as_chunks_mut::<N>();
    for (src, dst) in vectors.iter().zip(dst_vectors) {
        convert(src, dst);
    }
    let (mut last, mut dst_last) = ([S::zeroed(); N], [D::zeroed(); N]);
    last[..rest.len()].copy_from_slice(rest);
    convert(&last, &mut dst_last);
    dst_rest.copy_from_slice(&dst_last[..dst_rest.len()]);
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    use half::f16;

    use super::in_vectors;

    pub(super) fn f32_f16(src: &[f32], dst: &mut [f16]) {
        in_vectors::<4, _, _>(src, dst, |src, dst| {
            // SAFETY: both arrays hold a whole vector.
            unsafe { vst1_u16(dst.as_mut_ptr().cast(), vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(src.as_ptr())))) }
        });
    }

    pub(super) fn f16_f32(src: &[f16], dst: &mut [f32]) {
        in_vectors::<4, _, _>(src, dst, |src, dst| {
            // SAFETY: both arrays hold a whole vector.
            unsafe { vst1q_f32(dst.as_mut_ptr(), vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src.as_ptr().cast())))) }
        });
    }
}

/// Half precision in hardware. Each function takes slices of equal length.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::f16;

    use super::in_vectors;

    const ROUNDING: i32 = _MM_FROUND_TO_NEAREST_INT;

    macro_rules! convert {
        ($name:ident($src:ident: $from:ty, $dst:ident: $to:ty), $features:literal, $n:literal => $body:expr) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name(src: &[$from], dst: &mut [$to]) {
                in_vectors::<$n, _, _>(src, dst, |src, dst| {
                    let ($src, $dst) = (src.as_ptr(), dst.as_mut_ptr());
                    // SAFETY: both arrays hold a whole vector.
                    unsafe { $body }
                });
            }
        };
    }
    convert!(f32_f16_avx512(src: f32, dst: f16), "avx512f", 16 =>
        _mm256_storeu_si256(dst.cast(), _mm512_cvtps_ph::<ROUNDING>(_mm512_loadu_ps(src))));
    convert!(f16_f32_avx512(src: f16, dst: f32), "avx512f", 16 =>
        _mm512_storeu_ps(dst, _mm512_cvtph_ps(_mm256_loadu_si256(src.cast()))));
    convert!(f32_f16_avx2(src: f32, dst: f16), "avx2,f16c", 8 =>
        _mm_storeu_si128(dst.cast(), _mm256_cvtps_ph::<ROUNDING>(_mm256_loadu_ps(src))));
    convert!(f16_f32_avx2(src: f16, dst: f32), "avx2,f16c", 8 =>
        _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128(src.cast()))));
}
