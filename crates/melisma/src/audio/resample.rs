//! Resamples by band-limited interpolation with a Kaiser-windowed sinc.
//!
//! y[n] = sum over k of x[i + k] h(k - f), where i + f = n orig / new. Every output sample is one
//! sum over its neighbours in a fixed order, so any part can be computed alone, with the same bits
//! as in the whole.
//!
//! # Why our own resampler?
//!
//! A row must have the same bits wherever a build resumes and whichever thread computes it.
//! Resamplers that carry state depend on where they started.

use std::sync::Arc;

use melisma_kernels::lock::Mutex;

use super::sinc::{LANES, bessel, dot, sinc};
use crate::{Error, ErrorKind, Result};

/// Zero crossings of the sinc on each side.
const ZEROS: f64 = 64.0;
/// Shape of the Kaiser window: 108 dB of rejection.
const BETA: f64 = 11.0;
/// Centre of the transition band, relative to half the lower rate. The band ends at half that rate.
const ROLL_OFF: f64 = 0.945;
/// The most coefficients in a table.
const MAX_TABLE: u64 = 1 << 23;
/// The most cached tables.
const MAX_KEPT: usize = 16;

/// Samples that [`resample_with`] takes at once.
const BLOCK: usize = 1 << 14;

/// Resamples a whole signal from `from_hz` to `to_hz`, as [`Source`](super::Source) resamples a file.
///
/// # Errors
/// `InvalidArgument` for a rate of 0, `Unsupported` for a ratio that needs too many coefficients, `Memory` if the result
/// does not fit into memory.
pub fn resample(samples: &[f32], from_hz: u32, to_hz: u32) -> Result<Vec<f32>> {
    let n = resampled_len(samples.len(), from_hz, to_hz)?;
    let mut resampled = Vec::new();
    let refused = |_| Error::new(ErrorKind::Memory, format!("{n} samples do not fit into memory"));
    resampled.try_reserve_exact(n).map_err(refused)?;
    resample_with(samples, from_hz, to_hz, |block| {
        resampled.extend_from_slice(block);
        Ok(())
    })?;
    Ok(resampled)
}

/// Returns the number of samples that [`resample`] makes of `n` samples.
///
/// # Errors
/// As [`resample`].
pub fn resampled_len(n: usize, from_hz: u32, to_hz: u32) -> Result<usize> {
    Ok(usize::try_from(Ratio::new(from_hz, to_hz)?.len(n as u64)).unwrap_or(usize::MAX))
}

/// Works like [`resample`], but passes the result to `take` in short blocks, in order. An error of `take` ends the
/// work.
///
/// # Errors
/// As [`resample`], or that of `take`.
pub fn resample_with(
    samples: &[f32],
    from_hz: u32,
    to_hz: u32,
    mut take: impl FnMut(&[f32]) -> Result<()>,
) -> Result<()> {
    let ratio = Ratio::new(from_hz, to_hz)?;
    if from_hz == to_hz {
        return samples.chunks(BLOCK).try_for_each(take);
    }
    let mut running = Running::new(ratio);
    for block in samples.chunks(BLOCK) {
        take(running.push(block))?;
    }
    take(running.finish())
}

/// The ratio of two rates, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    /// new / gcd
    pub(super) up: u64,
    /// orig / gcd
    pub(super) down: u64,
}

impl Ratio {
    /// Creates the ratio from `orig` Hz to `new` Hz.
    pub(super) fn new(orig: u32, new: u32) -> Result<Self> {
        if orig == 0 || new == 0 {
            return Err(Error::invalid(format!("cannot resample from {orig} Hz to {new} Hz: rates must be positive")));
        }
        let (mut a, mut b) = (orig, new);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let ratio = Self { up: u64::from(new / a.max(1)), down: u64::from(orig / a.max(1)) };
        if ratio.up.saturating_mul(ratio.n_taps() as u64) > MAX_TABLE {
            return Err(Error::unsupported(format!(
                "cannot resample from {orig} Hz to {new} Hz: the ratio needs too many coefficients"
            ))
            .with_hint("convert it to a common rate first"));
        }
        Ok(ratio)
    }

    /// Returns the number of samples that `n` samples become.
    pub(super) fn len(self, n: u64) -> u64 {
        (u128::from(n) * u128::from(self.up)).div_ceil(u128::from(self.down)) as u64
    }

    /// Returns the bandwidth, relative to half the original rate.
    fn cutoff(self) -> f64 {
        (self.up as f64 / self.down as f64).min(1.0)
    }

    fn half(self) -> usize {
        (ZEROS / self.cutoff()).ceil().min(1e9) as usize
    }

    fn n_taps(self) -> usize {
        (2 * self.half()).next_multiple_of(LANES)
    }
}

/// Filter coefficients for every fractional position.
#[derive(Debug)]
pub(super) struct Resampler {
    ratio: Ratio,
    n_taps: usize,
    /// `[up, n_taps]`
    taps: Vec<f32>,
}

static CACHE: Mutex<Vec<Arc<Resampler>>> = Mutex::new(Vec::new());

impl Resampler {
    /// Returns the table for `ratio`, cached per process.
    pub(super) fn get(ratio: Ratio) -> Arc<Self> {
        let find = |cache: &[Arc<Self>]| cache.iter().find(|table| table.ratio == ratio).cloned();
        if let Some(found) = find(&CACHE.lock()) {
            return found;
        }
        // Without the lock: a fork meanwhile would copy it locked.
        let made = Arc::new(Self::new(ratio));
        let mut cache = CACHE.lock();
        if let Some(found) = find(&cache) {
            return found;
        }
        if cache.len() == MAX_KEPT {
            cache.remove(0);
        }
        cache.push(made.clone());
        made
    }

    fn new(ratio: Ratio) -> Self {
        let (n_taps, half) = (ratio.n_taps(), ratio.half() as f64);
        let cutoff = ratio.cutoff() * ROLL_OFF;
        let height = bessel(BETA);
        let mut taps = Vec::with_capacity(ratio.up as usize * n_taps);
        for phase in 0..ratio.up {
            let fraction = phase as f64 / ratio.up as f64;
            for k in 0..n_taps {
                let at = k as f64 + 1.0 - half - fraction;
                let place = at / half;
                let window = if place.abs() < 1.0 { bessel(BETA * (1.0 - place * place).sqrt()) / height } else { 0.0 };
                taps.push((cutoff * sinc(cutoff * at) * window) as f32);
            }
        }
        Self { ratio, n_taps, taps }
    }

    /// Returns the first sample that output `n` needs, which may be negative, and the number of
    /// samples.
    fn needs(&self, n: u64) -> (i64, usize) {
        let at = (u128::from(n) * u128::from(self.ratio.down) / u128::from(self.ratio.up)) as i64;
        (at + 1 - self.ratio.half() as i64, self.n_taps)
    }

    /// Returns the first sample that the `n` outputs from `first` on need, and the number of
    /// samples.
    pub(super) fn span(&self, first: u64, n: usize) -> (i64, usize) {
        let (start, _) = self.needs(first);
        let (last, len) = self.needs(first + n.max(1) as u64 - 1);
        (start, (last - start) as usize + len)
    }

    /// Computes outputs from `first` on, from the samples of their [`Resampler::span`].
    pub(super) fn run(&self, first: u64, samples: &[f32], to: &mut [f32]) {
        let (start, _) = self.span(first, to.len());
        for (n, to) in (first..).zip(to) {
            let phase = (u128::from(n) * u128::from(self.ratio.down) % u128::from(self.ratio.up)) as usize;
            let from = &samples[(self.needs(n).0 - start) as usize..][..self.n_taps];
            *to = dot(from, &self.taps[phase * self.n_taps..][..self.n_taps]);
        }
    }
}

/// Resamples audio that arrives in pieces, with the same bits as the whole.
#[derive(Debug)]
pub(super) struct Running {
    table: Arc<Resampler>,
    /// Samples from the first one on that the next output needs.
    samples: Vec<f32>,
    n_in: u64,
    n_out: u64,
    ready: Vec<f32>,
}

impl Running {
    pub(super) fn new(ratio: Ratio) -> Self {
        let table = Resampler::get(ratio);
        // Samples before the audio are silence.
        let samples = vec![0.0; ratio.half() - 1];
        Self { table, samples, n_in: 0, n_out: 0, ready: Vec::new() }
    }

    /// Returns the outputs that no later sample can change.
    pub(super) fn push(&mut self, samples: &[f32]) -> &[f32] {
        self.samples.extend_from_slice(samples);
        self.n_in += samples.len() as u64;
        // An output needs the sample at its place and this many after it.
        let after = (self.table.n_taps - self.table.ratio.half()) as u64;
        self.run_to(self.table.ratio.len(self.n_in.saturating_sub(after)))
    }

    /// Returns the memory in bytes for pieces of at most `n` samples.
    pub(super) fn bytes(&self, n: usize) -> u64 {
        let samples = 2 * (n + self.table.n_taps) as u64;
        (self.table.taps.len() as u64 + samples + self.table.ratio.len(samples)) * size_of::<f32>() as u64
    }

    /// Returns the outputs of the last call.
    pub(super) fn ready(&self) -> &[f32] {
        &self.ready
    }

    /// Returns the rest of the outputs.
    pub(super) fn finish(&mut self) -> &[f32] {
        let n_outputs = self.table.ratio.len(self.n_in);
        let len = match (n_outputs - self.n_out) as usize {
            0 => 0,
            n => self.table.span(self.n_out, n).1,
        };
        self.samples.resize(self.samples.len().max(len), 0.0);
        self.run_to(n_outputs)
    }

    fn run_to(&mut self, n_outputs: u64) -> &[f32] {
        self.ready.clear();
        self.ready.resize(n_outputs.saturating_sub(self.n_out) as usize, 0.0);
        if !self.ready.is_empty() {
            self.table.run(self.n_out, &self.samples, &mut self.ready);
            let passed = self.table.needs(n_outputs).0 - self.table.needs(self.n_out).0;
            self.samples.drain(..(passed as usize).min(self.samples.len()));
            self.n_out = n_outputs;
        }
        &self.ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resample_all(ratio: Ratio, x: &[f32]) -> Vec<f32> {
        let table = Resampler::get(ratio);
        let n = ratio.len(x.len() as u64) as usize;
        part(&table, x, 0, n)
    }

    fn part(table: &Resampler, x: &[f32], first: u64, n: usize) -> Vec<f32> {
        let (start, len) = table.span(first, n);
        let at = |i: i64| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0);
        let samples: Vec<f32> = (start..start + len as i64).map(at).collect();
        let mut y = vec![0.0; n];
        table.run(first, &samples, &mut y);
        y
    }

    fn sine(rate: f64, hz: f64, n: usize) -> Vec<f32> {
        (0..n).map(|i| (std::f64::consts::TAU * hz * i as f64 / rate).sin() as f32).collect()
    }

    #[test]
    fn a_tone_stays_a_tone() {
        for (orig, new, hz) in [
            (44_100, 22_050, 5000.0),
            (48_000, 22_050, 9000.0),
            (48_000, 16_000, 7100.0),
            (16_000, 22_050, 7000.0),
            (8000, 44_100, 100.0),
        ] {
            let ratio = Ratio::new(orig, new).unwrap();
            let y = resample_all(ratio, &sine(f64::from(orig), hz, 20_000));
            assert_eq!(y.len() as u64, ratio.len(20_000));
            let expected = sine(f64::from(new), hz, y.len());
            let inner = 2000..y.len() - 2000;
            let error = inner.map(|i| (y[i] - expected[i]).abs()).fold(0.0, f32::max);
            assert!(error < 2e-5, "{orig} to {new}: {error}");
        }
    }

    #[test]
    fn what_the_new_rate_cannot_hold_is_gone() {
        let y = resample_all(Ratio::new(48_000, 16_000).unwrap(), &sine(48_000.0, 8010.0, 30_000));
        let largest = y[1000..y.len() - 1000].iter().fold(0f32, |a, b| a.max(b.abs()));
        assert!(largest < 1e-5, "{largest}");
    }

    #[test]
    fn a_part_is_the_same_bits_as_in_the_whole() {
        let ratio = Ratio::new(44_100, 16_000).unwrap();
        let x: Vec<f32> = (0..9000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7 - 0.8).collect();
        let all = resample_all(ratio, &x);
        let table = Resampler::get(ratio);
        for (first, n) in [(0, 100), (1, 7), (1234, 500), (3000, 266)] {
            assert_eq!(part(&table, &x, first as u64, n), all[first..first + n]);
        }
    }

    #[test]
    fn pieces_are_the_same_bits_as_the_whole() {
        let x: Vec<f32> = (0..1500u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7 - 0.8).collect();
        for (orig, new) in [(44_100, 24_000), (16_000, 24_000), (1000, 4000), (96_000, 8000), (768_000, 24_000)] {
            let ratio = Ratio::new(orig, new).unwrap();
            for (len, piece) in [(1500, 1), (1500, 777), (1500, 1500), (1, 1), (0, 1), (130, 50)] {
                let mut running = Running::new(ratio);
                let mut y = Vec::new();
                x[..len].chunks(piece).for_each(|piece| y.extend_from_slice(running.push(piece)));
                y.extend_from_slice(running.finish());
                assert_eq!(y, resample_all(ratio, &x[..len]), "{orig} to {new}, {len} in pieces of {piece}");
                assert_eq!(resample(&x[..len], orig, new).unwrap(), y);
                assert_eq!(resampled_len(len, orig, new).unwrap(), y.len());
                assert!(running.finish().is_empty());
            }
        }
    }

    #[test]
    fn absurd_ratios_are_refused() {
        assert!(resample(&[0.0; 3], 0, 1).is_err());
        assert!(resample_with(&[0.0; 3], 1, 2, |_| Err(Error::invalid("enough"))).is_err());
        assert_eq!(resample(&[0.5; 3], 7, 7).unwrap(), [0.5; 3]);
        let error = Ratio::new(3_071_999, 3_072_000).unwrap_err().to_string();
        let reason = "cannot resample from 3071999 Hz to 3072000 Hz: the ratio needs too many coefficients";
        assert!(error.contains(reason), "{error}");
        assert!(Ratio::new(3_072_000, 1).is_err() || Ratio::new(3_072_000, 1).unwrap().n_taps() < 1 << 23);
    }
}
