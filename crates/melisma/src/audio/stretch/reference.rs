//! The obvious stretch: the whole signal at once, double precision, every sum from first to last.

use super::Lengths;

/// Returns the samples of one channel; several channels are compared together.
pub(super) fn stretch(channels: &[Vec<f64>], sample_rate: u32, speed: f64) -> Vec<Vec<f64>> {
    let Lengths { hop, overlap, reach } = Lengths::new(sample_rate);
    let n_in = channels[0].len();
    let n_out = (n_in as f64 / speed).round() as usize;
    let mut output = vec![Vec::new(); channels.len()];
    let mut tail = 0;
    for segment in 0..n_out.div_ceil(hop) {
        let len = hop.min(n_out - segment * hop);
        let after = if segment * hop + len < n_out { overlap } else { 0 };
        let place = (segment as f64 * hop as f64 * speed).round() as usize;
        let latest = (place + reach).min(n_in.saturating_sub(len + after));
        let earliest = latest.saturating_sub(2 * reach);
        let (mut start, mut likeness) = (place.clamp(earliest, latest), 0.0);
        if (earliest..=latest).contains(&tail) {
            (start, likeness) = (tail, 1.0);
        } else {
            for candidate in earliest..=latest {
                let found = correlation(channels, [tail, candidate], overlap);
                if found > likeness {
                    (start, likeness) = (candidate, found);
                }
            }
        }
        for (channel, output) in channels.iter().zip(&mut output) {
            let at = |i: usize| channel.get(i).copied().unwrap_or(0.0);
            output.extend((0..len).map(|i| {
                let place = ((i as f64 + 0.5) / overlap as f64).min(1.0);
                let rise = place * place * (3.0 - 2.0 * place);
                let fall = 1.0 - rise;
                let power = rise * rise + fall * fall + 2.0 * rise * fall * likeness;
                (at(tail + i) * fall + at(start + i) * rise) / power.sqrt()
            }));
        }
        tail = start + len;
    }
    output
}

/// Returns the normalised correlation of the frames from two places on.
fn correlation(channels: &[Vec<f64>], [a, b]: [usize; 2], len: usize) -> f64 {
    let (mut product, mut power_a, mut power_b) = (0.0, 0.0, 0.0);
    for channel in channels {
        for i in 0..len {
            let a = channel.get(a + i).copied().unwrap_or(0.0);
            let b = channel.get(b + i).copied().unwrap_or(0.0);
            product += a * b;
            power_a += a * a;
            power_b += b * b;
        }
    }
    product / (power_a * power_b).sqrt()
}
