//! Integer sums of voices, over lanes and over time.

use std::mem::MaybeUninit;

use super::super::group::aim::Ends;
use super::alone::FilterQueue;
use super::{CHUNK, LANES, TICK};
#[cfg(target_arch = "x86_64")]
use crate::device::isa::Level;
use crate::device::isa::{Isa, dispatch};

/// Groups whose sums fit in 32 bits: 3.9 · 2^24 · 32 < 2^31.
pub(in crate::signal::voice) const GROUPS_PER_SUM: usize = 32;
/// Groups whose lanes all together fit in 32 bits: 3.9 · 2^24 · 2 · 16 < 2^31.
const GROUPS_PER_ROW: usize = 2;

type Rows = [[i32; LANES]; CHUNK];

/// Sums over groups for every sample of a chunk: per lane, and of voices that are alone in their
/// group. It lives on the stack of the rendering thread, so that many pools share one place in the
/// cache. Reading resets it to 0.
#[repr(C, align(64))]
pub(in crate::signal::voice) struct Sums {
    left: MaybeUninit<Rows>,
    right: MaybeUninit<Rows>,
    /// Initialised rows; memory behind them was never written.
    n_rows: usize,
    /// Left and right, with room for a vector after the last sample.
    alone: [[i32; CHUNK + LANES]; 2],
    /// The single voice being rendered.
    pub(super) ahead: FilterQueue,
    /// End values of the group being rendered.
    pub(super) ends: Ends,
    n_groups: usize,
    has_lanes: bool,
    has_alone: bool,
}

impl Sums {
    #[inline(always)]
    pub(in crate::signal::voice) fn new() -> Self {
        Self {
            left: MaybeUninit::uninit(),
            right: MaybeUninit::uninit(),
            n_rows: 0,
            alone: [[0; CHUNK + LANES]; 2],
            ahead: FilterQueue::new(),
            ends: Ends([[[0.0; LANES]; 4]; CHUNK / TICK]),
            n_groups: 0,
            has_lanes: false,
            has_alone: false,
        }
    }

    /// Counts a group that is about to add `len` samples; returns whether it is the last one that
    /// fits.
    pub(in crate::signal::voice) fn admit(&mut self, len: usize) -> bool {
        debug_assert!(len <= CHUNK);
        if self.n_rows < len {
            for side in [&mut self.left, &mut self.right] {
                // SAFETY: the rows are inside the array.
                unsafe { side.as_mut_ptr().cast::<[i32; LANES]>().add(self.n_rows).write_bytes(0, len - self.n_rows) };
            }
            self.n_rows = len;
        }
        self.n_groups += 1;
        self.n_groups == GROUPS_PER_SUM
    }

    /// Returns left and right of every lane, as many rows as were admitted.
    #[inline(always)]
    pub(super) fn lanes(&mut self) -> [*mut [i32; LANES]; 2] {
        self.has_lanes = true;
        [self.left.as_mut_ptr().cast(), self.right.as_mut_ptr().cast()]
    }

    /// Returns the single voice being rendered, and the left and right sums of single voices.
    #[inline(always)]
    pub(super) fn alone(&mut self) -> (&mut FilterQueue, &mut [[i32; CHUNK + LANES]; 2]) {
        self.has_alone = true;
        (&mut self.ahead, &mut self.alone)
    }

    /// Adds all sums to `left` and `right`, which are as long as the admitted samples, and resets
    /// them.
    pub(in crate::signal::voice) fn add_to(&mut self, isa: Isa, left: &mut [i64], right: &mut [i64]) {
        assert!(left.len() <= self.n_rows && right.len() <= self.n_rows, "voice: sums that were not admitted");
        if self.has_lanes {
            for (side, out) in [(&mut self.left, &mut *left), (&mut self.right, &mut *right)] {
                // SAFETY: this many rows were written.
                let rows = unsafe { std::slice::from_raw_parts_mut(side.as_mut_ptr().cast(), out.len()) };
                add_lanes(isa, rows, out, self.n_groups);
            }
        }
        if self.has_alone {
            for (out, sums) in [left, right].into_iter().zip(&mut self.alone) {
                let sums = &mut sums[..out.len()];
                dispatch!(isa, add_alone(sums: &mut [i32], out: &mut [i64]));
            }
        }
        (self.n_groups, self.has_lanes, self.has_alone) = (0, false, false);
    }
}

#[inline(always)]
fn add_alone(sums: &mut [i32], out: &mut [i64]) {
    for (sum, out) in sums.iter_mut().zip(out) {
        *out += i64::from(std::mem::take(sum));
    }
}

fn add_lanes(isa: Isa, sums: &mut [[i32; LANES]], out: &mut [i64], n_groups: usize) {
    let done = match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe {
            if n_groups <= GROUPS_PER_ROW {
                x86::add_lanes::<true>(sums, out)
            } else {
                x86::add_lanes::<false>(sums, out)
            }
        },
        // The compiler makes NEON of the loop below.
        _ => 0,
    };
    for (lanes, out) in sums[done..].iter_mut().zip(&mut out[done..]) {
        *out += if n_groups <= GROUPS_PER_ROW {
            i64::from(lanes.iter().sum::<i32>())
        } else {
            lanes.iter().map(|&lane| i64::from(lane)).sum::<i64>()
        };
        *lanes = [0; LANES];
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::LANES;

    /// Adds up the lanes of eight samples at a time; returns the number of samples done. With
    /// `SMALL`, a row fits in 32 bits.
    ///
    /// # Safety
    /// The machine has AVX2, and `out` is as long as `sums`.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn add_lanes<const SMALL: bool>(sums: &mut [[i32; LANES]], out: &mut [i64]) -> usize {
        let n = sums.len().min(out.len()) / 8;
        let mask = _mm256_set1_epi32(0xffff);
        for (rows, out) in sums.as_chunks_mut::<8>().0.iter_mut().zip(out.as_chunks_mut::<8>().0) {
            // Halves of 16 bits, whose sums fit in 32.
            let (mut low, mut high) = ([_mm256_setzero_si256(); 8], [_mm256_setzero_si256(); 8]);
            for (index, row) in rows.iter_mut().enumerate() {
                // SAFETY: a row holds 16 integers.
                let [a, b] = unsafe {
                    [_mm256_loadu_si256(row.as_ptr().cast()), _mm256_loadu_si256(row.as_ptr().add(8).cast())]
                };
                *row = [0; LANES];
                if SMALL {
                    low[index] = _mm256_add_epi32(a, b);
                    continue;
                }
                low[index] = _mm256_add_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
                high[index] = _mm256_add_epi32(_mm256_srai_epi32::<16>(a), _mm256_srai_epi32::<16>(b));
            }
            let (low, high) = (sum_rows(low), if SMALL { high[0] } else { sum_rows(high) });
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

    /// Returns the sum of row i in lane i.
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
