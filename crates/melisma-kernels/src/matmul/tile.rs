//! The innermost loop: a few rows of A times one strip of B, held in registers.
//!
//! A strip is `STRIP` columns of B packed as [k][STRIP]. A tile is up to `rows` rows by one strip
//! of C. Its sums start from 0 or resume from earlier ones, and add one fused multiply-add per k,
//! in order. Blocking K therefore does not change them.

use crate::device::isa::{Isa, Level};

/// Columns per strip: two vectors of AVX-512, two times two of AVX2 and NEON.
pub(crate) const STRIP: usize = 32;

/// The most steps of K in one tile.
pub(crate) const BLOCK_K: usize = 256;

/// Row stride of a copied block of A. It is not a multiple of 4 KiB, which would map all rows to
/// one L1 set.
pub(crate) const STRIDE_A: usize = BLOCK_K + 16;

/// The most rows of a tile on any instruction set.
pub(crate) const MAX_ROWS: usize = 12;

/// The work of one tile.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    /// Steps of this block of K.
    pub(crate) k: usize,
    /// `rows` rows of A, `stride_a` apart.
    pub(crate) a: *const f32,
    pub(crate) stride_a: usize,
    /// A packed strip, `k` x [`STRIP`].
    pub(crate) b: *const f32,
    /// `rows` rows of C, `stride_c` apart, of which `columns` are written.
    pub(crate) c: *mut f32,
    pub(crate) stride_c: usize,
    /// 1 ..= `STRIP`.
    pub(crate) columns: usize,
    pub(crate) start: Start,
}

/// The initial values of a tile's sums.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    Zero,
    /// Earlier sums, `columns` of each row, `stride` apart.
    Resume {
        from: *const f32,
        stride: usize,
    },
}

/// A tile function for a fixed number of rows.
///
/// # Safety
/// The pointers of the tile hold what its fields say, and the machine has the instruction set.
pub(crate) type Run = unsafe fn(Tile);

macro_rules! rows {
    ($run:path: $($rows:literal)+) => { [$({
        use $run as run;
        run::<$rows> as Run
    }),+] };
}

/// Returns the tile functions of `isa` for 1, 2, ... rows; the last is the full tile.
pub(crate) fn runs(isa: Isa) -> &'static [Run] {
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => &const { rows!(x86::avx512: 1 2 3 4 5 6 7 8 9 10 11 12) },
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => &const { rows!(x86::avx2: 1 2 3 4 5 6) },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => &const { rows!(neon: 1 2 3 4 5 6) },
        _ => &const { rows!(portable: 1 2 3 4) },
    }
}

/// # Safety
/// As [`Run`].
unsafe fn portable<const ROWS: usize>(tile: Tile) {
    let mut sums = [[0f32; STRIP]; ROWS];
    // SAFETY: the caller's promise, for every access of this function.
    unsafe {
        if let Start::Resume { from, stride } = tile.start {
            for (row, sums) in sums.iter_mut().enumerate() {
                std::ptr::copy_nonoverlapping(from.add(row * stride), sums.as_mut_ptr(), tile.columns);
            }
        }
        for step in 0..tile.k {
            let b = &*tile.b.add(step * STRIP).cast::<[f32; STRIP]>();
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = *tile.a.add(row * tile.stride_a + step);
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum = a.mul_add(b, *sum);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            std::ptr::copy_nonoverlapping(sums.as_ptr(), tile.c.add(row * tile.stride_c), tile.columns);
        }
    }
}

/// Half a strip after the other, as for AVX2.
///
/// # Safety
/// As [`Run`].
#[cfg(target_arch = "aarch64")]
unsafe fn neon<const ROWS: usize>(tile: Tile) {
    use crate::device::vector::{Float, Neon, Vector};
    const HALF: usize = STRIP / 2;
    for first in (0..tile.columns).step_by(HALF) {
        let live = HALF.min(tile.columns - first);
        let mut sums = [[0f32; HALF]; ROWS];
        // SAFETY: the caller's promise, for every access of this function; copies stay within `columns`.
        unsafe {
            if let Start::Resume { from, stride } = tile.start {
                for (row, sums) in sums.iter_mut().enumerate() {
                    copy(from.add(row * stride + first), sums.as_mut_ptr(), live);
                }
            }
            let mut vectors = sums.map(|sums| [Neon::load(sums.as_ptr()), Neon::load(sums.as_ptr().add(Neon::N))]);
            for step in 0..tile.k {
                let b = tile.b.add(step * STRIP + first);
                let b = [Neon::load(b), Neon::load(b.add(Neon::N))];
                for (row, sums) in vectors.iter_mut().enumerate() {
                    let a = Neon::splat(*tile.a.add(row * tile.stride_a + step));
                    *sums = [a.mul_add(b[0], sums[0]), a.mul_add(b[1], sums[1])];
                }
            }
            for (row, [left, right]) in vectors.into_iter().enumerate() {
                left.store(sums[row].as_mut_ptr());
                right.store(sums[row].as_mut_ptr().add(Neon::N));
                copy(sums[row].as_ptr(), tile.c.add(row * tile.stride_c + first), live);
            }
        }
    }

    /// # Safety
    /// The pointers hold `len` floats, at most half a strip.
    #[inline(always)]
    unsafe fn copy(from: *const f32, to: *mut f32, len: usize) {
        // SAFETY: the caller's promise. A known length needs no call.
        unsafe { std::ptr::copy_nonoverlapping(from, to, if len == HALF { HALF } else { len }) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{STRIP, Start, Tile};

    /// Prefetch distance for a strip: 32 steps, 4 KiB.
    const AHEAD: usize = 32 * STRIP;

    /// # Safety
    /// As [`super::Run`].
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn avx512<const ROWS: usize>(tile: Tile) {
        let lanes: [__mmask16; 2] = [0, 16].map(|first| {
            let live = tile.columns.saturating_sub(first).min(16);
            ((1u32 << live) - 1) as __mmask16
        });
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        // SAFETY: the caller's promise, for every access of this function; masks stay within
        // `columns`.
        unsafe {
            if let Start::Resume { from, stride } = tile.start {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let from = from.add(row * stride);
                    let right = _mm512_maskz_loadu_ps(lanes[1], from.wrapping_add(16));
                    *sums = [_mm512_maskz_loadu_ps(lanes[0], from), right];
                }
            }
            let mut b = tile.b;
            let mut a = tile.a;
            for _ in 0..tile.k {
                let strip = [_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(16))];
                // Large panels come from far memory; the hardware prefetcher stops at the end of a
                // page.
                _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(AHEAD).cast());
                _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(AHEAD + 16).cast());
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = _mm512_set1_ps(*a.add(row * tile.stride_a));
                    sums[0] = _mm512_fmadd_ps(a, strip[0], sums[0]);
                    sums[1] = _mm512_fmadd_ps(a, strip[1], sums[1]);
                }
                b = b.add(STRIP);
                a = a.add(1);
            }
            for (row, sums) in sums.iter().enumerate() {
                let c = tile.c.add(row * tile.stride_c);
                _mm512_mask_storeu_ps(c, lanes[0], sums[0]);
                _mm512_mask_storeu_ps(c.wrapping_add(16), lanes[1], sums[1]);
            }
        }
    }

    /// # Safety
    /// As [`super::Run`].
    #[target_feature(enable = "avx2,fma")]
    pub(crate) unsafe fn avx2<const ROWS: usize>(tile: Tile) {
        // The two halves of the strip, one after the other: 12 sums, 2 vectors of B and 1 of A fill
        // the 16 registers.
        for first in (0..tile.columns).step_by(STRIP / 2) {
            // SAFETY: the caller's promise, for every access of this function; masks stay within
            // `columns`.
            unsafe {
                let (b, c) = (tile.b.add(first), tile.c.add(first));
                let start = match tile.start {
                    Start::Zero => Start::Zero,
                    Start::Resume { from, stride } => Start::Resume { from: from.add(first), stride },
                };
                avx2_half::<ROWS>(Tile { b, c, start, columns: tile.columns - first, ..tile });
            }
        }
    }

    /// # Safety
    /// As [`super::Run`], for the first 16 columns of the tile.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2_half<const ROWS: usize>(tile: Tile) {
        let lanes: [__m256i; 2] = [0, 8].map(|first| {
            let live = tile.columns.saturating_sub(first).min(8) as i32;
            _mm256_cmpgt_epi32(_mm256_set1_epi32(live), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
        });
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        // SAFETY: the caller's promise, for every access of this function; masks stay within
        // `columns`.
        unsafe {
            if let Start::Resume { from, stride } = tile.start {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let from = from.add(row * stride);
                    *sums = [_mm256_maskload_ps(from, lanes[0]), _mm256_maskload_ps(from.wrapping_add(8), lanes[1])];
                }
            }
            let mut b = tile.b;
            let mut a = tile.a;
            for _ in 0..tile.k {
                let strip = [_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8))];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = _mm256_set1_ps(*a.add(row * tile.stride_a));
                    sums[0] = _mm256_fmadd_ps(a, strip[0], sums[0]);
                    sums[1] = _mm256_fmadd_ps(a, strip[1], sums[1]);
                }
                b = b.wrapping_add(STRIP);
                a = a.wrapping_add(1);
            }
            for (row, sums) in sums.iter().enumerate() {
                let c = tile.c.add(row * tile.stride_c);
                _mm256_maskstore_ps(c, lanes[0], sums[0]);
                _mm256_maskstore_ps(c.wrapping_add(8), lanes[1], sums[1]);
            }
        }
    }
}
