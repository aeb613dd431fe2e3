//! Population and validation, beside the plain Python loop and its vectorised form in PyTorch; on a GPU also of frames
//! that are in its memory, from Rust and from Python.

use std::hint::black_box;

use melisma::Result;
use melisma::snac::Config;
use melisma::snac::populate::{Populated, populate_into};
use melisma_kernels::Tensor;
use melisma_kernels::layer::populate::{LEVEL_CODES, Output, plan};

use super::{Figures, Plan, Rig, Row, frames, measure};

/// Frames, and the expected speedup over the plain loop.
const EXPECTED: [(usize, &str); 5] = [(1, "2-5x"), (4, "2-5x"), (7, "3-8x"), (8, "3-8x"), (28, "5-15x")];
/// Calls per measurement: a single call is too short for the clock.
const CALLS: usize = 1000;
/// Frames of the rows on a device.
const ON_DEVICE: [usize; 4] = [1, 4, 8, 28];
/// The name of `snac.populate` among the figures of Python.
const OURS: &str = "melisma";

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

/// Measures population where frames, levels and flags stay in the memory of the device.
pub(super) fn device_rows(rig: &Rig) -> Result<Vec<Row>> {
    ON_DEVICE.iter().map(|&n_frames| device_row(rig, n_frames)).collect()
}

fn device_row(rig: &Rig, n_frames: usize) -> Result<Row> {
    let (queue, budget, config) = (rig.0.queue(), rig.0.budget(), Config::snac_24khz());
    let tensor = |values: &[i32]| Tensor::from_slice(budget, values, &[values.len()])?.to(queue, budget);
    let from = tensor(&frames(&config, n_frames))?;
    let level = |index: usize| tensor(&vec![0; n_frames * LEVEL_CODES[index]]);
    let (mut coarse, mut middle, mut fine) = (level(0)?, level(1)?, level(2)?);
    let (mut valid, plan) = (tensor(&[0; 3])?, plan(rig.0.device(), config.codebook_size as i32)?);
    let mut call = || -> Result<()> {
        let levels = [coarse.view_mut()?, middle.view_mut()?, fine.view_mut()?];
        plan.run(queue, from.view()?, Output { levels, valid: valid.view_mut()? })
    };
    let mut outcome = Ok(());
    let measured = measure(Plan::default(), || {
        outcome = (0..CALLS).try_for_each(|_| call()).and_then(|()| queue.synchronize());
    });
    outcome?;
    let row = measured.seconds(&format!("{}, in device memory", name(n_frames)));
    Ok(Row { unit: "us".to_owned(), median: 1e6 * row.median / CALLS as f64, ..row })
}

/// Returns the rows of `snac.populate` with tensors in the memory of the device, as Python measured
/// it; the peers are added with all others. Empty without PyTorch on a GPU or the package
/// `melisma`.
pub(super) fn python_rows(figures: &mut Figures) -> Vec<Row> {
    let row = |n_frames: usize| {
        let name = format!("{}, from Python in device memory", name(n_frames));
        let median = figures.get_mut(&name)?.remove(OURS)?;
        Some(Row::single(name, "us", median))
    };
    ON_DEVICE.into_iter().filter_map(row).collect()
}

/// Returns our speedup over the plain loop, beside that of the vectorised form. Empty without PyTorch.
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
    fn frames_are_populated_where_they_are() {
        let rig = Rig::new(&melisma_kernels::Device::cpu().unwrap()).unwrap();
        let row = device_row(&rig, 4).unwrap();
        assert_eq!((row.name.as_str(), row.unit.as_str()), ("snac/populate 4 frames, in device memory", "us"));
        assert!(row.median > 0.0);
    }

    #[test]
    fn what_python_measured_is_a_row_beside_torch() {
        let name = "snac/populate 8 frames, from Python in device memory".to_owned();
        let measured = [("melisma", 90.0), ("torch vectorised", 300.0)].map(|(peer, us)| (peer.to_owned(), us));
        let mut figures = Figures::from([(name.clone(), measured.into())]);
        assert_eq!(python_rows(&mut figures), [Row::single(&name, "us", 90.0)]);
        assert_eq!(figures[&name].keys().collect::<Vec<_>>(), ["torch vectorised"]);
        assert!(python_rows(&mut Figures::new()).is_empty());
    }

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
