/// Seconds that a control takes to its new value.
const SECONDS: f64 = 0.01;

/// A control that moves along a straight line, 10 ms long.
#[derive(Debug, Clone)]
pub struct Ramp {
    value: f32,
    target: f32,
    step: f32,
    left: u32,
    len: u32,
}

impl Ramp {
    /// Creates a ramp that stands at `value`.
    pub fn new(value: f32, sample_rate: u32) -> Self {
        let len = (SECONDS * f64::from(sample_rate)).round().max(1.0) as u32;
        Self { value, target: value, step: 0.0, left: 0, len }
    }

    /// Starts towards `target` from the current value. A target that is not finite is ignored.
    pub fn set(&mut self, target: f32) {
        if target.is_finite() {
            self.target = target;
            self.left = self.len;
            self.step = (target - self.value) / self.len as f32;
        }
    }

    /// Returns the next value.
    #[expect(clippy::should_implement_trait, reason = "it never ends, so it must not be collected")]
    pub fn next(&mut self) -> f32 {
        match self.left {
            0 => {}
            1 => (self.value, self.left) = (self.target, 0),
            _ => {
                self.value += self.step;
                self.left -= 1;
            }
        }
        self.value
    }

    /// Returns the value that will not change, if it does not move.
    pub fn still(&self) -> Option<f32> {
        (self.left == 0).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_has_a_step_at_every_rate() {
        for (sample_rate, n_steps) in [(48_000, 480), (100, 1), (1, 1)] {
            let mut ramp = Ramp::new(0.0, sample_rate);
            ramp.set(1.0);
            assert!((1..n_steps).all(|_| ramp.next() < 1.0), "{sample_rate} Hz");
            assert_eq!((ramp.next(), ramp.still()), (1.0, Some(1.0)), "{sample_rate} Hz");
        }
    }
}
