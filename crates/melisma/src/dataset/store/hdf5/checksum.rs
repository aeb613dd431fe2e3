//! Bob Jenkins' `lookup3` hash (`hashlittle`, initial value 0), the checksum of every part of an
//! HDF5 header.

pub(super) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let [mut a, mut b, mut c] = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        (a, b, c) = (a.wrapping_add(word(block, 0)), b.wrapping_add(word(block, 1)), c.wrapping_add(word(block, 2)));
        for (x, y, z, turn) in [(0, 2, 1, 4), (1, 0, 2, 6), (2, 1, 0, 8), (0, 2, 1, 16), (1, 0, 2, 19), (2, 1, 0, 4)] {
            let mut all = [a, b, c];
            all[x] = all[x].wrapping_sub(all[y]) ^ all[y].rotate_left(turn);
            all[y] = all[y].wrapping_add(all[z]);
            [a, b, c] = all;
        }
        rest = after;
    }
    if rest.is_empty() {
        return c;
    }
    let mut last = [0; 12];
    last[..rest.len()].copy_from_slice(rest);
    (a, b, c) = (a.wrapping_add(word(&last, 0)), b.wrapping_add(word(&last, 1)), c.wrapping_add(word(&last, 2)));
    for (x, y, turn) in [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)] {
        let mut all = [a, b, c];
        all[x] = (all[x] ^ all[y]).wrapping_sub(all[y].rotate_left(turn));
        [a, b, c] = all;
    }
    c
}

fn word(block: &[u8], index: usize) -> u32 {
    u32::from_le_bytes([block[4 * index], block[4 * index + 1], block[4 * index + 2], block[4 * index + 3]])
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    #[test]
    fn has_the_values_of_its_author() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
