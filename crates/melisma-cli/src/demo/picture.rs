//! Waveforms and long-term spectra as inline SVG, spectrograms as images.

use std::f32::consts::TAU;
use std::fmt::Write as _;

use melisma::audio::Clip;
use melisma::mel::{Config, Spectrogram, Transform, picture};
use melisma::text::base64;
use melisma::{Context, Result};

const WIDTH: usize = 900;
const LANE_HEIGHT: f32 = 70.0;
const SPECTRUM_HEIGHT: f32 = 200.0;
const COLOURS: [&str; 2] = ["var(--data)", "var(--sound)"];
/// Length of the Hann windows, which follow each other without overlap.
const WINDOW_LEN: usize = 1024;
const N_BANDS: usize = 120;
const LOWEST_HZ: f32 = 50.0;
const FLOOR_DB: f32 = -100.0;

/// Draws the range of samples in every column; the loudest reaches the edge.
pub fn wave(samples: &[f32]) -> String {
    let per_column = samples.len().div_ceil(WIDTH).max(1);
    let peak = samples.iter().fold(1e-4f32, |most, sample| most.max(sample.abs()));
    let middle = LANE_HEIGHT / 2.0;
    let mut path = String::new();
    for (x, column) in samples.chunks(per_column).enumerate() {
        let low = column.iter().copied().fold(f32::INFINITY, f32::min);
        let high = column.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let y = |sample: f32| middle - 0.95 * sample / peak * middle;
        // Writing to a string cannot fail.
        let _ = write!(path, "M{x} {:.1}V{:.1}", y(high) - 0.3, y(low) + 0.3);
    }
    svg("waveform", LANE_HEIGHT, &format!("<path d=\"{path}\" stroke=\"{}\" fill=\"none\"/>\n", COLOURS[0]))
}

/// Returns the mel spectrogram, as an image.
pub fn spectrogram(mel: &Spectrogram, config: &Config) -> String {
    let data = base64::encode(&picture::encode_plain(mel, config));
    format!("<img class=\"spec\" alt=\"mel spectrogram\" src=\"data:image/png;base64,{data}\">\n")
}

/// Returns the spectrogram of a clip at its own rate.
pub fn of_clip(context: &Context, clip: &Clip) -> Result<String> {
    let mut config = Config::preset("builder")?;
    config.sample_rate = clip.sample_rate;
    let transform = Transform::new_in(context, config.clone())?;
    Ok(spectrogram(&transform.run(&clip.samples)?, &config))
}

/// Draws the mean power around frequencies on a logarithmic scale, in dB relative to full scale.
pub fn spectra(sample_rate: u32, sounds: &[(&str, &Vec<f32>)]) -> String {
    let mut body = String::new();
    let nyquist = sample_rate as f32 / 2.0;
    for decade in [100.0_f32, 1000.0, 10_000.0].into_iter().filter(|hz| *hz < nyquist) {
        let x = WIDTH as f32 * (decade / LOWEST_HZ).ln() / (nyquist / LOWEST_HZ).ln();
        body += &format!(
            "<path d=\"M{x:.0} 0V{SPECTRUM_HEIGHT}\" stroke=\"#8886\"/><text x=\"{:.0}\" y=\"{}\">{decade:.0} Hz</text>\n",
            x + 3.0,
            SPECTRUM_HEIGHT - 4.0
        );
    }
    for (index, ((name, samples), colour)) in sounds.iter().zip(COLOURS).enumerate() {
        let levels = levels_db(samples, sample_rate);
        let place = |(band, db): (usize, f32)| {
            let x = WIDTH as f32 * band as f32 / (N_BANDS - 1) as f32;
            format!("{x:.1},{:.1}", SPECTRUM_HEIGHT * (db / FLOOR_DB).clamp(0.0, 1.0))
        };
        let points: Vec<String> = levels.into_iter().enumerate().map(place).collect();
        body += &format!("<polyline points=\"{}\" stroke=\"{colour}\" fill=\"none\"/>\n", points.join(" "));
        body += &label(name, colour, 12.0 + 14.0 * index as f32);
    }
    svg("spectra", SPECTRUM_HEIGHT, &body)
}

fn label(name: &str, colour: &str, y: f32) -> String {
    format!("<text x=\"4\" y=\"{y:.0}\" style=\"fill:{colour}\">{name}</text>\n")
}

fn svg(name: &str, height: f32, body: &str) -> String {
    format!(
        "<svg role=\"img\" aria-label=\"{name}\" viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" preserveAspectRatio=\"none\" \
         style=\"font:11px system-ui;fill:currentColor\">\n{body}</svg>\n"
    )
}

/// Returns the mean power of the windowed signal at each band's frequency, by correlation with a sine and a cosine.
fn levels_db(samples: &[f32], sample_rate: u32) -> Vec<f32> {
    let nyquist = sample_rate as f32 / 2.0;
    let hann: Vec<f32> = (0..WINDOW_LEN).map(|n| 0.5 - 0.5 * (TAU * n as f32 / WINDOW_LEN as f32).cos()).collect();
    // A full-scale sine is 0 dB.
    let scale = 2.0 / hann.iter().sum::<f32>();
    let level = |band: usize| {
        let hz = LOWEST_HZ * (0.999 * nyquist / LOWEST_HZ).powf(band as f32 / (N_BANDS - 1) as f32);
        let wave: Vec<(f32, f32)> = (0..WINDOW_LEN)
            .map(|n| {
                let (sin, cos) = (TAU * hz * n as f32 / sample_rate as f32).sin_cos();
                (sin * hann[n] * scale, cos * hann[n] * scale)
            })
            .collect();
        let windows = samples.chunks_exact(WINDOW_LEN);
        let n_windows = windows.len().max(1) as f32;
        let power = |window: &[f32]| {
            let sums = window.iter().zip(&wave).fold((0.0, 0.0), |(a, b), (x, (sin, cos))| (a + x * sin, b + x * cos));
            sums.0 * sums.0 + sums.1 * sums.1
        };
        10.0 * (windows.map(power).sum::<f32>() / n_windows).max(1e-12).log10()
    };
    (0..N_BANDS).map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sine_stands_where_it_sounds() {
        let hz = 1000.0;
        let sine: Vec<f32> = (0..24_000).map(|n| (TAU * hz * n as f32 / 24_000.0).sin()).collect();
        let levels = levels_db(&sine, 24_000);
        let loudest = (0..N_BANDS).max_by(|&a, &b| levels[a].total_cmp(&levels[b])).unwrap();
        let expected = (N_BANDS - 1) as f32 * (hz / LOWEST_HZ).ln() / (12_000.0 / LOWEST_HZ).ln();
        assert!((loudest as f32 - expected).abs() < 1.0, "band {loudest}, expected {expected}");
        assert!(levels[loudest].abs() < 0.5 && levels[N_BANDS - 1] < -60.0, "{levels:?}");
    }

    #[test]
    fn silence_and_nothing_are_drawn() {
        for samples in [vec![], vec![0.0; 10], vec![0.0; 5000]] {
            for picture in [wave(&samples), spectra(24_000, &[("a", &samples)])] {
                assert!(picture.starts_with("<svg") && !picture.contains("NaN") && !picture.contains("inf"));
            }
        }
    }
}
