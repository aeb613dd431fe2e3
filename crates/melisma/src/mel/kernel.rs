//! A configuration as the kernel takes it.

use melisma_kernels::signal::mel::{Edge, Mel, Offset, Plan, Power, Scale, reference};
use melisma_kernels::{Budget, Device};

use super::config::{Config, Log, Padding};
use super::filterbank::filterbank;
use super::key::KEYS;
use crate::{Error, Remedy, Result};

impl Config {
    /// Returns the spectrogram of `samples` by plain loops in f64: slow, and what the fast transforms are tested
    /// against.
    ///
    /// # Errors
    /// A value is out of its bounds, two contradict each other, or there are too few samples.
    pub fn reference(&self, samples: &[f64]) -> Result<Vec<f64>> {
        Ok(reference::run(&self.kernel()?, samples, self.n_frames(samples.len())?))
    }

    /// Returns the kernel's plan for batches on `device`, its tables within `budget`.
    ///
    /// # Errors
    /// A value is out of its bounds, the budget refuses, or the device cannot do it.
    #[doc(hidden)]
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        self.kernel()?.plan(device, budget)
    }

    /// Returns the parameters of the kernel.
    ///
    /// # Errors
    /// A value is out of its bounds, or two contradict each other.
    pub(crate) fn kernel(&self) -> Result<Mel> {
        self.check()?;
        let frame_len = self.frame_len();
        let left = (frame_len - self.win_length) / 2;
        let mut window = vec![0.0; frame_len];
        for (n, w) in window[left..left + self.win_length].iter_mut().enumerate() {
            *w = self.window.at(n, self.win_length) * self.input_scale;
        }
        Ok(Mel {
            n_fft: self.n_fft,
            frame_len,
            hop_len: self.hop_length,
            pad: self.pad(),
            edge: match self.padding {
                Padding::Reflect => Edge::Reflect,
                Padding::Constant => Edge::Zero,
                Padding::Mirror => Edge::Mirror,
            },
            offset: if self.remove_dc { Offset::Remove } else { Offset::Keep },
            pre_emphasis: self.preemphasis as f32,
            window,
            power: match self.power {
                1 => Power::Magnitude { epsilon: self.epsilon as f32 },
                _ => Power::Power,
            },
            filters: filterbank(self)?.into_iter().map(|weight| weight as f32).collect(),
            scale: self.scale(),
            order: self.order(),
        })
    }

    fn scale(&self) -> Scale {
        let gain = match self.log {
            Log::None => return Scale::Linear,
            Log::Ln => self.multiplier,
            Log::Log10 => self.multiplier / std::f64::consts::LN_10,
        };
        let range = self.range.map(|range| range as f32);
        Scale::Log { floor: self.floor as f32, gain: gain as f32, offset: self.offset as f32, range }
    }

    pub(super) fn check(&self) -> Result<()> {
        KEYS.iter().try_for_each(|key| key.check(self))?;
        if self.f_min >= self.top_hz() {
            return Err(Error::invalid(format!(
                "f_min is {}, f_max {}: no room for filters",
                self.f_min,
                self.top_hz()
            ))
            .with_hint(Remedy::change_mel(&["f_min", "f_max"])));
        }
        Ok(())
    }
}
