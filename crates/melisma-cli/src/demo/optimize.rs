//! The step `optimize`: builds a decoder and finds its fastest engine on this machine.

use std::path::PathBuf;

use melisma::onnx::synthetic::{Snac, snac_decoder};
use melisma::optimize::cache::{Cache, Options};
use melisma::optimize::search::{Request, Requested, Requirements, Search};
use melisma::output::{self, Existing};
use melisma::text::html::escape;
use melisma::text::table::{Align, Table};
use melisma::text::{size, spaced};
use melisma::{Error, ErrorKind, Result};

use super::Chapter;
use super::page::{commands, facts};
use crate::optimize::worker;
use crate::session::Session;

const SIZES: Snac<'_> = Snac { latent_dim: 32, dim: 64, strides: &[4, 4, 2] };

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn run(session: &Session) -> Result<Chapter> {
    let folder = Folder(std::env::temp_dir().join(format!("melisma-demo-{}", std::process::id())));
    output::create_directory(&folder.0)?;
    let model = folder.0.join("decoder.onnx");
    output::write(&model, &snac_decoder(&SIZES, 1)?.to_bytes()?, Existing::Replace)?;
    // A separate cache, so that each demo shows both a search and a cache hit.
    let cache = Cache::open(Some(&folder.0), Options::new(u64::MAX));
    let budget = session.context()?.budget();
    let search = Search::with_cache(cache, &session.config, budget, worker()?);
    let requested = Requested::default().with_precision("fp32").with_tolerance(1e-3).with_engine("auto");
    let requirements = Requirements::new(&session.config, requested)?;
    let request = Request::new(model, requirements).with_inputs(vec!["z=1x32x64".parse()?]);
    let outcome = search.optimize(&request)?;
    if search.optimize(&request)?.miss.is_some() {
        return Err(Error::new(ErrorKind::Check, "optimize: the engine was not found again"));
    }
    let report = &outcome.report;
    let right = |name| (name, Align::Right);
    let mut table = Table::new([("candidate", Align::Left), right("p50"), right("peak memory"), right("max_abs")]);
    for measured in &report.candidates {
        let cells = match (&measured.outcome, &measured.refused) {
            (Some(outcome), None) => [
                format!("{:.2} ms", 1e3 * outcome.latency_seconds.p50),
                outcome.peak_bytes.map_or_else(|| "unknown".to_owned(), size::show),
                format!("{:.1e}", outcome.accuracy.max_abs),
            ],
            _ => ["-"; 3].map(str::to_owned),
        };
        table.push([measured.candidate.to_string()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    let shown = [
        format!(
            "<p>A decoder of {} was written as ONNX. The best engine for it on this machine is {}, measured against {} \
             others, cached, found again and checked.</p>\n",
            spaced(&size::show(report.model_bytes[0])),
            escape(&report.candidate.to_string()),
            report.candidates.len().saturating_sub(1)
        ),
        facts(&[
            (format!("{:.2} ms", 1e3 * report.latency_seconds.p50), "for each run"),
            (format!("{:.1e}", report.accuracy.max_abs), "largest difference from FP32"),
        ]),
        commands(&[
            "melisma optimize decoder.onnx --input z=1x32x64",
            "melisma run decoder.onnx --input z=z.npy -o out/",
        ]),
    ];
    Ok(Chapter {
        title: "A model, and its fastest engine here".to_owned(),
        shown: shown.concat(),
        folded: table.html(),
    })
}
