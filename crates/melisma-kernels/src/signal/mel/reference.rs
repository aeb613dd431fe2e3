//! The contract as loops in f64, for tests, benches and preset checks.

use super::{Batch, Edge, Mel, Offset, Order, Power, Scale};

/// Returns the spectrogram of one item in f64, `[F, T]` or `[T, F]`; full scale of `samples` is 1.
pub fn run(mel: &Mel, samples: &[f64], n_frames: usize) -> Vec<f64> {
    let batch = Batch { n_items: 1, n_samples: samples.len(), n_frames };
    let (n_filters, n_bins) = (mel.n_filters(), mel.n_bins());
    let mut values = vec![0.0; n_filters * n_frames];
    for t in 0..batch.n_frames {
        let spectrum = spectrum(mel, &frame(mel, samples, t));
        for f in 0..n_filters {
            let weights = &mel.filters[f * n_bins..(f + 1) * n_bins];
            let sum: f64 = weights.iter().zip(&spectrum).map(|(&weight, value)| f64::from(weight) * value).sum();
            let at = match mel.order {
                Order::FilterTime => f * n_frames + t,
                Order::TimeFilter => t * n_filters + f,
            };
            values[at] = sum;
        }
    }
    if let Scale::Log { floor, gain, offset, range } = mel.scale {
        for value in &mut values {
            *value = f64::from(gain) * value.max(f64::from(floor)).ln() + f64::from(offset);
        }
        if let Some(range) = range {
            let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            values.iter_mut().for_each(|value| *value = value.max(largest - f64::from(range)));
        }
    }
    values
}

/// Returns sample `at` of an item, which may lie beyond its ends.
pub(super) fn beyond(edge: Edge, at: i64, n_samples: usize) -> Option<usize> {
    let n = n_samples as i64;
    if (0..n).contains(&at) {
        return Some(at as usize);
    }
    match edge {
        _ if n == 0 => None,
        Edge::Zero => None,
        Edge::Reflect if n == 1 => Some(0),
        Edge::Reflect => {
            let place = at.rem_euclid(2 * (n - 1));
            Some(place.min(2 * (n - 1) - place) as usize)
        }
        Edge::Mirror => {
            let place = at.rem_euclid(2 * n);
            Some(place.min(2 * n - 1 - place) as usize)
        }
    }
}

fn frame(mel: &Mel, samples: &[f64], t: usize) -> Vec<f64> {
    let first = (t * mel.hop_len) as i64 - mel.pad as i64;
    let sample = |n: usize| beyond(mel.edge, first + n as i64, samples.len()).map_or(0.0, |at| samples[at]);
    let mut frame: Vec<f64> = (0..mel.frame_len).map(sample).collect();
    if mel.offset == Offset::Remove {
        let mean = frame.iter().sum::<f64>() / frame.len() as f64;
        frame.iter_mut().for_each(|x| *x -= mean);
    }
    if mel.pre_emphasis != 0.0 {
        let a = f64::from(mel.pre_emphasis);
        let before: Vec<f64> = std::iter::once(frame[0]).chain(frame.iter().copied()).collect();
        frame.iter_mut().zip(before).for_each(|(x, before)| *x -= a * before);
    }
    frame.iter().zip(&mel.window).map(|(x, w)| x * w).collect()
}

fn spectrum(mel: &Mel, frame: &[f64]) -> Vec<f64> {
    let n_fft = mel.n_fft;
    let roots: Vec<(f64, f64)> = (0..n_fft)
        .map(|j| {
            let angle = std::f64::consts::TAU * j as f64 / n_fft as f64;
            (angle.cos(), -angle.sin())
        })
        .collect();
    let bin = |k: usize| {
        let (mut re, mut im) = (0.0, 0.0);
        for (n, x) in frame.iter().enumerate() {
            let (cos, sin) = roots[n * k % n_fft];
            re += x * cos;
            im += x * sin;
        }
        match mel.power {
            Power::Power => re * re + im * im,
            Power::Magnitude { epsilon } => (re * re + im * im + f64::from(epsilon)).sqrt(),
        }
    };
    (0..mel.n_bins()).map(bin).collect()
}
