//! Changes the speed of audio without its pitch: waveform-similarity overlap-add (WSOLA, Verhelst and
//! Roelands 1993).
//!
//! The output is a chain of segments of the input. Segment k belongs at k · hop · speed of the input
//! and starts at most `REACH_S` away from there, where the input is most like the audio that follows
//! the segment before it; over `OVERLAP_S` the one fades into the other. A segment that can continue
//! where the last one ended is copied as it is.
//!
//! Each choice depends on places in the input only, and each sum has a fixed order, so the bits do not
//! depend on how the input was cut.
//!
//! # Why WSOLA?
//!
//! Speech has one pitch at a time, and WSOLA keeps its periods whole. A phase vocoder treats every
//! frequency on its own and loses the phases between them, which makes voices sound distant.

mod search;

use super::Layout;
use crate::{Error, Result};

/// Length of a segment.
const HOP_S: f64 = 0.015;
/// Length of the fade from one segment to the next.
const OVERLAP_S: f64 = 0.010;
/// How far a segment may start from where it belongs: one period of 50 Hz in all.
const REACH_S: f64 = 0.010;
const SPEEDS: std::ops::RangeInclusive<f64> = 0.25..=4.0;
const SAMPLE_RATES: std::ops::RangeInclusive<u32> = 1000..=192_000;
const MAX_CHANNELS: usize = 32;

/// Plays audio faster or slower at the same pitch, while it arrives.
///
/// ```
/// use melisma::audio::Layout;
/// use melisma::audio::stretch::Stretch;
///
/// let layout = Layout::new(24_000, 1);
/// let mut stretch = Stretch::new(layout, 1.25)?;
/// let mut faster = Vec::new();
/// for chunk in vec![0.1; 24_000].chunks(1000) {
///     faster.extend_from_slice(stretch.push(chunk));
/// }
/// faster.extend(stretch.finish());
/// assert_eq!(faster.len(), 19_200); // 24 000 / 1.25
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug)]
pub struct Stretch {
    n_channels: usize,
    speed: f64,
    lengths: Lengths,
    /// Rises from 0 to 1 over the overlap.
    fade: Vec<f32>,
    /// Interleaved input from the frame `first` on.
    input: Vec<f32>,
    first: u64,
    n_segments: u64,
    /// The frame that follows the last segment.
    tail: u64,
    ready: Vec<f32>,
}

/// Lengths in frames, one sample of each channel.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    hop: usize,
    overlap: usize,
    reach: usize,
}

impl Lengths {
    fn new(sample_rate: u32) -> Self {
        let frames = |seconds: f64| (seconds * f64::from(sample_rate)).round() as usize;
        let overlap = frames(OVERLAP_S).next_multiple_of(search::LANES);
        Self { hop: frames(HOP_S).max(overlap), overlap, reach: frames(REACH_S) }
    }
}

impl Stretch {
    /// Creates a stream that plays `speed` times as fast as its input. At speed 1 it returns its
    /// input.
    ///
    /// # Errors
    /// `InvalidArgument`: `speed` is outside 0.25 to 4, the sample rate outside 1 to 192 kHz, or there
    /// are no channels or more than 32.
    pub fn new(layout: Layout, speed: f64) -> Result<Self> {
        let Layout { sample_rate, n_channels } = layout;
        if !SPEEDS.contains(&speed) {
            return Err(Error::invalid(format!("speed {speed}: it must be from 0.25 to 4")));
        }
        if !SAMPLE_RATES.contains(&sample_rate) {
            return Err(Error::invalid(format!("speed: {sample_rate} Hz, the rate must be from 1 to 192 kHz")));
        }
        if !(1..=MAX_CHANNELS).contains(&n_channels) {
            return Err(Error::invalid(format!("speed: {n_channels} channels, there must be 1 to {MAX_CHANNELS}")));
        }
        let lengths = Lengths::new(sample_rate);
        let fade = (0..lengths.overlap).map(|i| {
            let place = (i as f32 + 0.5) / lengths.overlap as f32;
            place * place * (3.0 - 2.0 * place)
        });
        Ok(Self {
            n_channels,
            speed,
            lengths,
            fade: fade.collect(),
            input: Vec::new(),
            first: 0,
            n_segments: 0,
            tail: 0,
            ready: Vec::new(),
        })
    }

    /// Takes interleaved samples and returns the output that no later sample can change. A frame may
    /// be cut anywhere.
    pub fn push(&mut self, samples: &[f32]) -> &[f32] {
        self.ready.clear();
        if self.speed == 1.0 {
            self.ready.extend_from_slice(samples);
            return &self.ready;
        }
        self.input.extend_from_slice(samples);
        let Lengths { hop, overlap, reach } = self.lengths;
        let n_in = self.n_in();
        let n_out = self.n_out(n_in);
        while self.place(self.n_segments) + (reach + hop + overlap) as u64 <= n_in
            && (self.n_segments + 1) * hop as u64 <= n_out
        {
            self.add_segment(n_in - (hop + overlap) as u64, hop);
        }
        self.forget();
        &self.ready
    }

    /// Ends the input and returns the rest of the output, which then has the input's length divided by
    /// the speed, rounded. An incomplete last frame is dropped; input shorter than a segment (15 ms) is
    /// followed by silence.
    #[must_use]
    pub fn finish(mut self) -> Vec<f32> {
        self.ready.clear();
        let Lengths { hop, overlap, .. } = self.lengths;
        let n_in = self.n_in();
        let n_out = self.n_out(n_in);
        self.input.truncate(self.index(n_in));
        // Only input that is shorter than a segment is read beyond its end.
        self.input.resize(self.index(n_in + (hop + overlap) as u64), 0.0);
        while self.n_segments * (hop as u64) < n_out {
            let left = n_out - self.n_segments * hop as u64;
            let (len, after) = if left <= hop as u64 { (left as usize, 0) } else { (hop, overlap) };
            self.add_segment(n_in.saturating_sub((len + after) as u64), len);
        }
        self.ready
    }

    /// Appends `len` frames from where the input continues best, no later than frame `limit`.
    fn add_segment(&mut self, limit: u64, len: usize) {
        let Lengths { overlap, reach, .. } = self.lengths;
        let place = self.place(self.n_segments);
        let latest = (place + reach as u64).min(limit);
        let earliest = latest.saturating_sub(2 * reach as u64);
        if (earliest..=latest).contains(&self.tail) {
            self.copy(self.tail, len);
        } else {
            let found = search::closest(search::Query {
                template: self.frames(self.tail, overlap),
                span: self.frames(earliest, (latest - earliest) as usize + overlap),
                n_channels: self.n_channels,
                otherwise: (place.clamp(earliest, latest) - earliest) as usize,
            });
            let start = earliest + found.offset as u64;
            self.cross_fade(start, found.likeness, len.min(overlap));
            self.copy(start + len.min(overlap) as u64, len - len.min(overlap));
            self.tail = start + len as u64;
        }
        self.n_segments += 1;
    }

    fn copy(&mut self, start: u64, len: usize) {
        let at = self.index(start);
        self.ready.extend_from_slice(&self.input[at..at + len * self.n_channels]);
        self.tail = start + len as u64;
    }

    /// Fades from the tail to `start`. The power of the sum is that of its parts if those have the same
    /// power and their normalised correlation is `likeness`.
    fn cross_fade(&mut self, start: u64, likeness: f32, len: usize) {
        let (from, to) = (self.index(self.tail), self.index(start));
        for (i, &rise) in self.fade[..len].iter().enumerate() {
            let fall = 1.0 - rise;
            let gain = 1.0 / (rise * rise + fall * fall + 2.0 * rise * fall * likeness).sqrt();
            let at = i * self.n_channels;
            let old = &self.input[from + at..][..self.n_channels];
            let new = &self.input[to + at..][..self.n_channels];
            self.ready.extend(old.iter().zip(new).map(|(old, new)| (old * fall + new * rise) * gain));
        }
    }

    /// Drops the input that no later segment can use. A segment at the end starts no earlier than the
    /// one before it might have.
    fn forget(&mut self) {
        let last = self.place(self.n_segments.saturating_sub(1));
        let needed = last.saturating_sub(self.lengths.reach as u64).min(self.tail).min(self.n_in());
        let passed = self.index(needed);
        self.input.drain(..passed);
        self.first = needed;
    }

    /// Returns the frame of the input that belongs at the start of a segment.
    fn place(&self, segment: u64) -> u64 {
        (segment as f64 * self.lengths.hop as f64 * self.speed).round() as u64
    }

    /// Returns the whole frames that have arrived.
    fn n_in(&self) -> u64 {
        self.first + (self.input.len() / self.n_channels) as u64
    }

    /// Returns the number of frames of output for `n_in` frames of input.
    fn n_out(&self, n_in: u64) -> u64 {
        (n_in as f64 / self.speed).round() as u64
    }

    fn index(&self, frame: u64) -> usize {
        (frame - self.first) as usize * self.n_channels
    }

    fn frames(&self, start: u64, len: usize) -> &[f32] {
        &self.input[self.index(start)..][..len * self.n_channels]
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
