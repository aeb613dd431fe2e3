//! The step `optimize`: builds a decoder and finds its fastest engine on this machine.

use std::path::PathBuf;

use melisma::format::{Value, npy};
use melisma::onnx::synthetic::{Snac, snac_decoder};
use melisma::optimize::cache::{Cache, Options};
use melisma::optimize::search::{Request, Requested, Requirements, Search};
use melisma::output;
use melisma::random::Lcg32;
use melisma::text::html::escape;
use melisma::text::{size, spaced};
use melisma::{Error, ErrorKind, Result};

use super::folder::Folder;
use super::page::{commands, facts};
use super::{Chapter, in_words};
use crate::optimize::worker;
use crate::session::Session;

const SIZES: Snac<'_> = Snac { latent_dim: 32, dim: 64, strides: &[4, 4, 2] };

/// A temporary folder, removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn run(session: &Session, folder: &Folder) -> Result<Chapter> {
    let scratch = Scratch(std::env::temp_dir().join(format!("melisma-demo-{}", std::process::id())));
    output::create_directory(&scratch.0)?;
    let model = folder.write("decoder.onnx", &snac_decoder(&SIZES, 1)?.to_bytes()?)?;
    folder.write("z.npy", &npy::encode(&latents()?))?;
    // A separate cache, so that each demo shows both a search and a cache hit.
    let cache = Cache::open(Some(&scratch.0), Options::new(u64::MAX));
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
    let accuracy = match report.difference() {
        Some(difference) => (format!("{difference:.1e}"), "largest difference from another engine"),
        None => ("unknown".to_owned(), "difference from another engine: no other ran this model"),
    };
    let shown = [
        format!(
            "<p>A decoder of {} was written as ONNX. Of {} ways to run it on this machine, {} is the best; it was cached, and \
             checked when it was used again. Its speed: {}.</p>\n",
            spaced(&size::show(report.model_bytes[0])),
            report.candidates.len(),
            escape(&report.candidate.to_string()),
            escape(&report.answer())
        ),
        facts(&[(format!("{:.2} ms", 1e3 * report.latency_seconds.p50), "for a run, the median"), accuracy]),
        commands(&[
            "melisma optimize decoder.onnx --input z=1x32x64",
            "melisma run decoder.onnx --input z=z.npy -o out/",
        ]),
    ];
    Ok(Chapter {
        title: "A model, and its fastest engine here".to_owned(),
        device: Some(match report.candidate.engine.is_on_gpu() {
            true => in_words(session.context()?.device()),
            false => "the CPU".to_owned(),
        }),
        shown: shown.concat(),
        folded: report.candidate_table().html(),
    })
}

/// Returns an input of the decoder.
fn latents() -> Result<Value> {
    let mut random = Lcg32::new(1);
    let values: Vec<f32> = (0..32 * 64).map(|_| 2.0 * random.unit() - 1.0).collect();
    Value::from_slice(&values, &[1, 32, 64])
}
