//! Snake, y = x + sin²(αx)/α with α per channel (Ziyin et al. 2020), and the hyperbolic tangent, in
//! plain arithmetic: the same operations, and therefore the same bits, on every instruction set.
//!
//! sin² has period π: αx/π is reduced to f in [-1/2, 1/2] by exact fused steps, then sin²(πf) is f²
//! times a polynomial in f². For |αx| below 2^20 the error of sin² is at most 3e-7, so the error of
//! y is at most 3e-7/α plus half an ulp of y; beyond that, sin² stays between 0 and 1. A NaN stays
//! NaN, an infinity becomes NaN.

/// The constants of a range of channels.
#[derive(Debug)]
pub(crate) struct Snake {
    /// α/π, as the sum of two floats.
    pub(crate) high: Vec<f32>,
    pub(crate) low: Vec<f32>,
    /// 1/(α + 1e-9).
    pub(crate) inverse: Vec<f32>,
}

impl Snake {
    pub(crate) fn new(alpha: &[f32]) -> Self {
        let turns = |alpha: f32| f64::from(alpha) / std::f64::consts::PI;
        Self {
            high: alpha.iter().map(|&alpha| turns(alpha) as f32).collect(),
            low: alpha.iter().map(|&alpha| (turns(alpha) - f64::from(turns(alpha) as f32)) as f32).collect(),
            inverse: alpha.iter().map(|alpha| 1.0 / (alpha + 1e-9)).collect(),
        }
    }

    /// Applies Snake to one row of channels starting at `first`.
    #[inline(always)]
    pub(crate) fn apply(&self, first: usize, x: &[f32], y: &mut [f32]) {
        let n = x.len();
        let (y, high, low) = (&mut y[..n], &self.high[first..first + n], &self.low[first..first + n]);
        let inverse = &self.inverse[first..first + n];
        // Whole lanes by value, so the compiler need not prove that slices do not overlap.
        let (xs, highs, lows, inverses) =
            (x.as_chunks().0, high.as_chunks().0, low.as_chunks().0, inverse.as_chunks().0);
        for ((((y, x), high), low), inverse) in
            y.as_chunks_mut().0.iter_mut().zip(xs).zip(highs).zip(lows).zip(inverses)
        {
            *y = lanes(x, high, low, inverse);
        }
        for c in n - n % LANES..n {
            y[c] = snake(x[c], high[c], low[c], inverse[c]);
        }
    }
}

/// Channels computed side by side.
pub(crate) const LANES: usize = 16;

/// Constants of [`LANES`] channels.
pub(crate) type Lanes = [f32; LANES];

#[inline(always)]
pub(crate) fn lanes(x: &Lanes, high: &Lanes, low: &Lanes, inverse: &Lanes) -> Lanes {
    let mut y = [0.0; LANES];
    for lane in 0..LANES {
        y[lane] = snake(x[lane], high[lane], low[lane], inverse[lane]);
    }
    y
}

#[inline(always)]
fn snake(x: f32, high: f32, low: f32, inverse: f32) -> f32 {
    let turns = (x * high).round_ties_even();
    let f = x.mul_add(low, x.mul_add(high, -turns));
    let square = f * f;
    // Not `min`, which would hide a NaN.
    let u = if square > 0.25 { 0.25 } else { square };
    let q = (-3.272_946_f32).mul_add(u, 12.990_73).mul_add(u, -30.085_953);
    let q = q.mul_add(u, 42.725_384).mul_add(u, -32.469_58).mul_add(u, 9.869_603);
    inverse.mul_add(u * q, x)
}

/// Returns tanh as a ratio of polynomials, with an error of at most 3e-7; a NaN stays NaN.
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

    fn of(x: f32, alpha: f32) -> f32 {
        let mut y = [0.0];
        Snake::new(&[alpha]).apply(0, &[x], &mut y);
        y[0]
    }

    #[test]
    fn sine_is_accurate() {
        let mut worst = 0f64;
        for i in -100_000..100_000 {
            let x = i as f32 * 4e-4 + i as f32 * i as f32 * 1e-9;
            for alpha in [0.01f32, 0.5, 1.0, 3.7, 40.0] {
                let z = f64::from(alpha) * f64::from(x);
                let expected = f64::from(x) + f64::from(1.0 / (alpha + 1e-9)) * z.sin().powi(2);
                let error = (f64::from(of(x, alpha)) - expected).abs() - f64::from(f32::EPSILON) / 2.0 * expected.abs();
                worst = worst.max(error * f64::from(alpha));
            }
        }
        println!("sin²: {worst:e}");
        assert!(worst < 3e-7, "{worst:e}");
    }

    #[test]
    fn far_away_it_stays_bounded() {
        for x in [1e6f32, -3e9, 1e30, f32::MAX] {
            let sin_square = of(x, 1.0) - x;
            assert!(sin_square.abs() <= x.abs() * f32::EPSILON + 1.0);
        }
        assert_eq!(of(0.0, 2.0).to_bits(), 0);
        assert!(of(f32::NAN, 1.0).is_nan() && of(f32::INFINITY, 1.0).is_nan());
        assert_eq!(of(3.0, 0.0), 3.0);
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
