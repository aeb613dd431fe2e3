//! A bit writer, most significant bit first, and the two checksums of frames.

/// Bytes, written bit by bit.
#[derive(Debug, Default)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    /// Bits that do not fill a byte yet, right-aligned.
    held: u64,
    n_held: u32,
}

impl Bits {
    /// Appends the lowest `n` bits of `value`, at most 36.
    pub(super) fn put(&mut self, value: u64, n: u32) {
        self.held = self.held << n | value & ((1 << n) - 1);
        self.n_held += n;
        while self.n_held >= 8 {
            self.n_held -= 8;
            self.bytes.push((self.held >> self.n_held) as u8);
        }
        self.held &= (1 << self.n_held) - 1;
    }

    /// Appends an `n`-bit number in two's complement.
    pub(super) fn put_signed(&mut self, value: i32, n: u32) {
        self.put(i64::from(value) as u64, n);
    }

    /// Appends `n` zeros and a one.
    pub(super) fn put_unary(&mut self, n: u32) {
        (0..n / 32).for_each(|_| self.put(0, 32));
        self.put(1, n % 32 + 1);
    }

    /// Appends a UTF-8-style number.
    pub(super) fn put_coded(&mut self, value: u32) {
        if value < 0x80 {
            return self.put(value.into(), 8);
        }
        // Two to six bytes hold 11, 16, 21, 26 and 31 bits.
        let n_more = (1..6).find(|n| value >> (5 * n + 6) == 0).unwrap_or(5);
        let mark = 0xff00u32 >> (n_more + 1) & 0xff;
        self.put((mark | value >> (6 * n_more)).into(), 8);
        (0..n_more).rev().for_each(|i| self.put((0x80 | value >> (6 * i) & 0x3f).into(), 8));
    }

    pub(super) fn align(&mut self) {
        if self.n_held > 0 {
            self.put(0, 8 - self.n_held);
        }
    }

    /// Returns the complete bytes so far.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn bytes(mut self) -> Vec<u8> {
        self.align();
        self.bytes
    }
}

pub(in crate::audio) fn crc8(bytes: &[u8]) -> u8 {
    let step = |crc: u8| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ byte, |crc, _| step(crc)))
}

pub(super) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| crc16_next(crc, byte))
}

/// Updates a CRC-16 with one byte.
pub(in crate::audio) fn crc16_next(crc: u16, byte: u8) -> u16 {
    const TABLE: [u16; 256] = table();
    crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
}

const fn table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}
