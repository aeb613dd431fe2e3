//! Records of figures: `melisma bench` writes and compares them, and forecasts rest on them.
//! `cargo xtask bench` compiles this file too, because it does not depend on the library.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The rooms that can be measured.
pub const ROOMS: [&str; 9] = ["runtime", "snac", "mel", "dataset", "pack", "synth", "optimize", "serve", "speak"];

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What programs find the row by. Rows with the same id measure the same work in several ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The room and what was measured, e.g. `runtime/copy`, for people.
    #[serde(deserialize_with = "current_name")]
    pub name: String,
    /// The unit of all figures of the row; it also determines whether more is better.
    #[serde(deserialize_with = "known_unit")]
    pub unit: String,
    /// The median of `n` runs.
    pub median: f64,
    /// The interquartile range divided by the median.
    #[serde(default)]
    pub spread: f64,
    /// The number of runs.
    #[serde(default)]
    pub n: u64,
    /// The best this machine could do, measured in the same run.
    pub ceiling: Option<f64>,
    /// The same work in other programs, measured in the same run.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// The winner, if the row measures the best of several, such as the engine of an ONNX model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
}

/// Another program's figure for the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// The program.
    pub name: String,
    /// Its median, in the row's unit.
    pub median: f64,
}

/// All rows of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The machine, in words.
    pub machine: String,
    /// The device that was measured, `cpu` or `cuda:N`.
    #[serde(default)]
    pub device: String,
    /// The figures.
    pub rows: Vec<Row>,
    /// What is missing, in words: peers that are not installed on this machine.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The direction in which a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates and factors.
    Larger,
    /// Times and sizes.
    Smaller,
    /// Shares that should grow, such as deadlines met; they may be 0, and their change is in
    /// points.
    LargerShare,
    /// Figures that explain others: a device is less busy when its kernels become faster.
    Neither,
}

/// Every unit of a row.
pub const UNITS: [(&str, Better); 24] = [
    ("s", Better::Smaller),
    ("ms", Better::Smaller),
    ("us", Better::Smaller),
    ("ns", Better::Smaller),
    ("bytes", Better::Smaller),
    ("B", Better::Smaller),
    ("KiB", Better::Smaller),
    ("MiB", Better::Smaller),
    ("GiB", Better::Smaller),
    ("share", Better::Smaller),
    ("x", Better::Larger),
    ("GB/s", Better::Larger),
    ("MB/s", Better::Larger),
    ("GFLOP/s", Better::Larger),
    ("TFLOP/s", Better::Larger),
    ("M/s", Better::Larger),
    ("Mframes/s", Better::Larger),
    ("files/s", Better::Larger),
    ("tokens/s", Better::Larger),
    ("segments/s", Better::Larger),
    ("voice-s/s", Better::Larger),
    ("streams", Better::Larger),
    ("%", Better::LargerShare),
    ("% busy", Better::Neither),
];

/// Returns the direction in which figures in `unit` improve, if the unit is known.
pub fn direction(unit: &str) -> Option<Better> {
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, better)| *better)
}

/// Returns the improvement from `old` to `new`: 0.25 means a quarter more speed, a time divided by
/// 1.25, or 25 points of a share.
pub fn gain(better: Better, old: f64, new: f64) -> f64 {
    match better {
        Better::Larger => new / old - 1.0,
        Better::Smaller => old / new - 1.0,
        Better::LargerShare => (new - old) / 100.0,
        Better::Neither => 0.0,
    }
}

/// Parts of row names in older records, and their current names.
const RENAMED: [(&str, &str); 4] = [
    ("(seed: ", "(expected "),
    (": factor, the seed claims ", ": factor, expected "),
    ("seg_microbatch_segments", "segments_per_buffer"),
    ("num_mega_buffers", "buffers_in_flight"),
];

/// Returns the current name of a row from any record.
fn current_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(RENAMED.iter().fold(name, |name, (old, new)| name.replace(old, new)))
}

fn known_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let unit = String::deserialize(deserializer)?;
    match direction(&unit) {
        Some(_) => Ok(unit),
        None => Err(D::Error::custom(format!("unknown unit `{unit}`"))),
    }
}

/// Returns the value at `share` of the sorted `values`, of which there is at least one, interpolated linearly.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * place.fract()
}

/// Returns the median of `values`, of which there is at least one, and the interquartile range divided by it.
pub fn median_and_spread(values: &[f64]) -> (f64, f64) {
    let median = quantile(values, 0.5);
    // A clock that does not advance would give an infinite spread.
    (median, (quantile(values, 0.75) - quantile(values, 0.25)) / median.abs().max(1e-12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, unit: &str) -> serde_json::Result<Row> {
        serde_json::from_value(serde_json::json!({ "name": name, "unit": unit, "median": 1, "spread": 0, "n": 1 }))
    }

    #[test]
    fn older_names_become_current_ones() {
        for (old, new) in [
            ("populate 1 frames, over the loop (seed: 2-5x)", "populate 1 frames, over the loop (expected 2-5x)"),
            ("dataset/seg_microbatch_segments by bytes", "dataset/segments_per_buffer by bytes"),
            ("dataset/num_mega_buffers of 1", "dataset/buffers_in_flight of 1"),
        ] {
            assert_eq!(row(old, "x").unwrap().name, new);
        }
    }

    #[test]
    fn unknown_units_and_missing_figures_are_errors() {
        assert!(row("a", "furlongs/s").unwrap_err().to_string().starts_with("unknown unit `furlongs/s`"));
        let bare = serde_json::from_str::<Row>(r#"{"name": "matmul", "unit": "s"}"#).unwrap_err();
        assert!(bare.to_string().contains("median"), "{bare}");
    }

    #[test]
    fn the_spread_is_the_interquartile_range() {
        assert_eq!(median_and_spread(&[5.0, 1.0, 2.0, 4.0, 3.0]), (3.0, 2.0 / 3.0));
    }
}
