//! The effects behind the mix: delay, reverb, gain, limiter.

use super::effect::{Delay, DelaySettings, Limiter, Ramp, Reverb, ReverbSettings, same_len};
use super::parameter::Parameter;
use crate::{Error, Result};

/// Samples that are worked on together.
const CHUNK: usize = 256;

/// The settings of a bus.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BusConfig {
    /// Samples per second.
    pub sample_rate: u32,
    /// A gain on top of [`Parameter::Gain`], as a factor.
    pub level: f32,
    /// Where true peaks are stopped, in decibels; `None` for no limiter.
    pub ceiling_dbtp: Option<f64>,
    /// The echoes.
    pub delay: DelaySettings,
    /// The room.
    pub reverb: ReverbSettings,
}

impl BusConfig {
    /// Creates a limiter at -1 dBTP behind the default effects, at 8,000 to 192,000 Hz.
    pub fn new(sample_rate: u32) -> Self {
        Self {
            sample_rate,
            level: 1.0,
            ceiling_dbtp: Some(-1.0),
            delay: DelaySettings::default(),
            reverb: ReverbSettings::default(),
        }
    }

    setters! {
        /// Sets a gain on top of [`Parameter::Gain`], as a factor.
        pub fn with_level(level: f32);
        /// Sets where true peaks are stopped, in decibels; `None` for no limiter.
        pub fn with_ceiling_dbtp(ceiling_dbtp: Option<f64>);
        /// Sets the echoes.
        pub fn with_delay(delay: DelaySettings);
        /// Sets the room.
        pub fn with_reverb(reverb: ReverbSettings);
    }
}

/// Works on a mix in place. Controls move within 10 ms; the bits are the same for any size of blocks; nothing is allocated.
#[derive(Debug, Clone)]
pub struct Bus {
    level: f32,
    gain: Ramp,
    delay: (Delay, Ramp),
    reverb: (Reverb, Ramp),
    limiter: Option<Limiter>,
    wet: [[f32; CHUNK]; 2],
}

impl Bus {
    /// Creates a bus at full gain, without echo and room until they are set.
    ///
    /// # Errors
    /// A setting is outside of its limits.
    pub fn new(config: BusConfig) -> Result<Self> {
        let rate = config.sample_rate;
        if !config.level.is_finite() {
            return Err(Error::invalid(format!("a level of {}; it is a finite factor", config.level)));
        }
        Ok(Self {
            level: config.level,
            gain: Ramp::new(1.0, rate),
            delay: (Delay::new(config.delay, rate)?, Ramp::new(0.0, rate)),
            reverb: (Reverb::new(config.reverb, rate)?, Ramp::new(0.0, rate)),
            limiter: config.ceiling_dbtp.map(|ceiling| Limiter::new(ceiling, rate)).transpose()?,
            wet: [[0.0; CHUNK]; 2],
        })
    }

    /// Moves a control. Controls of the voices are ignored.
    pub fn set(&mut self, parameter: Parameter, value: f32) {
        let [low, high] = parameter.range();
        let value = value.clamp(low, high);
        match parameter {
            Parameter::Gain => self.gain.set(value),
            Parameter::Reverb => self.reverb.1.set(value),
            Parameter::Delay => self.delay.1.set(value),
            Parameter::Brightness | Parameter::Motion => {}
        }
    }

    /// Returns the latency in samples.
    pub fn latency(&self) -> usize {
        self.limiter.as_ref().map_or(0, Limiter::latency)
    }

    /// Returns the number of samples after the last sound until there is exact silence, at most.
    pub fn tail_samples(&self) -> u64 {
        let limiter = self.limiter.as_ref().map_or(0, Limiter::tail_samples);
        self.delay.0.tail_samples() + self.reverb.0.tail_samples() + limiter
    }

    /// Asks for what the next `n` samples need from memory: a listener among many finds nothing of it in the cache.
    pub fn prefetch(&self, n: usize) {
        self.delay.0.prefetch(n);
        self.reverb.0.prefetch(n);
    }

    /// Works on the next samples; the shorter side counts. NaN and infinities count as silence.
    pub fn process(&mut self, left: &mut [f32], right: &mut [f32]) {
        let [left, right] = same_len(left, right);
        for (left, right) in left.chunks_mut(CHUNK).zip(right.chunks_mut(CHUNK)) {
            self.chunk(left, right);
        }
    }

    fn chunk(&mut self, left: &mut [f32], right: &mut [f32]) {
        for side in [&mut *left, &mut *right] {
            side.iter_mut().for_each(|sample| *sample = if sample.is_finite() { *sample } else { 0.0 });
        }
        let n = left.len();
        let [wet_left, wet_right] = &mut self.wet;
        let (wet_left, wet_right) = (&mut wet_left[..n], &mut wet_right[..n]);
        let (delay, share) = &mut self.delay;
        wet_left.copy_from_slice(left);
        wet_right.copy_from_slice(right);
        delay.process(wet_left, wet_right);
        blend(share, [(left, wet_left), (right, wet_right)]);
        let (reverb, share) = &mut self.reverb;
        wet_left.copy_from_slice(left);
        wet_right.copy_from_slice(right);
        reverb.process(wet_left, wet_right);
        blend(share, [(left, wet_left), (right, wet_right)]);
        match self.gain.still() {
            Some(gain) => left.iter_mut().chain(right.iter_mut()).for_each(|sample| *sample *= gain * self.level),
            None => left.iter_mut().zip(right.iter_mut()).for_each(|(left, right)| {
                let gain = self.gain.next() * self.level;
                (*left, *right) = (*left * gain, *right * gain);
            }),
        }
        if let Some(limiter) = &mut self.limiter {
            limiter.process(left, right);
        }
    }
}

/// Computes dry (1 - share) + wet share, on both sides.
fn blend(share: &mut Ramp, [left, right]: [(&mut [f32], &mut [f32]); 2]) {
    let mix = |dry: f32, wet: f32, share: f32| dry * (1.0 - share) + wet * share;
    if let Some(share) = share.still() {
        for (dry, wet) in [left, right] {
            dry.iter_mut().zip(wet).for_each(|(dry, wet)| *dry = mix(*dry, *wet, share));
        }
        return;
    }
    let wet = left.1.iter().zip(right.1.iter());
    for ((left, right), (wet_left, wet_right)) in left.0.iter_mut().zip(right.0).zip(wet) {
        let share = share.next();
        (*left, *right) = (mix(*left, *wet_left, share), mix(*right, *wet_right, share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(len: usize) -> [Vec<f32>; 2] {
        let mut bus = Bus::new(BusConfig { level: 2.0, ..BusConfig::new(8000) }).unwrap();
        let mut sides = [1u32, 2].map(|seed| {
            let sample =
                |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8) as f32 / (1 << 23) as f32 - 1.0;
            (0..12_000).map(sample).collect::<Vec<f32>>()
        });
        let moves = [
            (0, Parameter::Reverb, 0.4),
            (1000, Parameter::Delay, 0.3),
            (1040, Parameter::Gain, 0.2),
            (7777, Parameter::Reverb, 0.0),
        ];
        let [left, right] = &mut sides;
        for (index, (at, parameter, value)) in moves.into_iter().enumerate() {
            let end = moves.get(index + 1).map_or(12_000, |next| next.0);
            bus.set(parameter, value);
            let parts = left[at..end].chunks_mut(len).zip(right[at..end].chunks_mut(len));
            parts.for_each(|(left, right)| bus.process(left, right));
        }
        sides
    }

    #[test]
    fn blocks_of_any_size_give_the_same_bits() {
        let whole = render(12_000);
        for len in [1, 80, 256, 999] {
            assert!(render(len) == whole, "{len}");
        }
        assert!(whole.iter().flatten().all(|x| x.abs() <= 0.9));
    }

    #[test]
    fn what_is_no_number_does_not_stay() {
        let mut bus = Bus::new(BusConfig::new(48_000)).unwrap();
        bus.set(Parameter::Reverb, f32::NAN);
        bus.set(Parameter::Delay, 0.5);
        let (mut left, mut right) = (vec![f32::NAN; 4800], vec![f32::INFINITY; 4800]);
        bus.process(&mut left, &mut right);
        assert!(left.iter().chain(&right).all(|x| *x == 0.0));
        assert!(bus.latency() > 0 && bus.tail_samples() > 48_000);
    }
}
