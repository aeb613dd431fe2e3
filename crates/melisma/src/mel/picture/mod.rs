//! A spectrogram as a PNG: time to the right, frequency upwards, with both axes.

#[doc(hidden)]
pub mod font;

use super::{Config, Log, MelScale, Spectrogram};
use melisma_kernels::signal::mel::Order;

/// The range that a picture of linear values shows, in decibels below the largest.
const RANGE_DB: f32 = 80.0;
const LEFT: usize = 52;
const BOTTOM: usize = 26;
const TOP: usize = 8;
const RIGHT: usize = 14;
const MAX_WIDTH: usize = 1600;
const INK: [u8; 3] = [60, 60, 60];

/// Dark to bright, in eighths.
const COLOURS: [[u8; 3]; 9] = [
    [0, 0, 4],
    [28, 16, 68],
    [79, 18, 123],
    [129, 37, 129],
    [181, 54, 122],
    [229, 80, 100],
    [251, 135, 97],
    [254, 194, 135],
    [252, 253, 191],
];

struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// Returns the bytes of the PNG file.
pub fn encode(mel: &Spectrogram, config: &Config) -> Vec<u8> {
    let plot = Plot::new(mel, config);
    let mut canvas = Canvas::new(LEFT + plot.width + RIGHT, TOP + plot.height + BOTTOM);
    plot.draw(&mut canvas, [LEFT, TOP]);
    canvas.time_axis(plot.width, plot.n_frames as f64 * config.hop_length as f64 / f64::from(config.sample_rate));
    canvas.frequency_axis(plot.height, config);
    crate::format::png::encode(canvas.width, canvas.height, &canvas.pixels)
}

/// Returns the bytes of a PNG file without axes.
pub fn encode_plain(mel: &Spectrogram, config: &Config) -> Vec<u8> {
    let plot = Plot::new(mel, config);
    let mut canvas = Canvas::new(plot.width, plot.height);
    plot.draw(&mut canvas, [0, 0]);
    crate::format::png::encode(canvas.width, canvas.height, &canvas.pixels)
}

/// The spectrogram as pixels.
struct Plot {
    levels: Vec<f32>,
    order: Order,
    n_mels: usize,
    n_frames: usize,
    row_len: usize,
    width: usize,
    height: usize,
}

impl Plot {
    fn new(mel: &Spectrogram, config: &Config) -> Self {
        let order = config.order();
        let (n_mels, n_frames) = match order {
            Order::FilterTime => (mel.shape[0], mel.shape[1]),
            Order::TimeFilter => (mel.shape[1], mel.shape[0]),
        };
        let levels = levels(mel, config);
        // A shape of other values has nothing to show.
        let is_whole = n_mels.checked_mul(n_frames) == Some(levels.len());
        let (n_mels, n_frames) = if is_whole { (n_mels, n_frames) } else { (0, 0) };
        let row_len = (320 / n_mels.max(1)).max(1);
        let (width, height) = (n_frames.saturating_mul(4).clamp(240, MAX_WIDTH), n_mels * row_len);
        Self { levels, order, n_mels, n_frames, row_len, width, height }
    }

    fn draw(&self, canvas: &mut Canvas, [left, top]: [usize; 2]) {
        for y in 0..self.height {
            let f = self.n_mels - 1 - y / self.row_len;
            for x in 0..self.width {
                let t = x * self.n_frames / self.width;
                let at = if self.order == Order::FilterTime { f * self.n_frames + t } else { t * self.n_mels + f };
                canvas.set(left + x, top + y, colour(self.levels.get(at).copied().unwrap_or(0.0)));
            }
        }
    }
}

/// Returns values between 0 and 1.
fn levels(mel: &Spectrogram, config: &Config) -> Vec<f32> {
    let mut values = mel.values.to_f32();
    if config.log == Log::None {
        values.iter_mut().for_each(|value| *value = 10.0 * value.max(1e-20).log10());
    }
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let high = finite().fold(f32::NEG_INFINITY, f32::max);
    let low = finite().fold(f32::INFINITY, f32::min);
    let low = if config.log == Log::None { low.max(high - RANGE_DB) } else { low };
    let span = (high - low).max(1e-6);
    let level = |value: &f32| if value.is_finite() { ((value - low) / span).clamp(0.0, 1.0) } else { 0.0 };
    values.iter().map(level).collect()
}

fn colour(level: f32) -> [u8; 3] {
    let place = level * (COLOURS.len() - 1) as f32;
    let index = (place as usize).min(COLOURS.len() - 2);
    let share = place - index as f32;
    std::array::from_fn(|i| {
        let (a, b) = (f32::from(COLOURS[index][i]), f32::from(COLOURS[index + 1][i]));
        (a + (b - a) * share).round() as u8
    })
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, pixels: vec![255; width * height * 3] }
    }

    fn set(&mut self, x: usize, y: usize, colour: [u8; 3]) {
        if x < self.width && y < self.height {
            let at = (y * self.width + x) * 3;
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }

    fn text(&mut self, text: &str, x: usize, y: usize) {
        font::draw(text, |column, row| self.set(x + column, y + row, INK));
    }

    fn time_axis(&mut self, plot_width: usize, seconds: f64) {
        let y = self.height - BOTTOM;
        let step = tick(seconds / 6.0);
        let mut at = 0.0;
        while at <= seconds && step > 0.0 {
            let x = LEFT + (at / seconds.max(1e-12) * plot_width as f64) as usize;
            (0..4).for_each(|down| self.set(x, y + down, INK));
            let text = if step < 0.1 { format!("{at:.2} s") } else { format!("{at:.1} s") };
            self.text(&text, x.saturating_sub(text.len() * font::WIDTH / 2), y + 9);
            at += step;
        }
    }

    fn frequency_axis(&mut self, plot_height: usize, config: &Config) {
        let scale = config.mel_scale;
        let (low, high) = (scale.mel(config.f_min), scale.mel(config.top_hz()));
        let mut free = usize::MAX;
        for hz in [0, 100, 200, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000].map(f64::from) {
            if hz < config.f_min || hz > config.top_hz() {
                continue;
            }
            let y = TOP + plot_height - (height(scale, hz, [low, high]) * plot_height as f64) as usize;
            if y + 9 > free {
                continue;
            }
            free = y;
            (1..5).for_each(|left| self.set(LEFT - left, y.min(TOP + plot_height - 1), INK));
            let text = if hz < 1000.0 { format!("{hz} Hz") } else { format!("{} kHz", hz / 1000.0) };
            self.text(&text, (LEFT - 7).saturating_sub(text.len() * font::WIDTH), y.saturating_sub(3));
        }
    }
}

fn height(scale: MelScale, hz: f64, [low, high]: [f64; 2]) -> f64 {
    (scale.mel(hz) - low) / (high - low).max(1e-12)
}

/// Returns the round number next above `step`: 1, 2 or 5 times a power of ten.
fn tick(step: f64) -> f64 {
    if step.is_nan() || step <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|&tick| tick >= step).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::super::Values;
    use super::*;

    #[test]
    fn has_the_sizes_it_says() {
        let config = Config::preset("whisper-80").unwrap();
        for n_frames in [0, 1, 110, 5000] {
            let values = (0..80 * n_frames).map(|i| i as f32 / 100.0).collect();
            let file = encode(&Spectrogram { shape: [80, n_frames], values: Values::F32(values) }, &config);
            assert!(file.starts_with(b"\x89PNG\r\n\x1a\n") && file.ends_with(b"IEND\xaeB`\x82"));
            let width = u32::from_be_bytes([file[16], file[17], file[18], file[19]]) as usize;
            assert_eq!(width, LEFT + RIGHT + (n_frames * 4).clamp(240, MAX_WIDTH));
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!([0.013, 0.7, 1.0, 35.0].map(tick), [0.02, 1.0, 1.0, 50.0]);
    }

    #[test]
    fn the_order_of_the_values_is_not_seen() {
        let [by_filter, by_time] = ["whisper-80", "kaldi-fbank"].map(|name| Config::preset(name).unwrap());
        assert_eq!([by_filter.order(), by_time.order()], [Order::FilterTime, Order::TimeFilter]);
        let (n_mels, n_frames) = (4, 60);
        let value = |f: usize, t: usize| (f * 7 + t * t % 11) as f32;
        let filters = (0..n_mels).flat_map(|f| (0..n_frames).map(move |t| value(f, t))).collect();
        let frames = (0..n_frames).flat_map(|t| (0..n_mels).map(move |f| value(f, t))).collect();
        let filters = Spectrogram { shape: [n_mels, n_frames], values: Values::F32(filters) };
        let frames = Spectrogram { shape: [n_frames, n_mels], values: Values::F32(frames) };
        assert_eq!(encode_plain(&frames, &by_time), encode_plain(&filters, &by_filter));
    }
}
