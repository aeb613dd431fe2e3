//! Mutations of valid inputs: bits, bytes, integers, lengths and pieces of other inputs.

use melisma::random::SplitMix64;

/// Values where lengths and counts go wrong.
const EDGES: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

/// What numbers, lists and objects are written with.
const TEXT: &[u8] = b"0123456789-.,:[]{}\"e";

/// Returns one of `seeds` with one to eight mutations. Half of them strike the first 256 bytes, where headers are.
pub fn mutate(seeds: &[Vec<u8>], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(8) {
        let reach = if random.bits() % 2 == 0 { bytes.len().min(256) } else { bytes.len() };
        let at = random.below(reach + 1);
        match random.below(16) {
            0 => bytes.truncate(at),
            1 | 2 => bytes.insert(at, random.bits() as u8),
            3 | 4 => drop(bytes.drain(at..(at + random.below(64)).min(bytes.len()))),
            5 | 6 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                let piece = &other[from..(from + random.below(256)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            7..=9 => {
                let (edge, width) = (EDGES[random.below(EDGES.len())], [1, 2, 4, 8][random.below(4)]);
                let is_big_endian = random.bits() % 2 == 0;
                let (big, little) = (edge.to_be_bytes(), edge.to_le_bytes());
                let new = if is_big_endian { &big[8 - width..] } else { &little[..width] };
                bytes.iter_mut().skip(at).zip(new).for_each(|(byte, &new)| *byte = new);
            }
            10 | 11 => replace(&mut bytes, at, random.bits() as u8),
            12 | 13 => replace(&mut bytes, at, TEXT[random.below(TEXT.len())]),
            _ => {
                let bit = 1 << random.below(8);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
            }
        }
    }
    bytes
}

fn replace(bytes: &mut [u8], at: usize, new: u8) {
    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = new);
}
