//! 16 states per vector, two vectors per stream.

use std::arch::x86_64::*;

use super::super::table::{Coding, Lookup};
use super::super::{L, LANES, M, SCALE_BITS};
use super::Stream;

/// # Safety
/// Outputs are whole steps, the same number for every stream, and safe for each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,popcnt")]
pub(super) unsafe fn decode<const N: usize>(lookup: &Lookup, streams: &mut [Stream<'_>; N], out: &mut [&mut [u8]; N]) {
    let steps = out[0].len() / LANES;
    let table = lookup.as_ptr().cast::<i32>();
    let mut low = [_mm512_setzero_si512(); N];
    let mut high = [_mm512_setzero_si512(); N];
    let mut words = [std::ptr::null::<u8>(); N];
    let mut symbols = [std::ptr::null_mut::<u8>(); N];
    let mut first = words;
    for k in 0..N {
        // SAFETY: 32 states.
        unsafe {
            low[k] = _mm512_loadu_si512(streams[k].states.as_ptr().cast());
            high[k] = _mm512_loadu_si512(streams[k].states[16..].as_ptr().cast());
        }
        words[k] = streams[k].next().as_ptr();
        first[k] = words[k];
        symbols[k] = out[k].as_mut_ptr();
    }
    for _ in 0..steps {
        for k in 0..N {
            // SAFETY: the table has M slots; the step's words and symbols are within their slices.
            unsafe {
                half(table, &mut low[k], &mut words[k], symbols[k]);
                half(table, &mut high[k], &mut words[k], symbols[k].add(16));
                symbols[k] = symbols[k].add(LANES);
            }
        }
    }
    for k in 0..N {
        // SAFETY: 32 states; both pointers are into the same slice.
        unsafe {
            _mm512_storeu_si512(streams[k].states.as_mut_ptr().cast(), low[k]);
            _mm512_storeu_si512(streams[k].states[16..].as_mut_ptr().cast(), high[k]);
            let taken = words[k].offset_from(first[k]) as usize;
            streams[k].advance(taken);
        }
    }
}

/// Decodes one symbol of 16 lanes.
///
/// # Safety
/// The machine has AVX-512, the table has M entries, 32 bytes can be read at `words`, and `symbols` holds 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,popcnt")]
unsafe fn half(table: *const i32, states: &mut __m512i, words: &mut *const u8, symbols: *mut u8) {
    let slot_mask = _mm512_set1_epi32(M as i32 - 1);
    let slots = _mm512_and_si512(*states, slot_mask);
    // SAFETY: slots are below M.
    let entries = unsafe { _mm512_i32gather_epi32::<4>(slots, table) };
    let offsets = _mm512_and_si512(_mm512_srli_epi32::<8>(entries), slot_mask);
    let quotients = _mm512_srli_epi32::<SCALE_BITS>(*states);
    let x = _mm512_add_epi32(_mm512_mullo_epi32(_mm512_srli_epi32::<20>(entries), quotients), offsets);
    let refill = _mm512_cmplt_epu32_mask(x, _mm512_set1_epi32(L as i32));
    // SAFETY: a safe step has 64 bytes of words and 32 symbols.
    unsafe {
        let next = _mm512_cvtepu16_epi32(_mm256_loadu_si256(words.cast()));
        let spread = _mm512_mask_expand_epi32(x, refill, next);
        *states = _mm512_mask_or_epi32(x, refill, _mm512_slli_epi32::<16>(x), spread);
        *words = words.add(2 * refill.count_ones() as usize);
        _mm_storeu_si128(symbols.cast(), _mm512_cvtepi32_epi8(entries));
    }
}

/// # Safety
/// Symbols are whole steps, the same number for every stream; below `at` an output has 2 bytes per
/// symbol plus 64, minus those used.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,popcnt")]
pub(super) unsafe fn encode<const N: usize>(
    codings: &[Coding; 256],
    symbols: &[&[u8]; N],
    out: &mut [&mut [u8]; N],
    at: &mut [usize; N],
    states: &mut [[u32; LANES]; N],
) {
    let steps = symbols[0].len() / LANES;
    let table = codings.as_ptr().cast::<i32>();
    let mut low = [_mm512_setzero_si512(); N];
    let mut high = [_mm512_setzero_si512(); N];
    let mut words = [std::ptr::null_mut::<u8>(); N];
    for k in 0..N {
        // SAFETY: 32 states; `at` is within the output.
        unsafe {
            low[k] = _mm512_loadu_si512(states[k].as_ptr().cast());
            high[k] = _mm512_loadu_si512(states[k][16..].as_ptr().cast());
            words[k] = out[k].as_mut_ptr().add(at[k]);
        }
    }
    for step in (0..steps).rev() {
        for k in 0..N {
            // SAFETY: the step's symbols are within their slice; every lane emits at most one word.
            unsafe {
                let symbols = symbols[k].as_ptr().add(LANES * step);
                emit(table, &mut high[k], &mut words[k], symbols.add(16));
                emit(table, &mut low[k], &mut words[k], symbols);
            }
        }
    }
    for k in 0..N {
        // SAFETY: 32 states; both pointers are into the same slice.
        unsafe {
            _mm512_storeu_si512(states[k].as_mut_ptr().cast(), low[k]);
            _mm512_storeu_si512(states[k][16..].as_mut_ptr().cast(), high[k]);
            at[k] = words[k].offset_from(out[k].as_ptr()) as usize;
        }
    }
}

/// Encodes one symbol of 16 lanes.
///
/// # Safety
/// The machine has AVX-512, the table has two words for each of the 16 symbols, and `words` has 32 bytes before it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,popcnt")]
unsafe fn emit(table: *const i32, states: &mut __m512i, words: &mut *mut u8, symbols: *const u8) {
    let frequency_mask = _mm512_set1_epi32(M as i32 - 1);
    // SAFETY: 16 symbols, each with two words in the table.
    let (reciprocals, rest) = unsafe {
        let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(symbols.cast()));
        (_mm512_i32gather_epi32::<8>(index, table), _mm512_i32gather_epi32::<8>(index, table.add(1)))
    };
    let f = _mm512_and_si512(rest, frequency_mask);
    let full = _mm512_cmpge_epu32_mask(*states, _mm512_slli_epi32::<19>(f));
    let count = full.count_ones();
    // SAFETY: at most 16 words are stored, below `words`.
    unsafe {
        *words = words.sub(2 * count as usize);
        let emitted = _mm512_cvtepi32_epi16(_mm512_mask_compress_epi32(*states, full, *states));
        _mm256_mask_storeu_epi16(words.cast(), ((1u32 << count) - 1) as __mmask16, emitted);
    }
    let x = _mm512_mask_srli_epi32::<16>(*states, full, *states);
    let even = _mm512_srli_epi64::<32>(_mm512_mul_epu32(x, reciprocals));
    let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), _mm512_srli_epi64::<32>(reciprocals));
    let high = _mm512_mask_mov_epi32(even, 0xaaaa, odd);
    let quotients = _mm512_srlv_epi32(high, _mm512_srli_epi32::<25>(rest));
    let bias = _mm512_and_si512(_mm512_srli_epi32::<12>(rest), _mm512_set1_epi32(0x1fff));
    let complement = _mm512_sub_epi32(_mm512_set1_epi32(M as i32), f);
    *states = _mm512_add_epi32(_mm512_add_epi32(x, bias), _mm512_mullo_epi32(quotients, complement));
}
