//! The exponential function and its relatives, by the same operations on every instruction set.

/// Adding and subtracting it rounds to an integer, which is then in the low bits.
const ROUND: f32 = 12_582_912.0;
/// e^x is a normal float between these.
const LEAST: f32 = -87.0;
const MOST: f32 = 88.0;

/// Returns e^x within 2 units in the last place for -87 <= x <= 88; beyond, the value at the nearer end. NaN stays NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > MOST { MOST } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts; the first has trailing zeros, so that the product is exact.
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4f32;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p.mul_add(r, c);
    }
    let value = p.mul_add(r * r, r) + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    value * f32::from_bits(exponent)
}

/// Returns x / (1 + e^-x).
#[inline(always)]
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close() {
        for step in -87_000..=88_000 {
            let x = step as f32 / 1000.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 2.4e-7, "{x}: {} is off by {error}", exp(x));
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan() && exp(f32::NEG_INFINITY) < 1e-37 && exp(f32::INFINITY) > 1e38);
    }

    #[test]
    fn silu_has_its_limits() {
        assert_eq!(silu(0.0), 0.0);
        assert_eq!(silu(100.0), 100.0);
        assert!(silu(-100.0).abs() < 1e-35 && silu(f32::NAN).is_nan());
    }
}
