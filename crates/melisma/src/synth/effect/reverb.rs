//! A room: eight delay lines that feed each other through a Householder reflection (Jot and Chaigne 1991).
//!
//! The matrix I - 2/8 preserves energy, so the decay comes only from each line's gain g = 10^(-3 d / (RT60 rate)), where d
//! is its length. A shelf in each line damps high frequencies faster; its gain is set such that RT60 is exact at 1 kHz.

use std::f64::consts::TAU;

use melisma_kernels::Isa;
use melisma_kernels::memory::prefetch;
// A block is shorter than the shortest diffuser at any rate.
use melisma_kernels::signal::delay_network::{BLOCK, DelayNetwork, Levels, N_LINES as N, Rows};

use super::{flush, same_len};
use crate::synth::event::check_rate;
use crate::{Error, Result};

/// Lengths of the lines, in seconds.
const TIMES: [f64; N] = [0.0311, 0.0367, 0.0419, 0.0457, 0.0533, 0.0593, 0.0673, 0.0757];
/// Lengths of the diffusers before them, for the left and for the right.
const DIFFUSERS: [[f64; 2]; 2] = [[0.0047, 0.0113], [0.0053, 0.0101]];
const DIFFUSION: f32 = 0.6;
/// Where RT60 is exact.
const REFERENCE_HZ: f64 = 1000.0;
/// Signs of the lines in the output: rows of a Hadamard matrix, so that both sides differ as much as possible.
const HEARD: [[f32; N]; 2] =
    [[1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0], [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0]];
/// Signs with which the left (even lines) and the right (odd lines) go in.
const FED: [f32; N] = [1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0];

/// The settings of the room.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ReverbSettings {
    /// Seconds until 1 kHz has fallen by 60 dB, 0.1 to 30.
    pub rt60_s: f64,
    /// The share of that time for high frequencies, 0.05 to 1.
    pub high: f64,
    /// Where high frequencies begin.
    pub crossover_hz: f64,
}

impl Default for ReverbSettings {
    fn default() -> Self {
        Self { rt60_s: 2.8, high: 0.35, crossover_hz: 4500.0 }
    }
}

impl ReverbSettings {
    setters! {
        /// Sets the seconds until 1 kHz has fallen by 60 dB, 0.1 to 30.
        pub fn with_rt60_s(rt60_s: f64);
        /// Sets the share of that time for high frequencies, 0.05 to 1.
        pub fn with_high(high: f64);
        /// Sets where high frequencies begin.
        pub fn with_crossover_hz(crossover_hz: f64);
    }
}

/// The sound of a room, without the direct sound. Noise keeps about its loudness.
#[derive(Debug, Clone)]
pub struct Reverb {
    lines: [Line; N],
    /// The lines' next samples.
    rows: Box<Rows>,
    diffusers: [[Diffuser; 2]; 2],
    network: DelayNetwork,
    levels: Levels,
    isa: Isa,
    silence: usize,
    longest: usize,
    tail: u64,
}

#[derive(Debug, Clone)]
struct Line {
    samples: Vec<f32>,
    at: usize,
}

/// An all-pass: y = -a x + x' + a y', where x' and y' are a length older.
#[derive(Debug, Clone)]
struct Diffuser(Line);

impl Reverb {
    /// Reserves the lines.
    ///
    /// # Errors
    /// A setting is outside of its limits, or the rate is not 8 to 192 kHz.
    pub fn new(settings: ReverbSettings, sample_rate: u32) -> Result<Self> {
        check_rate(sample_rate)?;
        let ReverbSettings { rt60_s, high, crossover_hz } = settings;
        if !(0.1..=30.0).contains(&rt60_s) || !(0.05..=1.0).contains(&high) || !crossover_hz.is_finite() {
            return Err(Error::invalid(format!(
                "an RT60 of {rt60_s} s, {high} of it above {crossover_hz} Hz, is out of range: 0.1 to 30 s, 0.05 to 1"
            )));
        }
        let rate = f64::from(sample_rate);
        let mut taken = Vec::new();
        let lens = TIMES.map(|time| {
            let len = next_prime((time * rate) as usize, &taken);
            taken.push(len);
            len
        });
        let share = 1.0 - (-TAU * crossover_hz.clamp(1.0, 0.45 * rate) / rate).exp();
        let decay = |len: usize, rt60: f64| 10f64.powf(-3.0 * len as f64 / (rt60 * rate));
        let shelf = lens.map(|len| decay(len, rt60_s * high) / decay(len, rt60_s));
        let at_reference = shelf.map(|shelf| shelf_gain(share, shelf, TAU * REFERENCE_HZ.min(0.25 * rate) / rate));
        let gain: [f64; N] = std::array::from_fn(|i| (decay(lens[i], rt60_s) / at_reference[i]).min(0.9999));
        let kept = gain.iter().map(|gain| gain * gain).sum::<f64>() / N as f64;
        let longest = lens.into_iter().max().unwrap_or(1);
        // 180 dB take three times RT60, and low frequencies a little longer.
        let tail = (3.5 * rt60_s * rate) as u64 + 4 * longest as u64;
        Ok(Self {
            lines: lens.map(Line::new),
            rows: Box::new([[0.0; BLOCK]; N]),
            diffusers: DIFFUSERS
                .map(|pair| pair.map(|time| Diffuser(Line::new(next_prime((time * rate) as usize, &[]))))),
            network: DelayNetwork {
                gain: gain.map(|gain| gain as f32),
                shelf: shelf.map(|shelf| shelf as f32),
                share: share as f32,
                // The power of N lines that each keep `kept` of it for every round.
                loudness: ((1.0 - kept) / N as f64).sqrt() as f32,
                heard: HEARD,
                fed: FED,
            },
            levels: Levels::default(),
            isa: Isa::from_env()?,
            silence: longest,
            longest,
            tail,
        })
    }

    /// Asks for what the next `n` samples need from memory.
    pub fn prefetch(&self, n: usize) {
        let diffusers = self.diffusers.iter().flatten().map(|diffuser| &diffuser.0);
        self.lines.iter().chain(diffusers).for_each(|line| line.prefetch(n));
    }

    /// Replaces a sound by that of the room; the shorter side counts.
    pub fn process(&mut self, left: &mut [f32], right: &mut [f32]) {
        let [left, right] = same_len(left, right);
        for (left, right) in left.chunks_mut(BLOCK).zip(right.chunks_mut(BLOCK)) {
            let is_silent = left.iter().chain(right.iter()).all(|&x| x == 0.0);
            if !(is_silent && self.silence >= self.longest) {
                self.block(left, right);
            }
        }
    }

    /// Renders a block, which is shorter than every line, so that nothing of it comes back within it.
    fn block(&mut self, left: &mut [f32], right: &mut [f32]) {
        for (side, pair) in [&mut *left, &mut *right].into_iter().zip(&mut self.diffusers) {
            pair.iter_mut().for_each(|diffuser| diffuser.run(side));
        }
        let n = left.len();
        for (line, row) in self.lines.iter().zip(&mut *self.rows) {
            line.read(row);
        }
        self.network.run(self.isa, &mut self.levels, &mut self.rows, [left, right]);
        for (line, row) in self.lines.iter_mut().zip(&*self.rows) {
            line.write(row, n);
        }
        let is_silent = self.levels == Levels::default();
        self.silence = if is_silent { self.silence + n } else { 0 };
    }

    /// Returns the number of samples after the last sound until there is exact silence, at most.
    pub fn tail_samples(&self) -> u64 {
        self.tail
    }
}

impl Line {
    fn new(len: usize) -> Self {
        Self { samples: vec![0.0; len.max(1)], at: 0 }
    }

    /// Asks for the next samples, but for those beyond the line's end.
    fn prefetch(&self, n: usize) {
        prefetch(&self.samples[self.at..self.samples.len().min(self.at.saturating_add(n))]);
    }

    /// Reads the next samples.
    fn read(&self, out: &mut [f32; BLOCK]) {
        let (old, new) = self.samples.split_at(self.at);
        if let Some(new) = new.first_chunk() {
            *out = *new;
        } else {
            let next = new.iter().chain(old);
            out.iter_mut().zip(next).for_each(|(out, next)| *out = *next);
        }
    }

    /// Replaces the next `n` samples and goes on behind them.
    fn write(&mut self, samples: &[f32; BLOCK], n: usize) {
        let (old, new) = self.samples.split_at_mut(self.at);
        match new.first_chunk_mut() {
            Some(new) if n == BLOCK => *new = *samples,
            _ => new.iter_mut().chain(old).zip(&samples[..n]).for_each(|(held, sample)| *held = *sample),
        }
        self.advance(n);
    }

    /// Goes on by at most the line's length.
    fn advance(&mut self, n: usize) {
        self.at += n;
        if self.at >= self.samples.len() {
            self.at -= self.samples.len();
        }
    }
}

impl Diffuser {
    fn run(&mut self, mut samples: &mut [f32]) {
        while !samples.is_empty() {
            let held = &mut self.0.samples[self.0.at..];
            let n = samples.len().min(held.len());
            let (now, rest) = samples.split_at_mut(n);
            for (x, held) in now.iter_mut().zip(held) {
                let written = flush(*x + DIFFUSION * *held);
                *x = *held - DIFFUSION * written;
                *held = written;
            }
            self.0.advance(n);
            samples = rest;
        }
    }
}

/// Returns the size of l + s (1 - l) at the angle `w`, where l = c / (1 - (1 - c) z^-1) is the
/// low-pass.
fn shelf_gain(c: f64, s: f64, w: f64) -> f64 {
    let (re, im) = (1.0 - (1.0 - c) * w.cos(), (1.0 - c) * w.sin());
    let size = re * re + im * im;
    let low = (c * re / size, -c * im / size);
    ((s + (1.0 - s) * low.0).powi(2) + ((1.0 - s) * low.1).powi(2)).sqrt()
}

/// Returns the first free prime from `n` on: lines without a common divisor do not ring together.
fn next_prime(n: usize, taken: &[usize]) -> usize {
    let is_prime = |n: usize| n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (n.max(2)..).find(|&n| is_prime(n) && !taken.contains(&n)).unwrap_or(n)
}
