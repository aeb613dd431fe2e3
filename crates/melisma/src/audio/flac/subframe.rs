//! Codes one channel of one block.

use super::bits::Bits;
use super::predict::{PRECISION, Predictor, differences};
use super::rice::Plan;

/// Orders of the fixed predictors, which are differences.
const FIXED: std::ops::RangeInclusive<usize> = 0..=4;

#[derive(Debug)]
pub(super) struct Subframe<'a> {
    samples: &'a [i32],
    /// Bits per sample.
    bits: u32,
    coding: Coding,
}

#[derive(Debug)]
enum Coding {
    Constant,
    Verbatim,
    Fixed { order: usize, residual: Vec<i64>, plan: Plan },
    Linear { predictor: Predictor, residual: Vec<i64>, plan: Plan },
}

impl<'a> Subframe<'a> {
    /// Returns the cheapest coding of `samples`, which are not empty.
    pub(super) fn best(samples: &'a [i32], bits: u32) -> Self {
        if samples.iter().all(|&sample| sample == samples[0]) {
            return Self { samples, bits, coding: Coding::Constant };
        }
        let mut least = samples.len() as u64 * u64::from(bits);
        let mut coding = Coding::Verbatim;
        for order in FIXED.filter(|&order| order < samples.len()) {
            let residual = differences(samples, order);
            let plan = Plan::new(&residual, order);
            let cost = plan.cost + order as u64 * u64::from(bits);
            if cost < least {
                least = cost;
                coding = Coding::Fixed { order, residual, plan };
            }
        }
        for predictor in Predictor::find(samples) {
            let Some(residual) = predictor.residual(samples) else { continue };
            let order = predictor.coefficients.len();
            let plan = Plan::new(&residual, order);
            let cost = plan.cost + order as u64 * u64::from(bits + PRECISION) + 9;
            if cost < least {
                least = cost;
                coding = Coding::Linear { predictor, residual, plan };
            }
        }
        Self { samples, bits, coding }
    }

    pub(super) fn write(&self, bits: &mut Bits) {
        // A zero, six bits of type, and a zero: the samples have no wasted bits.
        let kind = match &self.coding {
            Coding::Constant => 0,
            Coding::Verbatim => 1,
            Coding::Fixed { order, .. } => 8 | *order as u64,
            Coding::Linear { predictor, .. } => 31 + predictor.coefficients.len() as u64,
        };
        bits.put(kind << 1, 8);
        let plain = |n: usize, bits: &mut Bits| {
            self.samples[..n].iter().for_each(|&sample| bits.put_signed(sample, self.bits));
        };
        match &self.coding {
            Coding::Constant => plain(1, bits),
            Coding::Verbatim => plain(self.samples.len(), bits),
            Coding::Fixed { order, residual, plan } => {
                plain(*order, bits);
                plan.write(residual, *order, bits);
            }
            Coding::Linear { predictor, residual, plan } => {
                let order = predictor.coefficients.len();
                plain(order, bits);
                bits.put(u64::from(PRECISION) - 1, 4);
                bits.put(predictor.shift.into(), 5);
                predictor.coefficients.iter().for_each(|&c| bits.put_signed(c, PRECISION));
                plan.write(residual, order, bits);
            }
        }
    }
}
