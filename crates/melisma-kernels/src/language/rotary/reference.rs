//! The definition, in f64: one head at one position.

use super::{Rotary, Scaling};

pub(super) fn turn(rotary: &Rotary, position: usize, head: &[f32]) -> Vec<f64> {
    let half = head.len() / 2;
    let mut y = vec![0.0; head.len()];
    for i in 0..half {
        let mut f = rotary.theta.powf(-((2 * i) as f64) / head.len() as f64);
        match rotary.scaling {
            Scaling::None => {}
            Scaling::Linear { factor } => f /= factor,
            Scaling::Llama3 { factor, low, high, context } => {
                let waves = context * f / (2.0 * std::f64::consts::PI);
                let s = ((waves - low) / (high - low)).clamp(0.0, 1.0);
                f = (1.0 - s) * f / factor + s * f;
            }
        }
        let angle = position as f64 * f;
        let (a, b) = (f64::from(head[i]), f64::from(head[i + half]));
        y[i] = a * angle.cos() - b * angle.sin();
        y[i + half] = b * angle.cos() + a * angle.sin();
    }
    y
}
