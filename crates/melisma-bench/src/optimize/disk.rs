//! The cache: look-up and hashing.

use std::path::Path;

use melisma::Result;
use melisma::format::hash;
use melisma::optimize::cache::{Built, Cache, Found, Options, Parts};
use melisma::output::{self, failed};

use crate::{Plan, Row, measure};

const BYTES: usize = 512 << 20;

pub(super) fn rows(folder: &Path, threads: usize) -> Result<Vec<Row>> {
    Ok(vec![look_up(folder, threads)?, hashing(folder, threads)?])
}

/// Measures a cache hit among a hundred entries whose files are empty, so that nothing is hashed.
fn look_up(folder: &Path, threads: usize) -> Result<Row> {
    let cache = Cache::open(Some(&folder.join("many")), Options::new(u64::MAX).with_threads(threads));
    let parts = |index: usize| Parts::default().with("model", index).with("engine", "none");
    for index in 0..100 {
        cache.find_or_build(&parts(index), &mut |folder| {
            output::write(&folder.join("model.onnx"), b"", output::Existing::Replace)?;
            Ok(Built::new(serde_json::json!({}), Vec::new()))
        })?;
    }
    let measured = measure(Plan::default(), || {
        let _ = std::hint::black_box(matches!(cache.find(&parts(50)), Found::Hit(_)));
    });
    let mut row = measured.seconds("optimize/cache look-up");
    (row.median, row.unit) = (1e3 * row.median, "ms".to_owned());
    Ok(row)
}

fn hashing(folder: &Path, threads: usize) -> Result<Row> {
    let path = folder.join("large");
    let bytes: Vec<u8> =
        (0..BYTES / 8).flat_map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    std::fs::write(&path, &bytes).map_err(|error| failed(&path, error))?;
    drop(bytes);
    hash::file(&path, threads)?;
    let measured = measure(Plan { warm_up: 1, least: 5, ..Plan::default() }, || {
        let _ = std::hint::black_box(hash::file(&path, threads));
    });
    Ok(measured.rate("optimize/hashing", "GB/s", BYTES as f64 / 1e9))
}
