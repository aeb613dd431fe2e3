//! Linear prediction with integer coefficients from the Levinson-Durbin recursion.

/// The highest order.
pub(super) const MAX_ORDER: usize = 12;
/// Bits per coefficient.
pub(super) const PRECISION: u32 = 14;

/// Predicts x[n] as (sum of c[k] x[n - 1 - k]) >> shift.
#[derive(Debug, Clone)]
pub(super) struct Predictor {
    pub(super) coefficients: Vec<i32>,
    pub(super) shift: u32,
}

/// Returns the sum of absolute second differences, an estimate of a channel's cost.
pub(super) fn roughness(samples: &[i32]) -> u64 {
    let second = |x: &[i32]| (i64::from(x[2]) - 2 * i64::from(x[1]) + i64::from(x[0])).unsigned_abs();
    samples.windows(3).map(second).sum()
}

/// Returns the differences of order `order`, without the first `order` samples.
pub(super) fn differences(samples: &[i32], order: usize) -> Vec<i64> {
    let mut values: Vec<i64> = samples.iter().map(|&sample| i64::from(sample)).collect();
    for _ in 0..order {
        values = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    }
    values
}

impl Predictor {
    /// Finds predictors of order 4, 8 and 12 for `samples`, as far as they are usable.
    pub(super) fn find(samples: &[i32]) -> Vec<Self> {
        if samples.len() <= 4 * MAX_ORDER {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (order, coefficients) in levinson(autocorrelation(samples)) {
            if [4, 8, MAX_ORDER].contains(&order) {
                found.extend(Self::quantise(&coefficients[..order]));
            }
        }
        found
    }

    /// Rounds to integers; each rounding error is carried over to the next coefficient.
    fn quantise(exact: &[f64]) -> Option<Self> {
        let largest = exact.iter().fold(0f64, |largest, c| largest.max(c.abs()));
        let limit = f64::from(1 << (PRECISION - 1));
        let shift = (0..=15).rev().find(|&shift| largest * f64::from(1 << shift) < limit - 1.0)?;
        let mut error = 0.0;
        let mut round = |c: &f64| {
            let wanted = c * f64::from(1 << shift) + error;
            let whole = wanted.round_ties_even().clamp(-limit, limit - 1.0);
            error = wanted - whole;
            whole as i32
        };
        Some(Self { coefficients: exact.iter().map(&mut round).collect(), shift })
    }

    /// Returns the residual, without the first samples; `None` if it needs more than 31 bits.
    pub(super) fn residual(&self, samples: &[i32]) -> Option<Vec<i64>> {
        let order = self.coefficients.len();
        let miss = |window: &[i32]| {
            let past = window[..order].iter().rev();
            let sum: i64 = self.coefficients.iter().zip(past).map(|(&c, &x)| i64::from(c) * i64::from(x)).sum();
            i64::from(window[order]) - (sum >> self.shift)
        };
        let residual: Vec<i64> = samples.windows(order + 1).map(miss).collect();
        residual.iter().all(|miss| miss.abs() < 1 << 30).then_some(residual)
    }
}

/// Computes the autocorrelation under a Welch (parabolic) window.
fn autocorrelation(samples: &[i32]) -> [f64; MAX_ORDER + 1] {
    let middle = (samples.len() - 1) as f64 / 2.0;
    let windowed: Vec<f64> = samples
        .iter()
        .enumerate()
        .map(|(i, &sample)| {
            let x = (i as f64 - middle) / (middle + 1.0);
            f64::from(sample) * (1.0 - x * x)
        })
        .collect();
    std::array::from_fn(|lag| windowed.iter().zip(&windowed[lag..]).map(|(a, b)| a * b).sum())
}

/// Computes the coefficients for every order from 1 on, until the prediction is perfect.
fn levinson(r: [f64; MAX_ORDER + 1]) -> Vec<(usize, [f64; MAX_ORDER])> {
    let mut c = [0f64; MAX_ORDER];
    let mut error = r[0];
    let mut found = Vec::new();
    for order in 1..=MAX_ORDER {
        if error <= r[0] * 1e-15 || !error.is_finite() {
            break;
        }
        let missed = r[order] - (1..order).map(|k| c[k - 1] * r[order - k]).sum::<f64>();
        let reflection = missed / error;
        let before = c;
        c[order - 1] = reflection;
        for k in 0..order - 1 {
            c[k] = before[k] - reflection * before[order - 2 - k];
        }
        error *= 1.0 - reflection * reflection;
        found.push((order, c));
    }
    found
}
