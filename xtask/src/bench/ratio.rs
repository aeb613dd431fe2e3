//! Our figures beside those of their peers from the same run.

use super::record::{Better, Row, direction};

/// Returns how many times better we are than a peer with this median: `None` if the figure has no
/// better direction.
pub fn ratio(row: &Row, peer: f64) -> Option<f64> {
    match direction(&row.unit)? {
        Better::Larger | Better::LargerShare => Some(row.median / peer),
        Better::Smaller => Some(peer / row.median),
        Better::Neither => None,
    }
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
    /// Returns 1 for unchanged, 0.9 for a loss of a tenth; a missing measurement counts as lost.
    pub fn factor(&self) -> f64 {
        self.now.map_or(0.0, |now| now / self.before)
    }
}

/// Returns the ratios to every peer of `before`.
pub fn changes<'a>(before: &'a [Row], now: &[Row]) -> Vec<Change<'a>> {
    let mut found = Vec::new();
    for old in before {
        let new = now.iter().find(|row| row.name == old.name);
        for peer in &old.peers {
            let measured = new.and_then(|row| Some((row, row.peers.iter().find(|other| other.name == peer.name)?)));
            let Some(before) = ratio(old, peer.median) else { continue };
            let now = measured.and_then(|(row, peer)| ratio(row, peer.median));
            found.push(Change { row: &old.name, peer: &peer.name, before, now });
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
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn rates_grow_and_times_shrink() {
        assert_eq!(ratio(&row("GFLOP/s", 200.0, 100.0), 100.0), Some(2.0));
        assert_eq!(ratio(&row("s", 1.0, 2.0), 2.0), Some(2.0));
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
    }

    #[test]
    fn what_is_not_measured_is_lost() {
        assert_eq!(changes(&[row("s", 1.0, 2.0)], &[])[0].factor(), 0.0);
    }
}
