//! Population and validation, beside the plain Python loop and its vectorised form in PyTorch.

use std::hint::black_box;

use super::{Plan, Row, frames, measure};
use melisma::snac::Config;
use melisma::snac::populate::{Populated, populate_into};

/// Frames, and the expected speedup over the plain loop.
const EXPECTED: [(usize, &str); 5] = [(1, "2-5x"), (4, "2-5x"), (7, "3-8x"), (8, "3-8x"), (28, "5-15x")];
/// Calls per measurement: a single call is too short for the clock.
const CALLS: usize = 1000;

pub(super) fn rows() -> Vec<Row> {
    EXPECTED.iter().map(|&(n_frames, _)| row(n_frames)).collect()
}

fn row(n_frames: usize) -> Row {
    let config = Config::snac_24khz();
    let frames = frames(&config, n_frames);
    let mut kept = Populated::default();
    let measured = measure(Plan::default(), || {
        for _ in 0..CALLS {
            populate_into(black_box(&frames), config.codebook_size as i32, &mut kept);
            black_box(&kept);
        }
    });
    let row = measured.seconds(&name(n_frames));
    Row { unit: "us".to_owned(), median: 1e6 * row.median / CALLS as f64, ..row }
}

/// Our speedup over the plain loop, beside that of the vectorised form. Empty without PyTorch.
pub(super) fn speedups(rows: &[Row]) -> Vec<Row> {
    EXPECTED.iter().filter_map(|(n_frames, expected)| speedup(rows, *n_frames, expected)).collect()
}

fn speedup(rows: &[Row], n_frames: usize, expected: &str) -> Option<Row> {
    let row = rows.iter().find(|row| row.name == name(n_frames))?;
    let looped = row.peers.iter().find(|peer| peer.name == "python loop")?.median;
    let gain = |median: f64| looped / median;
    let peers = row.peers.iter().filter(|peer| peer.name != "python loop");
    let peers = peers.map(|peer| super::Peer { name: peer.name.clone(), median: gain(peer.median) }).collect();
    let name = format!("snac/populate {n_frames} frames, over the loop (expected {expected})");
    Some(Row { name, unit: "x".to_owned(), median: gain(row.median), peers, ..row.clone() })
}

fn name(n_frames: usize) -> String {
    format!("snac/populate {n_frames} frames")
}

#[cfg(test)]
mod tests {
    use super::super::Peer;
    use super::*;

    #[test]
    fn speedups_need_the_loop() {
        let peer = |name: &str, median| Peer { name: name.to_owned(), median };
        let bare = Row::single(name(28), "us", 0.5);
        assert!(speedups(std::slice::from_ref(&bare)).is_empty());
        let row = Row { peers: vec![peer("python loop", 600.0), peer("torch vectorised", 60.0)], ..bare };
        let found = speedups(&[row]);
        assert_eq!((found.len(), found[0].median, found[0].unit.as_str()), (1, 1200.0, "x"));
        assert_eq!(found[0].peers, [peer("torch vectorised", 10.0)]);
        assert!(found[0].name.ends_with("(expected 5-15x)"));
    }
}
