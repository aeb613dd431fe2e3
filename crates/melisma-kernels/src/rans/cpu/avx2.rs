//! 8 states per vector, four vectors per stream.

use std::arch::x86_64::*;

use super::super::table::Lookup;
use super::super::{L, LANES, M, SCALE_BITS};
use super::Stream;

/// For each set of lanes that refill: the word that each lane takes.
static SPREAD: [[u8; 8]; 256] = spread();

const fn spread() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut next) = (0, 0);
        while lane < 8 {
            table[mask][lane] = next;
            next += (mask >> lane & 1) as u8;
            lane += 1;
        }
        mask += 1;
    }
    table
}

/// # Safety
/// Outputs are whole steps, the same number for every stream, and safe for each.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn decode<const N: usize>(lookup: &Lookup, streams: &mut [Stream<'_>; N], out: &mut [&mut [u8]; N]) {
    // Two streams fill the 16 registers; more would spill at every step.
    let mut k = 0;
    while k + 2 <= N {
        // SAFETY: the caller's promise.
        unsafe { group::<2>(lookup, &mut streams[k..k + 2], &mut out[k..k + 2]) };
        k += 2;
    }
    if k < N {
        // SAFETY: the caller's promise.
        unsafe { group::<1>(lookup, &mut streams[k..], &mut out[k..]) };
    }
}

/// # Safety
/// The machine has AVX2; every stream has words for one step per 32 bytes of its output, and all
/// outputs have the same length.
#[target_feature(enable = "avx2,popcnt")]
unsafe fn group<const G: usize>(lookup: &Lookup, streams: &mut [Stream<'_>], out: &mut [&mut [u8]]) {
    let steps = out[0].len() / LANES;
    let table = lookup.as_ptr().cast::<i32>();
    let mut states = [[_mm256_setzero_si256(); 4]; G];
    let mut words = [std::ptr::null::<u8>(); G];
    let mut symbols = [std::ptr::null_mut::<u8>(); G];
    for k in 0..G {
        for (quarter, state) in states[k].iter_mut().enumerate() {
            // SAFETY: 32 states.
            *state = unsafe { _mm256_loadu_si256(streams[k].states[8 * quarter..].as_ptr().cast()) };
        }
        words[k] = streams[k].next().as_ptr();
        symbols[k] = out[k].as_mut_ptr();
    }
    let first = words;
    for _ in 0..steps {
        for k in 0..G {
            // SAFETY: the table has M slots; the step's words and symbols are within their slices.
            unsafe {
                let [a, b, c, d] = &mut states[k];
                let a = quarter(table, a, &mut words[k]);
                let b = quarter(table, b, &mut words[k]);
                let c = quarter(table, c, &mut words[k]);
                let d = quarter(table, d, &mut words[k]);
                let pairs = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
                let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                _mm256_storeu_si256(symbols[k].cast(), _mm256_permutevar8x32_epi32(pairs, order));
                symbols[k] = symbols[k].add(LANES);
            }
        }
    }
    for k in 0..G {
        for (quarter, &state) in states[k].iter().enumerate() {
            // SAFETY: 32 states.
            unsafe { _mm256_storeu_si256(streams[k].states[8 * quarter..].as_mut_ptr().cast(), state) };
        }
        // SAFETY: both pointers are into the same slice.
        let taken = unsafe { words[k].offset_from(first[k]) } as usize;
        streams[k].advance(taken);
    }
}

/// Decodes one symbol of 8 lanes.
///
/// # Safety
/// The machine has AVX2, the table has M entries, and 16 bytes can be read at `words`.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn quarter(table: *const i32, states: &mut __m256i, words: &mut *const u8) -> __m256i {
    let slot_mask = _mm256_set1_epi32(M as i32 - 1);
    let slots = _mm256_and_si256(*states, slot_mask);
    // SAFETY: slots are below M.
    let entries = unsafe { _mm256_i32gather_epi32::<4>(table, slots) };
    let offsets = _mm256_and_si256(_mm256_srli_epi32::<8>(entries), slot_mask);
    let quotients = _mm256_srli_epi32::<{ SCALE_BITS as i32 }>(*states);
    let x = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srli_epi32::<20>(entries), quotients), offsets);
    // States are below 2^31, so a signed comparison works.
    let refill = _mm256_cmpgt_epi32(_mm256_set1_epi32(L as i32), x);
    let mask = _mm256_movemask_ps(_mm256_castsi256_ps(refill)) as usize;
    // SAFETY: a safe step has 64 bytes of words.
    unsafe {
        let next = _mm256_cvtepu16_epi32(_mm_loadu_si128(words.cast()));
        let spread = _mm256_cvtepu8_epi32(_mm_loadl_epi64(SPREAD[mask].as_ptr().cast()));
        let refilled = _mm256_or_si256(_mm256_slli_epi32::<16>(x), _mm256_permutevar8x32_epi32(next, spread));
        *states = _mm256_blendv_epi8(x, refilled, refill);
        *words = words.add(2 * mask.count_ones() as usize);
    }
    _mm256_and_si256(entries, _mm256_set1_epi32(0xff))
}
