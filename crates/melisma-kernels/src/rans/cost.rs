//! Costs of symbols in integers, so that every machine chooses the same modes.

use std::sync::LazyLock;

use super::{M, SCALE_BITS};

/// Cost of one bit.
pub(super) const BIT: u64 = 1 << 16;

/// `BITS[f]`: 65536 · log2(M / f), rounded down; symbols of frequency 0 cannot be coded.
static BITS: LazyLock<Box<[u32]>> = LazyLock::new(|| (0..=M as u32).map(|f| bits(f.max(1))).collect());

/// Returns the cost table by frequency.
pub(super) fn of_frequency() -> &'static [u32] {
    &BITS
}

fn bits(f: u32) -> u32 {
    (SCALE_BITS << 16) - log2(u64::from(f))
}

/// Returns 65536 · log2(x), x > 0, by repeated squaring.
fn log2(x: u64) -> u32 {
    let whole = 63 - x.leading_zeros();
    let mut mantissa = ((u128::from(x) << 31) >> whole) as u64;
    let mut log = whole;
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 31;
        let carry = mantissa >> 32;
        mantissa >>= carry;
        log = log << 1 | carry as u32;
    }
    log
}

/// Returns the order-0 entropy of `counts`, in cost units.
pub(super) fn entropy(counts: &[u32; 256]) -> u64 {
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    if total == 0 {
        return 0;
    }
    let sum: u64 = counts.iter().filter(|&&n| n > 0).map(|&n| u64::from(n) * u64::from(log2(n.into()))).sum();
    (total * u64::from(log2(total))).saturating_sub(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right() {
        for x in [1u64, 2, 3, 5, 1000, 4095, 4096, 1 << 30] {
            let expected = (x as f64).log2() * 65_536.0;
            assert!((f64::from(log2(x)) - expected).abs() < 2.0, "{x}: {} {expected}", log2(x));
        }
        assert_eq!(of_frequency()[M], 0);
        assert_eq!(of_frequency()[M / 2], BIT as u32);
    }

    #[test]
    fn entropies() {
        let mut counts = [0; 256];
        assert_eq!(entropy(&counts), 0);
        counts[7] = 100;
        assert_eq!(entropy(&counts), 0);
        counts.fill(3);
        assert_eq!(entropy(&counts).div_ceil(BIT), 256 * 3 * 8);
    }
}
