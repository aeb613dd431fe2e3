//! Controls of all voices, which glide from tick to tick.

use melisma_kernels::signal::voice::{Control, TICK};

use super::parameter::Parameter;

/// How fast controls move.
const GLIDE_SECONDS: f64 = 0.01;

/// Brightness and motion: their values and their targets.
#[derive(Debug, Clone)]
pub(super) struct Glides {
    brightness: Glide,
    motion: Glide,
    n_ticks: u32,
}

/// A control that moves a step per tick.
#[derive(Debug, Clone, Copy)]
struct Glide {
    value: f32,
    target: f32,
    n_ticks: u32,
}

impl Glide {
    fn new(value: f32) -> Self {
        Self { value, target: value, n_ticks: 0 }
    }

    fn next(&mut self) {
        if self.n_ticks > 0 {
            self.value += (self.target - self.value) / self.n_ticks as f32;
            self.n_ticks -= 1;
        }
    }
}

impl Glides {
    /// Creates controls at rest.
    pub(super) fn new(sample_rate: u32) -> Self {
        let Control { brightness, motion } = Control::default();
        let n_ticks = (GLIDE_SECONDS * f64::from(sample_rate) / TICK as f64).ceil() as u32;
        Self { brightness: Glide::new(brightness), motion: Glide::new(motion), n_ticks }
    }

    /// Returns the control at the end of the tick that goes on, or at this sample where a tick begins.
    pub(super) fn now(&self) -> Control {
        Control { brightness: self.brightness.value, motion: self.motion.value }
    }

    /// Begins a tick.
    pub(super) fn next(&mut self) {
        self.brightness.next();
        self.motion.next();
    }

    /// Moves a control to `value`. Controls of the bus are ignored.
    pub(super) fn set(&mut self, parameter: Parameter, value: f32) {
        let (glide, target) = match parameter {
            Parameter::Brightness => (&mut self.brightness, value.log2()),
            Parameter::Motion => (&mut self.motion, value),
            Parameter::Gain | Parameter::Reverb | Parameter::Delay => return,
        };
        (glide.target, glide.n_ticks) = (target, self.n_ticks);
    }
}
