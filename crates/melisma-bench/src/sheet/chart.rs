//! The sheet's picture: four charts.

use melisma::format::png;
use melisma::mel::picture::font;

use super::{Points, Sheet};

const CHART: [usize; 2] = [460, 260];
const LEFT: usize = 56;
const TOP: usize = 28;
const RIGHT: usize = 16;
const BOTTOM: usize = 30;
const INK: [u8; 3] = [60, 60, 60];
const GRID: [u8; 3] = [225, 225, 225];
const COLOURS: [[u8; 3]; 2] = [[31, 90, 170], [214, 96, 40]];
const LIMIT: [u8; 3] = [190, 30, 45];

/// One chart.
struct Chart<'a> {
    title: &'a str,
    curves: &'a [Points],
    x: [f64; 2],
    y: [f64; 2],
    is_log: bool,
    unit: &'a str,
    limit: Option<f64>,
}

struct Canvas {
    width: usize,
    pixels: Vec<u8>,
}

/// Returns a PNG of the sheet.
pub fn picture(sheet: &Sheet) -> Vec<u8> {
    let seconds = sheet.decay.last().map_or(1.0, |point| point.0);
    let chart = |title, curves, x, y, unit| Chart { title, curves, x, y, is_log: false, unit, limit: None };
    let alias = [sheet.alias.clone()];
    let decay = [sheet.decay.clone()];
    let charts = [
        Chart { limit: Some(-80.0), ..chart("saw alias dbc by key", &alias, [21.0, 108.0], [-160.0, -60.0], "") },
        Chart { is_log: true, ..chart("filter db by hz", &sheet.filter, [30.0, 20_000.0], [-60.0, 20.0], "") },
        chart("envelope by sample", &sheet.envelope, [0.0, 16_000.0], [0.0, 1.0], ""),
        chart("reverb decay db by s", &decay, [0.0, seconds], [-100.0, 0.0], " s"),
    ];
    let (width, height) = (2 * CHART[0], 2 * CHART[1]);
    let mut canvas = Canvas { width, pixels: vec![255; 3 * width * height] };
    for (index, chart) in charts.iter().enumerate() {
        canvas.chart(chart, [index % 2 * CHART[0], index / 2 * CHART[1]]);
    }
    png::encode(width, height, &canvas.pixels)
}

impl Chart<'_> {
    /// Returns the pixel of a point, within the chart.
    fn place(&self, (x, y): (f64, f64)) -> [usize; 2] {
        let share = |value: f64, [low, high]: [f64; 2]| ((value - low) / (high - low)).clamp(0.0, 1.0);
        let x = if self.is_log { share(x.max(1e-9).ln(), self.x.map(f64::ln)) } else { share(x, self.x) };
        let [width, height] = [CHART[0] - LEFT - RIGHT, CHART[1] - TOP - BOTTOM].map(|n| (n - 1) as f64);
        [LEFT + (x * width) as usize, TOP + ((1.0 - share(y, self.y)) * height) as usize]
    }
}

impl Canvas {
    fn chart(&mut self, chart: &Chart<'_>, [left, top]: [usize; 2]) {
        self.text(chart.title, left + LEFT, top + 10);
        for step in 0..=4 {
            let share = f64::from(step) / 4.0;
            let y = chart.y[0] + share * (chart.y[1] - chart.y[0]);
            let [_, row] = chart.place((chart.x[0], y));
            (LEFT..CHART[0] - RIGHT).for_each(|x| self.set(left + x, top + row, GRID));
            let text = if chart.y[1] - chart.y[0] < 10.0 { format!("{y:.2}") } else { format!("{y:.0}") };
            self.text(&text, left + (LEFT - 6).saturating_sub(text.len() * font::WIDTH), top + row - 3);
            let x = match chart.is_log {
                true => (chart.x[0].ln() + share * (chart.x[1].ln() - chart.x[0].ln())).exp(),
                false => chart.x[0] + share * (chart.x[1] - chart.x[0]),
            };
            let [column, _] = chart.place((x, chart.y[0]));
            (TOP..CHART[1] - BOTTOM).for_each(|y| self.set(left + column, top + y, GRID));
            let text = format!("{}{}", if x < 10.0 { format!("{x:.1}") } else { format!("{x:.0}") }, chart.unit);
            self.text(&text, left + column - text.len() * font::WIDTH / 2, top + CHART[1] - BOTTOM + 8);
        }
        if let Some(limit) = chart.limit {
            let [_, row] = chart.place((chart.x[0], limit));
            (LEFT..CHART[0] - RIGHT).for_each(|x| self.set(left + x, top + row, LIMIT));
        }
        for (curve, colour) in chart.curves.iter().zip(COLOURS) {
            for pair in curve.windows(2) {
                let [from, to] = [pair[0], pair[1]].map(|point| chart.place(point));
                self.line([from, to].map(|[x, y]| [left + x, top + y]), colour);
            }
        }
    }

    fn line(&mut self, [from, to]: [[usize; 2]; 2], colour: [u8; 3]) {
        let n = from[0].abs_diff(to[0]).max(from[1].abs_diff(to[1])).max(1);
        let between = |a: usize, b: usize, step: usize| (a * (n - step) + b * step + n / 2) / n;
        for step in 0..=n {
            self.set(between(from[0], to[0], step), between(from[1], to[1], step), colour);
        }
    }

    fn text(&mut self, text: &str, x: usize, y: usize) {
        font::draw(text, |column, row| self.set(x + column, y + row, INK));
    }

    fn set(&mut self, x: usize, y: usize, colour: [u8; 3]) {
        let at = 3 * (y * self.width + x);
        if x < self.width && at + 3 <= self.pixels.len() {
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }
}
