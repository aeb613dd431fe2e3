//! Conversion between bytes and pairs of palette entries.

use crate::device::isa::{Isa, Level};

/// Symbols between two checks for escapes.
pub(in super::super) const BLOCK: usize = 64;

/// Writes the palette's byte for each nibble, low one first; escapes (nibble 15) take the next byte
/// of `escapes`. `out` holds two bytes per symbol, or one less. Returns false if the escapes run
/// out.
pub(in super::super) fn expand(
    isa: Isa,
    palette: &[u8; 16],
    symbols: &[u8],
    escapes: &mut &[u8],
    out: &mut [u8],
) -> bool {
    let whole = out.len() / (2 * BLOCK);
    let (blocks, rest) = symbols.split_at(whole * BLOCK);
    let (out_blocks, out_rest) = out.split_at_mut(whole * 2 * BLOCK);
    for (symbols, out) in blocks.as_chunks::<BLOCK>().0.iter().zip(out_blocks.as_chunks_mut().0) {
        let has_escapes = match isa.level() {
            // SAFETY: an `Isa` exists only on machines that have its features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::expand_avx512(palette, symbols, out) },
            // SAFETY: an `Isa` exists only on machines that have its features.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::expand_avx2(palette, symbols, out) },
            #[cfg(target_arch = "aarch64")]
            Level::Neon => neon::expand(palette, symbols, out),
            _ => expand_block(palette, symbols, out),
        };
        if has_escapes && !fill_escapes(symbols, escapes, out) {
            return false;
        }
    }
    let mut last = [0; 2 * BLOCK];
    for (pair, &symbol) in last.as_chunks_mut::<2>().0.iter_mut().zip(rest) {
        *pair = [palette[usize::from(symbol & 15)], palette[usize::from(symbol >> 4)]];
    }
    let used = out_rest.len();
    out_rest.copy_from_slice(&last[..used]);
    fill_escapes(rest, escapes, out_rest)
}

fn fill_escapes(symbols: &[u8], escapes: &mut &[u8], out: &mut [u8]) -> bool {
    let nibbles = symbols.iter().flat_map(|symbol| [symbol & 15, symbol >> 4]);
    for (out, _) in out.iter_mut().zip(nibbles).filter(|(_, nibble)| *nibble == 15) {
        match escapes.split_first() {
            Some((&byte, rest)) => (*out, *escapes) = (byte, rest),
            None => return false,
        }
    }
    true
}

fn expand_block(palette: &[u8; 16], symbols: &[u8; BLOCK], out: &mut [u8; 2 * BLOCK]) -> bool {
    let mut has_escapes = false;
    for (pair, &symbol) in out.as_chunks_mut::<2>().0.iter_mut().zip(symbols) {
        *pair = [palette[usize::from(symbol & 15)], palette[usize::from(symbol >> 4)]];
        has_escapes |= symbol >= 0xf0 || symbol & 15 == 15;
    }
    has_escapes
}

/// The nibble of each byte, and for AVX-512 the rows of 16 bytes that hold anything besides escapes.
#[derive(Debug, Clone)]
pub(in super::super) struct Inverse {
    nibbles: [u8; 256],
    #[cfg(target_arch = "x86_64")]
    rows: u16,
}

impl Inverse {
    /// Builds the inverse from the nibbles; 15 is an escape.
    pub(in super::super) fn new(nibbles: [u8; 256]) -> Self {
        Self {
            nibbles,
            #[cfg(target_arch = "x86_64")]
            rows: {
                let used = nibbles.as_chunks::<16>().0.iter().map(|row| row.iter().any(|&nibble| nibble != 15));
                used.rev().fold(0, |rows, is_used| rows << 1 | u16::from(is_used))
            },
        }
    }

    pub(in super::super) fn nibble(&self, byte: u8) -> u8 {
        self.nibbles[usize::from(byte)]
    }
}

/// Narrows a block to pairs. Returns true if some are escapes.
pub(in super::super) fn narrow(
    isa: Isa,
    inverse: &Inverse,
    bytes: &[u8; 2 * BLOCK],
    symbols: &mut [u8; BLOCK],
) -> bool {
    match isa.level() {
        // SAFETY: an `Isa` exists only on machines that have its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::narrow_avx512(inverse, bytes, symbols) },
        #[cfg(target_arch = "aarch64")]
        Level::Neon => neon::narrow(inverse, bytes, symbols),
        _ => {
            let mut has_escapes = false;
            for (symbol, &[low, high]) in symbols.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *symbol = inverse.nibble(low) | inverse.nibble(high) << 4;
                has_escapes |= *symbol >= 0xf0 || *symbol & 15 == 15;
            }
            has_escapes
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    use super::{BLOCK, Inverse};

    pub(super) fn expand(palette: &[u8; 16], symbols: &[u8; BLOCK], out: &mut [u8; 2 * BLOCK]) -> bool {
        // SAFETY: every 64-bit Arm machine has NEON; 16 symbols become 32 bytes.
        unsafe {
            let table = vld1q_u8(palette.as_ptr());
            let mut most = vdupq_n_u8(0);
            for (symbols, out) in symbols.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<32>().0) {
                let symbols = vld1q_u8(symbols.as_ptr());
                let (low, high) = (vandq_u8(symbols, vdupq_n_u8(15)), vshrq_n_u8::<4>(symbols));
                most = vmaxq_u8(most, vmaxq_u8(low, high));
                vst2q_u8(out.as_mut_ptr(), uint8x16x2_t(vqtbl1q_u8(table, low), vqtbl1q_u8(table, high)));
            }
            vmaxvq_u8(most) == 15
        }
    }

    pub(super) fn narrow(inverse: &Inverse, bytes: &[u8; 2 * BLOCK], symbols: &mut [u8; BLOCK]) -> bool {
        // SAFETY: every 64-bit Arm machine has NEON; 32 bytes become 16 symbols, and the table has 4 times 64 bytes.
        unsafe {
            let tables = [0, 64, 128, 192].map(|first| vld1q_u8_x4(inverse.nibbles[first..].as_ptr()));
            let mut most = vdupq_n_u8(0);
            for (bytes, symbols) in bytes.as_chunks::<32>().0.iter().zip(symbols.as_chunks_mut::<16>().0) {
                let uint8x16x2_t(low, high) = vld2q_u8(bytes.as_ptr());
                let [low, high] = [low, high].map(|mut index| {
                    let mut nibbles = index;
                    for table in tables {
                        // A byte beyond the table's 64 leaves the nibble.
                        nibbles = vqtbx4q_u8(nibbles, table, index);
                        index = vsubq_u8(index, vdupq_n_u8(64));
                    }
                    nibbles
                });
                most = vmaxq_u8(most, vmaxq_u8(low, high));
                vst1q_u8(symbols.as_mut_ptr(), vsliq_n_u8::<4>(low, high));
            }
            vmaxvq_u8(most) == 15
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{BLOCK, Inverse};

    /// Looks up 16 bytes of the table at a time, only in rows that hold anything besides escapes.
    ///
    /// # Safety
    /// The machine has the instruction set in the name.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
    pub(super) unsafe fn narrow_avx512(inverse: &Inverse, bytes: &[u8; 2 * BLOCK], symbols: &mut [u8; BLOCK]) -> bool {
        let nibble = _mm512_set1_epi8(15);
        // SAFETY: 128 bytes, 64 symbols, and a table of 256.
        unsafe {
            let halves: [__m512i; 2] =
                std::array::from_fn(|half| _mm512_loadu_si512(bytes.as_ptr().add(64 * half).cast()));
            let mut nibbles = [nibble; 2];
            let mut rows = inverse.rows;
            while rows != 0 {
                let row = rows.trailing_zeros() as usize;
                rows &= rows - 1;
                let table = _mm512_broadcast_i32x4(_mm_loadu_si128(inverse.nibbles.as_ptr().add(16 * row).cast()));
                let upper = _mm512_set1_epi8((row << 4) as i8);
                for (bytes, nibbles) in halves.iter().zip(&mut nibbles) {
                    // Bytes of this row become 0 to 15; the others have a higher bit set and stay
                    // unchanged.
                    let index = _mm512_xor_si512(*bytes, upper);
                    let inside = _mm512_testn_epi8_mask(index, _mm512_set1_epi8(0xf0u8 as i8));
                    *nibbles = _mm512_mask_shuffle_epi8(*nibbles, inside, table, index);
                }
            }
            let mut escapes = 0;
            for (half, &nibbles) in nibbles.iter().enumerate() {
                escapes |= _mm512_cmpeq_epi8_mask(nibbles, nibble);
                let pairs = _mm512_or_si512(nibbles, _mm512_srli_epi16::<4>(nibbles));
                _mm256_storeu_si256(symbols.as_mut_ptr().add(32 * half).cast(), _mm512_cvtepi16_epi8(pairs));
            }
            escapes != 0
        }
    }

    /// # Safety
    /// The machine has the instruction set in the name.
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    pub(super) unsafe fn expand_avx512(palette: &[u8; 16], symbols: &[u8; BLOCK], out: &mut [u8; 2 * BLOCK]) -> bool {
        let nibble = _mm512_set1_epi8(15);
        // SAFETY: 16 bytes.
        let table = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(palette.as_ptr().cast()) });
        let mut escapes = 0;
        for half in 0..2 {
            // SAFETY: 32 symbols and 64 bytes.
            unsafe {
                let symbols = _mm512_cvtepu8_epi16(_mm256_loadu_si256(symbols.as_ptr().add(32 * half).cast()));
                let spread = _mm512_or_si512(symbols, _mm512_slli_epi16::<4>(symbols));
                let index = _mm512_and_si512(spread, nibble);
                escapes |= _mm512_cmpeq_epi8_mask(index, nibble);
                _mm512_storeu_si512(out.as_mut_ptr().add(64 * half).cast(), _mm512_shuffle_epi8(table, index));
            }
        }
        escapes != 0
    }

    /// # Safety
    /// The machine has the instruction set in the name.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn expand_avx2(palette: &[u8; 16], symbols: &[u8; BLOCK], out: &mut [u8; 2 * BLOCK]) -> bool {
        let nibble = _mm256_set1_epi8(15);
        // SAFETY: 16 bytes.
        let table = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(palette.as_ptr().cast()) });
        let mut escapes = _mm256_setzero_si256();
        for quarter in 0..4 {
            // SAFETY: 16 symbols and 32 bytes.
            unsafe {
                let symbols = _mm256_cvtepu8_epi16(_mm_loadu_si128(symbols.as_ptr().add(16 * quarter).cast()));
                let spread = _mm256_or_si256(symbols, _mm256_slli_epi16::<4>(symbols));
                let index = _mm256_and_si256(spread, nibble);
                escapes = _mm256_or_si256(escapes, _mm256_cmpeq_epi8(index, nibble));
                _mm256_storeu_si256(out.as_mut_ptr().add(32 * quarter).cast(), _mm256_shuffle_epi8(table, index));
            }
        }
        _mm256_testz_si256(escapes, escapes) == 0
    }
}
