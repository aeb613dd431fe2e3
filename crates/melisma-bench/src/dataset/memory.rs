//! Peak memory of builds with few and with many files.

use std::time::Duration;

use melisma::Result;
use melisma::audio::{Clip, wav};
use melisma::dataset::{Options, Techniques};
use melisma::mel::Config;
use melisma::runtime::machine::peak_resident_bytes;

use super::corpus::{Corpus, Disk};
use super::{BenchContext, Row, run_with};

const FEW: usize = 2000;
const MANY: usize = 100_000;
/// Samples of a short file, at 22,050 Hz.
const SHORT: usize = 2205;

/// Measures the peak memory of the process in a build of few short files and in one of many.
pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let clip = Clip::mono(22_050, (0..SHORT).map(|i| (i as f32 * 0.1).sin() * 0.5).collect());
    let bytes = wav::encode(&clip, wav::SampleFormat::S16)?;
    let tenth = Duration::from_millis(100);
    let options = Options::new(Config::preset("builder")?, tenth)?;
    let mut rows = Vec::new();
    for n_files in [FEW, MANY] {
        let corpus = Corpus::of(n_files, Disk::Shared, |_| &bytes)?;
        // Resets the peak of the process; where the system cannot, the figures are upper bounds.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        run_with(context, &corpus, options.clone(), &Techniques::default())?;
        let peak_mib = peak_resident_bytes().unwrap_or(0) as f64 / f64::from(1 << 20);
        rows.push(Row::single(format!("dataset/peak memory, {n_files} short files"), "MiB", peak_mib));
    }
    Ok(rows)
}
