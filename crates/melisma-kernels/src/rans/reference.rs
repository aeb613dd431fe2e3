//! The obvious loops: one rANS state after another with divisions, a table search per symbol, a
//! hash word by word.

use super::{L, LANES, M};

/// Encodes `symbols` to states and words.
pub(super) fn encode(frequencies: &[u16; 256], symbols: &[u8]) -> ([u32; LANES], Vec<u16>) {
    let mut states = [L; LANES];
    let mut words = Vec::new();
    for (index, &symbol) in symbols.iter().enumerate().rev() {
        let f = u32::from(frequencies[usize::from(symbol)]);
        let c: u32 = frequencies[..usize::from(symbol)].iter().map(|&f| u32::from(f)).sum();
        let x = &mut states[index % LANES];
        if *x >= f << 19 {
            words.push(*x as u16);
            *x >>= 16;
        }
        *x = *x / f * M as u32 + c + *x % f;
    }
    words.reverse();
    (states, words)
}

/// Decodes the `n` symbols of a stream; every state must end at L with no word left.
pub(super) fn decode(frequencies: &[u16; 256], mut states: [u32; LANES], words: &[u16], n: usize) -> Vec<u8> {
    let mut words = words.iter();
    let mut symbols = Vec::new();
    for index in 0..n {
        let x = &mut states[index % LANES];
        let slot = *x % M as u32;
        let (mut symbol, mut c) = (0, 0);
        while c + u32::from(frequencies[symbol]) <= slot {
            c += u32::from(frequencies[symbol]);
            symbol += 1;
        }
        *x = u32::from(frequencies[symbol]) * (*x / M as u32) + slot - c;
        if *x < L {
            *x = *x << 16 | u32::from(*words.next().unwrap());
        }
        symbols.push(symbol as u8);
    }
    assert!(words.next().is_none() && states == [L; LANES]);
    symbols
}

/// Returns the hash of a tile whose slices have these bytes.
pub(super) fn hash(number: u64, slices: &[&[u8]]) -> u64 {
    let mut lanes = vec![[0u32; LANES]; slices.len()];
    for (slice, lanes) in slices.iter().zip(&mut lanes) {
        for (index, bytes) in slice.chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            let lane = &mut lanes[index % LANES];
            *lane = (*lane ^ u32::from_le_bytes(word)).wrapping_mul(0x9e37_79b1);
            *lane ^= *lane >> 15;
        }
    }
    let len = slices.iter().map(|slice| slice.len() as u64).sum();
    let values = [number, len].into_iter().chain(lanes.iter().flatten().map(|&lane| lane.into()));
    values.fold(0, |hash, value| {
        let product = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    })
}
