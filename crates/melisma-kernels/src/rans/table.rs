//! Frequencies of 256 symbols that sum to M, and their stored form: 256 lengths of 4 bits, then the
//! bits of each frequency below its highest one, starting at the lowest bit of the first byte.

use super::{M, SCALE_BITS};
use crate::{Error, Result};

/// Bytes of the lengths.
const LENGTHS: usize = 128;

/// A frequency per symbol, at most M - 1, with sum M.
pub(super) type Frequencies = [u16; 256];

/// `f << 20 | offset << 8 | symbol` for each of the M slots.
pub(super) type Lookup = [u32; M];

/// Scales `counts`, at least two of which are positive, to a sum of M; positive counts stay
/// positive.
pub(super) fn normalize(counts: &[u32; 256]) -> Frequencies {
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let mut frequencies = [0u16; 256];
    let mut sum = 0;
    for (f, &n) in frequencies.iter_mut().zip(counts) {
        if n > 0 {
            *f = ((u64::from(n) * M as u64 + total / 2) / total).clamp(1, M as u64 - 1) as u16;
            sum += usize::from(*f);
        }
    }
    // The gain of a symbol's next step: n log((f + 1) / f) is close to n / (f + 1/2).
    let worth = |n: u32, twice: u16| (u64::from(n) << 32) / u64::from(twice).max(1);
    if sum < M {
        let mut gains: [u64; 256] = std::array::from_fn(|i| worth(counts[i], 2 * frequencies[i] + 1));
        for _ in sum..M {
            let most = gains.iter().max().copied().unwrap_or(0);
            let best = gains.iter().position(|&gain| gain == most).unwrap_or(0);
            frequencies[best] += 1;
            gains[best] = worth(counts[best], 2 * frequencies[best] + 1);
        }
    } else {
        let loss = |i: usize, f: u16| if f > 1 { worth(counts[i], 2 * f - 1) } else { u64::MAX };
        let mut losses: [u64; 256] = std::array::from_fn(|i| loss(i, frequencies[i]));
        for _ in M..sum {
            let least = losses.iter().min().copied().unwrap_or(0);
            let best = losses.iter().position(|&loss| loss == least).unwrap_or(0);
            frequencies[best] -= 1;
            losses[best] = loss(best, frequencies[best]);
        }
    }
    frequencies
}

fn bit_length(f: u16) -> u32 {
    16 - f.leading_zeros()
}

/// Returns the bytes that [`write`] appends.
pub(super) fn stored_len(frequencies: &Frequencies) -> usize {
    let bits: u32 = frequencies.iter().map(|&f| bit_length(f).saturating_sub(1)).sum();
    LENGTHS + (bits as usize).div_ceil(8)
}

/// Appends the stored form of `frequencies`.
pub(super) fn write(frequencies: &Frequencies, out: &mut Vec<u8>) {
    for pair in frequencies.as_chunks::<2>().0 {
        out.push((bit_length(pair[0]) | bit_length(pair[1]) << 4) as u8);
    }
    let (mut pending, mut n_pending) = (0u32, 0);
    for &f in frequencies.iter().filter(|&&f| f > 1) {
        let low_bits = bit_length(f) - 1;
        pending |= (u32::from(f) & ((1 << low_bits) - 1)) << n_pending;
        n_pending += low_bits;
        while n_pending >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            n_pending -= 8;
        }
    }
    if n_pending > 0 {
        out.push(pending as u8);
    }
}

/// Reads the stored form; returns it with its length in bytes.
///
/// # Errors
/// It is truncated, a length is above 12, bits after the last one are set, or the sum is not M.
pub(super) fn read(bytes: &[u8]) -> Result<(Frequencies, usize)> {
    let cut = || Error::truncated("a frequency table is cut off");
    let (lengths, bits) = bytes.split_at_checked(LENGTHS).ok_or_else(cut)?;
    let mut frequencies = [0u16; 256];
    let (mut at, mut sum) = (0usize, 0usize);
    for (symbol, f) in frequencies.iter_mut().enumerate() {
        let length = u32::from(lengths[symbol / 2] >> (4 * (symbol % 2)) & 15);
        if length > SCALE_BITS {
            return Err(Error::corrupt(format!("a frequency has {length} bits; at most {SCALE_BITS}")));
        }
        if length > 0 {
            let low_bits = length as usize - 1;
            let byte = |i: usize| u32::from(bits.get(at / 8 + i).copied().unwrap_or(0));
            if (at + low_bits).div_ceil(8) > bits.len() {
                return Err(cut());
            }
            let window = (byte(0) | byte(1) << 8 | byte(2) << 16) >> (at % 8);
            *f = ((1 << low_bits) | window & ((1 << low_bits) - 1)) as u16;
            at += low_bits;
        }
        sum += usize::from(*f);
    }
    if sum != M {
        return Err(Error::corrupt(format!("frequencies sum to {sum}, not {M}")));
    }
    if at % 8 != 0 && bits[at / 8] >> (at % 8) != 0 {
        return Err(Error::corrupt("bits are set after a frequency table".to_owned()));
    }
    Ok((frequencies, LENGTHS + at.div_ceil(8)))
}

/// Fills the decoder's slots.
pub(super) fn fill(frequencies: &Frequencies, lookup: &mut Lookup) {
    let mut start = 0;
    for (symbol, &f) in frequencies.iter().enumerate() {
        let slots = &mut lookup[start..start + usize::from(f)];
        let base = u32::from(f) << 20 | symbol as u32;
        for (offset, slot) in slots.iter_mut().enumerate() {
            *slot = base | (offset as u32) << 8;
        }
        start += usize::from(f);
    }
}

/// The encoder's data for a symbol: `reciprocal`, and `f | bias << 12 | shift << 25`.
///
/// With `shift = ceil(log2 f) - 1` and `reciprocal = ceil(2^(32 + shift) / f)`, `x / f` is `(x ·
/// reciprocal >> 32) >> shift` for every x below 2^31. For f = 1 the result is x - 1, and the bias
/// corrects it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub(super) struct Coding {
    pub(super) reciprocal: u32,
    pub(super) rest: u32,
}

/// Fills the encoder's entries, by symbol.
pub(super) fn codings(frequencies: &Frequencies, codings: &mut [Coding; 256]) {
    let mut start = 0;
    for (coding, &f) in codings.iter_mut().zip(frequencies) {
        let f = u32::from(f);
        *coding = match f {
            0 => Coding::default(),
            1 => Coding { reciprocal: u32::MAX, rest: 1 | (start + M as u32 - 1) << 12 },
            _ => {
                let shift = 31 - (f - 1).leading_zeros();
                let reciprocal = (1u64 << (32 + shift)).div_ceil(f.into()) as u32;
                Coding { reciprocal, rest: f | start << 12 | shift << 25 }
            }
        };
        start += f;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn random_counts(random: &mut SplitMix64, n_symbols: usize) -> [u32; 256] {
        let mut counts = [0; 256];
        for _ in 0..n_symbols {
            counts[random.bits() as usize % 256] = 1 + (random.bits() >> (32 + random.bits() % 30)) as u32;
        }
        counts[0] = counts[0].max(1);
        counts[255] = counts[255].max(1);
        counts
    }

    #[test]
    fn tables_survive_storage_and_divide_exactly() {
        let mut random = SplitMix64::new(5);
        for round in 0..300 {
            let counts = random_counts(&mut random, 1 + round);
            let frequencies = normalize(&counts);
            assert_eq!(frequencies.iter().map(|&f| usize::from(f)).sum::<usize>(), M);
            assert!((0..256).all(|i| (counts[i] > 0) == (frequencies[i] > 0)));
            let mut stored = Vec::new();
            write(&frequencies, &mut stored);
            assert_eq!(stored.len(), stored_len(&frequencies));
            assert!(stored.len() <= LENGTHS + 256 * 11 / 8);
            assert_eq!(read(&stored).unwrap(), (frequencies, stored.len()));
            stored.pop();
            assert!(read(&stored).is_err());
            let mut codings = [Coding::default(); 256];
            super::codings(&frequencies, &mut codings);
            for (coding, &f) in codings.iter().zip(&frequencies).filter(|(_, f)| **f > 1) {
                let f = u32::from(f);
                for x in [0, 1, f - 1, f, f + 1, (1 << 31) - 1, (1 << 31) / f * f - 1, random.bits() as u32 >> 1] {
                    let high = ((u64::from(x) * u64::from(coding.reciprocal)) >> 32) as u32;
                    assert_eq!(high >> (coding.rest >> 25), x / f, "{x} / {f}");
                }
            }
        }
    }

    #[test]
    fn wrong_tables_are_refused() {
        let mut stored = Vec::new();
        let mut counts = [0; 256];
        (counts[3], counts[9]) = (5, 6);
        write(&normalize(&counts), &mut stored);
        assert!(read(&stored[..100]).unwrap_err().to_string().contains("cut off"));
        let mut long = stored.clone();
        long[0] = 0xdd;
        assert!(read(&long).unwrap_err().to_string().contains("13 bits"));
        let mut sum = stored.clone();
        sum[100] = 1;
        assert!(read(&sum).unwrap_err().to_string().contains("sum to"));
        let mut spare = stored.clone();
        spare[stored.len() - 1] |= 0x80;
        assert!(read(&spare).unwrap_err().to_string().contains("bits are set after"));
    }
}
