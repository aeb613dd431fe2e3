//! Rows of `melisma bench --json`: `{name, unit, median, spread, n, ceiling, peers[] {name, median}}`.

use super::key::{self, Better};
use anyhow::{Context, Result};
use serde_json::Value;

/// One of our figures, with those of its peers from the same run.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub unit: String,
    pub median: f64,
    pub spread: f64,
    pub ceiling: Option<f64>,
    /// Name and median.
    pub peers: Vec<(String, f64)>,
    better: Better,
}

impl Row {
    pub fn all(figures: &Value) -> Result<Vec<Self>> {
        figures["rows"].as_array().context("missing list `rows`")?.iter().map(Self::read).collect()
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
        let unit = text(value, "unit")?;
        Ok(Self {
            better: direction(&unit).with_context(|| format!("row `{name}`"))?,
            unit,
            median: number(value, "median")?,
            spread: number(value, "spread")?,
            ceiling: value["ceiling"].as_f64(),
            peers: peers.map(|peer| Ok((text(peer, "name")?, number(peer, "median")?))).collect::<Result<_>>()?,
            name,
        })
    }

    /// How many times better we are than a peer with this median: `None` if the figure has no
    /// better direction.
    pub fn ratio(&self, peer: f64) -> Option<f64> {
        match self.better {
            Better::Larger | Better::LargerShare => Some(self.median / peer),
            Better::Smaller => Some(peer / self.median),
            Better::Neither => None,
        }
    }
}

fn direction(unit: &str) -> Result<Better> {
    key::direction(unit).with_context(|| format!("unknown unit `{unit}`"))
}

/// The improvement from `old` to `new`, as `melisma bench compare` counts it.
pub fn gain(unit: &str, old: f64, new: f64) -> Result<f64> {
    Ok(key::gain(direction(unit)?, old, new))
}

/// The ratio to one peer of one row, in the record and now.
pub struct Change<'a> {
    pub row: &'a str,
    pub peer: &'a str,
    pub before: f64,
    /// `None` if the row or the peer was not measured this time.
    pub now: Option<f64>,
}

impl Change<'_> {
    /// 1 means unchanged, 0.9 a loss of a tenth; a missing measurement counts as lost.
    pub fn factor(&self) -> f64 {
        self.now.map_or(0.0, |now| now / self.before)
    }
}

/// The ratios to every peer of `before`.
pub fn changes<'a>(before: &'a [Row], now: &[Row]) -> Vec<Change<'a>> {
    let mut found = Vec::new();
    for old in before {
        let new = now.iter().find(|row| key::current(&row.name) == key::current(&old.name));
        for (peer, median) in &old.peers {
            let measured = new.and_then(|row| Some((row, row.peers.iter().find(|(name, _)| name == peer)?.1)));
            let Some(before) = old.ratio(*median) else { continue };
            let now = measured.and_then(|(row, median)| row.ratio(median));
            found.push(Change { row: &old.name, peer, before, now });
        }
    }
    found
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
        assert_eq!(row("GFLOP/s", 200.0, 100.0).ratio(100.0), Some(2.0));
        assert_eq!(row("s", 1.0, 2.0).ratio(2.0), Some(2.0));
    }

    #[test]
    fn a_slower_machine_is_no_loss_but_a_slower_ratio_is() {
        let before = [row("s", 1.0, 2.0)];
        assert_eq!(changes(&before, &[row("s", 2.0, 4.0)])[0].factor(), 1.0);
        assert_eq!(changes(&before, &[row("s", 2.0, 2.0)])[0].factor(), 0.5);
    }

    #[test]
    fn a_device_that_is_less_busy_is_no_loss() {
        assert!(changes(&[row("% busy", 90.0, 80.0)], &[row("% busy", 10.0, 80.0)]).is_empty());
        assert_eq!(gain("% busy", 90.0, 10.0).unwrap(), 0.0);
    }

    #[test]
    fn a_row_is_found_by_its_older_name() {
        let named = |name: &str| Row { name: name.into(), ..row("s", 1.0, 2.0) };
        let before = [named("dataset/seg_microbatch_segments by bytes")];
        assert_eq!(changes(&before, &[named("dataset/segments_per_buffer by bytes")])[0].factor(), 1.0);
    }

    #[test]
    fn what_is_not_measured_is_lost() {
        assert_eq!(changes(&[row("s", 1.0, 2.0)], &[])[0].factor(), 0.0);
    }

    #[test]
    fn an_unknown_unit_is_an_error_and_records_have_none() {
        assert!(direction("furlongs/s").is_err());
        let records = crate::tree::files(&crate::tree::root().join("bench/record")).unwrap();
        let json = records.iter().filter(|path| path.extension().is_some_and(|suffix| suffix == "json"));
        let figures = json.map(|path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap());
        let rows: usize =
            figures.filter(|value| value["rows"].is_array()).map(|value| Row::all(&value).unwrap().len()).sum();
        assert!(rows > 200, "{rows}");
    }

    #[test]
    fn a_row_without_its_keys_is_an_error() {
        let error = Row::all(&json!({ "rows": [{ "name": "matmul", "unit": "s" }] })).unwrap_err();
        assert!(error.to_string().contains("median"), "{error}");
    }
}
