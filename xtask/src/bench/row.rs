//! Rows of `melisma bench --json`: `{name, unit, median, spread, n, ceiling, peers[] {name, median}}`.

use anyhow::{Context, Result};
use serde_json::Value;

/// One figure of ours, with those of its peers from the same run.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub unit: String,
    pub median: f64,
    pub spread: f64,
    pub ceiling: Option<f64>,
    /// Name and median.
    pub peers: Vec<(String, f64)>,
}

impl Row {
    pub fn all(figures: &Value) -> Result<Vec<Self>> {
        figures["rows"].as_array().context("there is no list `rows`")?.iter().map(Self::read).collect()
    }

    fn read(value: &Value) -> Result<Self> {
        let text = |value: &Value, key: &str| {
            value[key].as_str().map(str::to_string).with_context(|| format!("a row has no `{key}`: {value}"))
        };
        let name = text(value, "name")?;
        let number = |value: &Value, key: &str| {
            value[key].as_f64().with_context(|| format!("row `{name}` has no number `{key}`"))
        };
        let peers = value["peers"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        Ok(Self {
            unit: text(value, "unit")?,
            median: number(value, "median")?,
            spread: number(value, "spread")?,
            ceiling: value["ceiling"].as_f64(),
            peers: peers.map(|peer| Ok((text(peer, "name")?, number(peer, "median")?))).collect::<Result<_>>()?,
            name,
        })
    }

    /// How many times better we are than a peer with this median.
    pub fn ratio(&self, peer: f64) -> f64 {
        if self.more_is_better() { self.median / peer } else { peer / self.median }
    }

    /// Rates and factors should grow, times and sizes should shrink.
    fn more_is_better(&self) -> bool {
        self.unit.contains("/s")
            || self.unit.contains("per_second")
            || ["x", "%", "ratio"].contains(&self.unit.as_str())
    }
}

/// The ratio to one peer, before and now.
pub struct Change {
    pub peer: String,
    pub before: f64,
    pub now: f64,
}

impl Change {
    pub fn factor(&self) -> f64 {
        self.now / self.before
    }
}

/// The ratios to every peer that both rows have.
pub fn changes<'a>(before: &'a Row, now: &'a Row) -> impl Iterator<Item = Change> + 'a {
    now.peers.iter().filter_map(|(peer, median)| {
        let (_, old) = before.peers.iter().find(|(name, _)| name == peer)?;
        Some(Change { peer: peer.clone(), before: before.ratio(*old), now: now.ratio(*median) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(unit: &str, median: f64, peer: f64) -> Row {
        let row = json!({ "name": "matmul", "unit": unit, "median": median, "spread": 0.0, "n": 9, "ceiling": null,
            "peers": [{ "name": "numpy", "median": peer }] });
        Row::all(&json!({ "rows": [row] })).unwrap().remove(0)
    }

    #[test]
    fn rates_grow_and_times_shrink() {
        assert_eq!(row("GFLOP/s", 200.0, 100.0).ratio(100.0), 2.0);
        assert_eq!(row("s", 1.0, 2.0).ratio(2.0), 2.0);
    }

    #[test]
    fn a_slower_machine_is_no_loss_but_a_slower_ratio_is() {
        let before = row("s", 1.0, 2.0);
        assert_eq!(changes(&before, &row("s", 2.0, 4.0)).next().unwrap().factor(), 1.0);
        assert_eq!(changes(&before, &row("s", 2.0, 2.0)).next().unwrap().factor(), 0.5);
    }

    #[test]
    fn a_row_without_its_keys_is_an_error() {
        let error = Row::all(&json!({ "rows": [{ "name": "matmul", "unit": "s" }] })).unwrap_err();
        assert!(error.to_string().contains("median"), "{error}");
    }
}
