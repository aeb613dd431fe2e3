//! MD5 (RFC 1321), the hash that FLAC files store of their samples.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

#[derive(Debug, Clone)]
pub(super) struct Md5 {
    state: [u32; 4],
    waiting: Vec<u8>,
    len: u64,
    /// floor(2^32 |sin(i + 1)|)
    table: [u32; 64],
}

impl Md5 {
    pub(super) fn new() -> Self {
        let table = std::array::from_fn(|i| (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32);
        let state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
        Self { state, waiting: Vec::with_capacity(64), len: 0, table }
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if !self.waiting.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(64 - self.waiting.len()));
            self.waiting.extend_from_slice(head);
            bytes = rest;
            if self.waiting.len() == 64 {
                let block = std::mem::take(&mut self.waiting);
                block.as_chunks().0.iter().for_each(|block| self.block(block));
            }
        }
        let (blocks, rest) = bytes.as_chunks();
        blocks.iter().for_each(|block| self.block(block));
        self.waiting.extend_from_slice(rest);
    }

    fn block(&mut self, block: &[u8; 64]) {
        let words: [u32; 16] = std::array::from_fn(|i| {
            u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
        });
        let [mut a, mut b, mut c, mut d] = self.state;
        for i in 0..64 {
            let (mixed, word) = match i / 16 {
                0 => (b & c | !b & d, i),
                1 => (d & b | !d & c, (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), 7 * i % 16),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(self.table[i]).wrapping_add(words[word]);
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4])));
        }
        for (state, value) in self.state.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(value);
        }
    }

    pub(super) fn finish(mut self) -> [u8; 16] {
        let n_bits = self.len.wrapping_mul(8);
        let n_zeros = (119 - self.len % 64) % 64;
        let mut end = vec![0x80];
        end.resize(1 + n_zeros as usize, 0);
        end.extend(n_bits.to_le_bytes());
        self.update(&end);
        std::array::from_fn(|i| self.state[i / 4].to_le_bytes()[i % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::Md5;

    #[test]
    fn the_values_of_the_rfc() {
        let hash = |text: &str, cut: usize| {
            let mut hash = Md5::new();
            text.as_bytes().chunks(cut).for_each(|part| hash.update(part));
            hash.finish().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let digits = "1234567890".repeat(8);
        for cut in [1, 3, 64, 100] {
            assert_eq!(hash("", cut), "d41d8cd98f00b204e9800998ecf8427e");
            assert_eq!(hash("message digest", cut), "f96b697d7cb7938d525a2f31aaf161d0");
            assert_eq!(hash(&digits, cut), "57edf4a22be3c955ac49da2e2107b67a");
        }
    }
}
