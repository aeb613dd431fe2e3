//! 4 states per register, eight registers per stream.

use std::arch::aarch64::*;

use super::super::table::Lookup;
use super::super::{L, LANES, M, SCALE_BITS};
use super::Stream;

/// For each set of eight lanes that refill: the bytes of the word that each lane takes, beyond the
/// sixteen bytes for a lane that takes none.
static SPREAD: [[u8; 16]; 256] = spread();

const fn spread() -> [[u8; 16]; 256] {
    let mut table = [[0xff; 16]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut next) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                table[mask][2 * lane] = next;
                table[mask][2 * lane + 1] = next + 1;
                next += 2;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
}

/// For each lane its bit, and in the upper byte the bytes of its word.
static WEIGHTS: [u16; 8] = [0x201, 0x202, 0x204, 0x208, 0x210, 0x220, 0x240, 0x280];

/// Decodes `out`, which is whole steps, within the stream's safe steps. A core finds the
/// independent work of four quarters by itself, so streams follow one another.
pub(super) fn decode(lookup: &Lookup, stream: &mut Stream<'_>, out: &mut [u8]) {
    let all = stream.next();
    let mut words = all;
    let mut states = stream.states;
    // SAFETY: every 64-bit Arm machine has NEON; 32 states are eight registers, and a safe step has 64 bytes of words.
    unsafe {
        let mut registers = [vdupq_n_u32(0); LANES / 4];
        for (register, from) in registers.iter_mut().zip(states.as_chunks::<4>().0) {
            *register = vld1q_u32(from.as_ptr());
        }
        for step in out.as_chunks_mut::<LANES>().0 {
            // One bounds check for all reads of the step.
            let first = words[..2 * LANES].as_ptr();
            let mut at = first;
            let mut symbols = [vdupq_n_u8(0); 4];
            for (symbols, registers) in symbols.iter_mut().zip(registers.as_chunks_mut::<2>().0) {
                *symbols = quarter(lookup, registers, &mut at);
            }
            vst1q_u8(step.as_mut_ptr(), vuzp1q_u8(symbols[0], symbols[1]));
            vst1q_u8(step[LANES / 2..].as_mut_ptr(), vuzp1q_u8(symbols[2], symbols[3]));
            words = &words[at.offset_from_unsigned(first)..];
        }
        for (register, to) in registers.into_iter().zip(states.as_chunks_mut::<4>().0) {
            vst1q_u32(to.as_mut_ptr(), register);
        }
    }
    let taken = all.len() - words.len();
    stream.states = states;
    stream.advance(taken);
}

/// Decodes one symbol of 8 lanes, the lower byte of each 16 bits.
///
/// # Safety
/// 16 bytes can be read at `words`.
#[inline(always)]
unsafe fn quarter(lookup: &Lookup, states: &mut [uint32x4_t; 2], words: &mut *const u8) -> uint8x16_t {
    // SAFETY: every 64-bit Arm machine has NEON; the caller's promise.
    unsafe {
        let low_half =
            |pair: [uint32x4_t; 2]| vuzp1q_u16(vreinterpretq_u16_u32(pair[0]), vreinterpretq_u16_u32(pair[1]));
        let slot_mask = vdupq_n_u32(M as u32 - 1);
        let entries = states.map(|states| gather(lookup, states));
        let mut x = *states;
        for (x, entries) in x.iter_mut().zip(entries) {
            let offsets = vandq_u32(vshrq_n_u32::<8>(entries), slot_mask);
            *x = vmlaq_u32(offsets, vshrq_n_u32::<20>(entries), vshrq_n_u32::<{ SCALE_BITS as i32 }>(*x));
        }
        let refill = x.map(|x| vcltq_u32(x, vdupq_n_u32(L)));
        let sum = vaddvq_u16(vandq_u16(low_half(refill), vld1q_u16(WEIGHTS.as_ptr())));
        let spread = vld1q_u8(SPREAD[usize::from(sum as u8)].as_ptr());
        let taken = vreinterpretq_u16_u8(vqtbl1q_u8(vld1q_u8(*words), spread));
        *words = words.add(usize::from(sum >> 8));
        // Words in the lower halves, states in the upper ones.
        let refilled = [vzip1q_u16(taken, low_half(x)), vzip2q_u16(taken, low_half(x))];
        for (half, state) in states.iter_mut().enumerate() {
            *state = vbslq_u32(refill[half], vreinterpretq_u32_u16(refilled[half]), x[half]);
        }
        vreinterpretq_u8_u16(low_half(entries))
    }
}

/// Looks up the slots of four states.
#[inline(always)]
fn gather(lookup: &Lookup, states: uint32x4_t) -> uint32x4_t {
    // SAFETY: every 64-bit Arm machine has NEON.
    unsafe {
        let slots = vandq_u32(states, vdupq_n_u32(M as u32 - 1));
        let entry = |slot: u32| &raw const lookup[slot as usize % M];
        let entries = vld1q_dup_u32(entry(vgetq_lane_u32::<0>(slots)));
        let entries = vld1q_lane_u32::<1>(entry(vgetq_lane_u32::<1>(slots)), entries);
        let entries = vld1q_lane_u32::<2>(entry(vgetq_lane_u32::<2>(slots)), entries);
        vld1q_lane_u32::<3>(entry(vgetq_lane_u32::<3>(slots)), entries)
    }
}
