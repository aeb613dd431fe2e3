//! The quality sheet of `synth`: audio measurements, each with its limit.
//!
//! Oscillators, filter and envelopes are measured on single voices, the rest on the whole chain. No
//! stored results are involved.

mod chart;
mod edge;
mod envelope;
mod filter;
mod level;
mod oscillator;
mod room;
mod signal;
mod voice;

use serde::Serialize;

use melisma::Result;
use melisma::text::table::{Align, Table};

pub use chart::picture;

/// Samples per second of all measurements.
const RATE: u32 = 48_000;

/// One figure of the sheet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The measured value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Its limit.
    pub limit: Limit,
    /// Whether the value is within the limit.
    pub holds: bool,
}

/// The limit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

/// Points of a curve for the picture.
pub type Points = Vec<(f64, f64)>;

/// The figures, and the curves of the picture.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sheet {
    /// The figures.
    pub figures: Vec<Figure>,
    /// MIDI key and alias in decibels below the fundamental.
    #[serde(skip)]
    pub alias: Points,
    /// Frequency and gain in decibels: measured, and from the formula.
    #[serde(skip)]
    pub filter: [Points; 2],
    /// Sample and level of an envelope, and of one that is released during its attack.
    #[serde(skip)]
    pub envelope: [Points; 2],
    /// Seconds and decibels of the room's decay.
    #[serde(skip)]
    pub decay: Points,
}

impl Sheet {
    /// Measures everything, which takes a few seconds.
    ///
    /// # Errors
    /// A signal could not be generated; a figure outside its limit is not an error.
    pub fn measure() -> Result<Self> {
        let mut sheet = Self::default();
        oscillator::measure(&mut sheet)?;
        filter::measure(&mut sheet)?;
        envelope::measure(&mut sheet)?;
        room::measure(&mut sheet)?;
        edge::measure(&mut sheet)?;
        level::measure(&mut sheet)?;
        Ok(sheet)
    }

    fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str, limit: Limit) {
        let holds = match limit {
            Limit::AtMost(most) => value <= most,
            Limit::AtLeast(least) => value >= least,
        };
        self.figures.push(Figure { name: name.into(), value, unit, limit, holds });
    }

    /// Returns whether every figure is within its limit.
    pub fn holds(&self) -> bool {
        self.figures.iter().all(|figure| figure.holds)
    }

    /// Returns one line per figure.
    pub fn table(&self) -> Table {
        let right = |name| (name, Align::Right);
        let left = |name| (name, Align::Left);
        let mut table = Table::new([left("what"), right("value"), left("unit"), right("limit"), left("holds")]);
        for figure in &self.figures {
            let limit = match figure.limit {
                Limit::AtMost(most) => format!("<= {most}"),
                Limit::AtLeast(least) => format!(">= {least}"),
            };
            let holds = if figure.holds { "yes" } else { "NO" };
            let value = format!("{:.3}", figure.value);
            table.push([figure.name.clone(), value, figure.unit.to_owned(), limit, holds.to_owned()]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::{Sheet, picture};

    #[test]
    fn every_limit_is_kept() {
        let sheet = Sheet::measure().unwrap();
        println!("{}", sheet.table().text());
        // What a capture costs can only be told on a machine that does nothing else.
        let wrong: Vec<_> =
            sheet.figures.iter().filter(|figure| !figure.holds && !figure.name.starts_with("capture")).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(sheet.alias.len(), 88);
        let picture = picture(&sheet);
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 2000);
    }
}
