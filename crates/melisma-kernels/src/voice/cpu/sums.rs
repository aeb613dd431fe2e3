//! Sums of voices as integers, over lanes and over time.

use super::{CHUNK, LANES};
use crate::isa::{Isa, Level};

/// Groups whose sums fit into 32 bits: 3.9 · 2^24 · 32 < 2^31.
pub(in crate::voice) const GROUPS_PER_SUM: usize = 32;

/// Sums over groups for every sample of a chunk: of each lane, and of voices that are alone in their group.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(in crate::voice) struct Sums {
    left: [[i32; LANES]; CHUNK],
    right: [[i32; LANES]; CHUNK],
    /// Left and right, with room for a vector behind the last sample.
    alone: [[i32; CHUNK + LANES]; 2],
    has_lanes: bool,
    has_alone: bool,
}

impl Sums {
    pub(in crate::voice) fn new() -> Self {
        Self {
            left: [[0; LANES]; CHUNK],
            right: [[0; LANES]; CHUNK],
            alone: [[0; CHUNK + LANES]; 2],
            has_lanes: false,
            has_alone: false,
        }
    }

    /// Forgets everything.
    pub(in crate::voice) fn clear(&mut self) {
        (self.has_lanes, self.has_alone) = (false, false);
    }

    /// Left and right of every lane.
    #[inline(always)]
    pub(super) fn lanes(&mut self) -> [&mut [[i32; LANES]; CHUNK]; 2] {
        if !self.has_lanes {
            self.left.fill([0; LANES]);
            self.right.fill([0; LANES]);
            self.has_lanes = true;
        }
        [&mut self.left, &mut self.right]
    }

    /// Left and right of voices that are alone.
    #[inline(always)]
    pub(super) fn alone(&mut self) -> &mut [[i32; CHUNK + LANES]; 2] {
        if !self.has_alone {
            self.alone = [[0; CHUNK + LANES]; 2];
            self.has_alone = true;
        }
        &mut self.alone
    }

    /// Adds everything up and to `left` and `right`.
    pub(in crate::voice) fn add_to(&self, isa: Isa, left: &mut [i64], right: &mut [i64]) {
        if self.has_lanes {
            add_lanes(isa, &self.left, left);
            add_lanes(isa, &self.right, right);
        }
        if self.has_alone {
            for (out, sums) in [left, right].into_iter().zip(&self.alone) {
                out.iter_mut().zip(sums).for_each(|(out, &sum)| *out += i64::from(sum));
            }
        }
    }
}

fn add_lanes(isa: Isa, sums: &[[i32; LANES]], out: &mut [i64]) {
    let done = match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { x86::add_lanes(sums, out) },
        _ => 0,
    };
    for (lanes, out) in sums[done..].iter().zip(&mut out[done..]) {
        *out += lanes.iter().map(|&lane| i64::from(lane)).sum::<i64>();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::LANES;

    /// Adds up the lanes of eight samples at a time; how many samples that were.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn add_lanes(sums: &[[i32; LANES]], out: &mut [i64]) -> usize {
        let n = sums.len().min(out.len()) / 8;
        let mask = _mm256_set1_epi32(0xffff);
        for (rows, out) in sums.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
            // Halves of 16 bits, whose sums fit into 32.
            let (mut low, mut high) = ([_mm256_setzero_si256(); 8], [_mm256_setzero_si256(); 8]);
            for (index, row) in rows.iter().enumerate() {
                // SAFETY: a row holds 16 integers.
                let [a, b] = unsafe {
                    [_mm256_loadu_si256(row.as_ptr().cast()), _mm256_loadu_si256(row.as_ptr().add(8).cast())]
                };
                low[index] = _mm256_add_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
                high[index] = _mm256_add_epi32(_mm256_srai_epi32::<16>(a), _mm256_srai_epi32::<16>(b));
            }
            let (low, high) = (sum_rows(low), sum_rows(high));
            for (half, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let part =
                    |x: __m256i| if half == 0 { _mm256_castsi256_si128(x) } else { _mm256_extracti128_si256::<1>(x) };
                let sum = _mm256_add_epi64(
                    _mm256_slli_epi64::<16>(_mm256_cvtepi32_epi64(part(high))),
                    _mm256_cvtepi32_epi64(part(low)),
                );
                // SAFETY: `out` holds 4 integers.
                unsafe {
                    let place = out.as_mut_ptr().cast::<__m256i>();
                    _mm256_storeu_si256(place, _mm256_add_epi64(_mm256_loadu_si256(place), sum));
                }
            }
        }
        n * 8
    }

    /// Lane i is the sum of row i.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn sum_rows(rows: [__m256i; 8]) -> __m256i {
        let [a, b, c, d, e, f, g, h] = rows;
        let first = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        let second = _mm256_hadd_epi32(_mm256_hadd_epi32(e, f), _mm256_hadd_epi32(g, h));
        let low = _mm256_permute2x128_si256::<0x20>(first, second);
        _mm256_add_epi32(low, _mm256_permute2x128_si256::<0x31>(first, second))
    }
}
