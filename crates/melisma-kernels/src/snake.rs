//! Snake, y = x + sin²(αx)/α with α per channel (Ziyin et al. 2020), and the hyperbolic tangent, as plain arithmetic:
//! the same operations, and so the same bits, on every instruction set.
//!
//! sin² has period π: αx is reduced to r in [-π/2, π/2] by two fused steps, then sin r is r times a polynomial in r².
//! For |αx| below 2^20 the error of sin² is at most 3e-7, so that of y is at most 3e-7/α and half an ulp of y; beyond
//! that, sin² stays between 0 and 1. A NaN stays NaN, an infinity becomes NaN.

/// α of each channel, with 1/(α + 1e-9).
#[derive(Debug)]
pub(crate) struct Snake {
    pub(crate) alpha: Vec<f32>,
    pub(crate) inverse: Vec<f32>,
}

impl Snake {
    pub(crate) fn new(alpha: &[f32]) -> Self {
        Self { alpha: alpha.to_vec(), inverse: alpha.iter().map(|alpha| 1.0 / (alpha + 1e-9)).collect() }
    }

    /// One row of channels, from `first` on.
    #[inline(always)]
    pub(crate) fn apply(&self, first: usize, x: &[f32], y: &mut [f32]) {
        let n = x.len();
        let (y, alpha, inverse) = (&mut y[..n], &self.alpha[first..first + n], &self.inverse[first..first + n]);
        // Whole lanes by value: nothing to prove about overlaps.
        let whole = n - n % LANES;
        for first in (0..whole).step_by(LANES) {
            let lanes = |values: &[f32]| -> [f32; LANES] { std::array::from_fn(|lane| values[first + lane]) };
            let (x, alpha, inverse) = (lanes(x), lanes(alpha), lanes(inverse));
            let result: [f32; LANES] = std::array::from_fn(|lane| snake(x[lane], alpha[lane], inverse[lane]));
            y[first..first + LANES].copy_from_slice(&result);
        }
        for c in whole..n {
            y[c] = snake(x[c], alpha[c], inverse[c]);
        }
    }
}

const LANES: usize = 16;
const PI_HIGH: f32 = std::f32::consts::PI;
const PI_LOW: f32 = -8.742_278e-8;

#[inline(always)]
pub(crate) fn snake(x: f32, alpha: f32, inverse: f32) -> f32 {
    let z = alpha * x;
    let turns = (z * std::f32::consts::FRAC_1_PI).round_ties_even();
    let r = turns.mul_add(-PI_LOW, turns.mul_add(-PI_HIGH, z));
    let square = r * r;
    let most = std::f32::consts::FRAC_PI_2 * std::f32::consts::FRAC_PI_2;
    // Not `min`, which would hide a NaN.
    let u = if square > most { most } else { square };
    // sin²(r) = u · (1 + u · P(u))²
    let p = 2.608_316e-6_f32.mul_add(u, -1.981_069_1e-4);
    let p = p.mul_add(u, 8.333_078e-3).mul_add(u, -1.666_666e-1);
    let ratio = p.mul_add(u, 1.0);
    let sin_square = u * ratio * ratio;
    inverse.mul_add(sin_square, x)
}

/// tanh as a ratio of polynomials, within 3e-7 of it everywhere; a NaN stays NaN.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    const LIMIT: f32 = 7.905_311;
    let x = if x > LIMIT { LIMIT } else { x };
    let x = if x < -LIMIT { -LIMIT } else { x };
    let u = x * x;
    let p = (-2.760_768_5e-16_f32).mul_add(u, 2.000_188e-13).mul_add(u, -8.604_672e-11).mul_add(u, 5.122_297e-8);
    let p = p.mul_add(u, 1.485_722_4e-5).mul_add(u, 6.372_619e-4).mul_add(u, 4.893_524_6e-3);
    let q = 1.198_258_4e-6_f32.mul_add(u, 1.185_347_1e-4).mul_add(u, 2.268_434_6e-3).mul_add(u, 4.893_525e-3);
    x * p / q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_is_accurate() {
        let mut worst = 0f64;
        for i in -400_000..400_000 {
            let x = i as f32 * 1e-4 + i as f32 * i as f32 * 1e-9;
            for alpha in [0.01f32, 0.5, 1.0, 3.7, 40.0] {
                let z = f64::from(alpha * x);
                let expected = f64::from(x) + f64::from(1.0 / (alpha + 1e-9)) * z.sin().powi(2);
                let found = f64::from(snake(x, alpha, 1.0 / (alpha + 1e-9)));
                let error = (found - expected).abs() - f64::from(f32::EPSILON) / 2.0 * expected.abs();
                worst = worst.max(error * f64::from(alpha));
            }
        }
        println!("sin²: {worst:e}");
        assert!(worst < 3e-7, "{worst:e}");
    }

    #[test]
    fn far_away_it_stays_bounded() {
        for x in [1e6f32, -3e9, 1e30, f32::MAX] {
            let sin_square = snake(x, 1.0, 1.0) - x;
            assert!((0.0..=1.0).contains(&snake(0.0, 1.0, 1.0)) && sin_square.abs() <= x.abs() * f32::EPSILON + 1.0);
        }
        assert_eq!(snake(0.0, 2.0, 0.5).to_bits(), 0);
        assert!(snake(f32::NAN, 1.0, 1.0).is_nan() && snake(f32::INFINITY, 1.0, 1.0).is_nan());
    }

    #[test]
    fn tangent_is_accurate() {
        let mut worst = 0f64;
        for i in -120_000..120_000 {
            let x = i as f32 * 1e-4;
            worst = worst.max((f64::from(tanh(x)) - f64::from(x).tanh()).abs());
        }
        println!("tanh: {worst:e}");
        assert!(worst < 3e-7, "{worst:e}");
        assert!(tanh(f32::NAN).is_nan());
        assert!(tanh(f32::INFINITY) <= 1.0 && tanh(f32::NEG_INFINITY) >= -1.0);
    }
}
