//! `melisma optimize`, and the process that measures a candidate for it.

use std::path::Path;

use melisma::optimize::Value;
use melisma::optimize::cache::{self, Cache};
use melisma::optimize::engine::{Engine, Port};
use melisma::optimize::onnx::Model;
use melisma::optimize::search::{Content, Given, Outcome, Request, Search, Spec, Wanted, Worker, work as measure};
use melisma::runtime::machine::free_bytes;
use melisma::runtime::{DeviceRequest, Policy, size};
use melisma::{Error, Result};
use serde_json::json;

use crate::args::OptimizeArgs;
use crate::session::{Session, print, read_text};

/// The largest description of a candidate.
const SPEC_BYTES: u64 = 16 << 20;

pub fn run(session: &Session, args: &OptimizeArgs) -> Result<()> {
    let _span = tracing::info_span!("optimize").entered();
    let request = request(session, args)?;
    let cache = open_cache(session);
    if let Some(note) = cache.note() {
        session.say(&format!("note: {note}"));
    }
    let say = |text: &str| session.say(text);
    let outcome = search(session, &cache, &say)?.optimize(&request)?;
    if let Some(unkept) = &outcome.entry.unkept {
        session.say(&format!("note: the engine is not kept: {}", unkept.reason));
    }
    let mut json = outcome.report.keys();
    let path = outcome.entry.unkept.is_none().then(|| outcome.entry.folder.display().to_string());
    json["cache"] = json!({ "key": outcome.key, "hit": outcome.miss.is_none(), "path": path, "reason": outcome.miss });
    let device = device(session, &outcome.report.candidate.engine);
    session.print(device, || text(args, &outcome), json)
}

/// A search with candidates in processes of this program.
pub fn search<'a>(session: &'a Session, cache: &'a Cache, say: &'a dyn Fn(&str)) -> Result<Search<'a>> {
    Ok(Search { config: &session.config, cache, worker: worker()?, free_bytes: free_bytes(), say })
}

/// A process of this program.
pub fn worker() -> Result<Worker> {
    let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
    Ok(Worker::Program(vec![program.into(), "optimize-worker".into()]))
}

pub fn open_cache(session: &Session) -> Cache {
    let options = cache::Options {
        limit_bytes: session.config.cache_limit.value.0,
        threads: session.config.threads.value.count(),
    };
    Cache::open(session.config.cache_dir.value.as_deref(), options)
}

/// The engine that `optimize` kept for this model with inputs of these shapes and default flags, if it did.
pub fn kept(session: &Session, path: &Path, model: &Model, values: &[Value]) -> Result<Option<Box<dyn Engine>>> {
    let cache = open_cache(session);
    if let Some(note) = cache.note() {
        session.say(&format!("note: {note}"));
    }
    let say = |text: &str| session.say(text);
    let search = search(session, &cache, &say)?;
    let ports = Port::inputs(model)?;
    let given = |(port, value): (&Port, &Value)| Given {
        name: port.name.clone(),
        content: Content::Shape(value.shape().to_vec()),
    };
    let open: Vec<Given> = ports.iter().zip(values).filter(|(port, _)| !port.is_fixed()).map(given).collect();
    let all: Vec<Given> = ports.iter().zip(values).map(given).collect();
    let mut sets = vec![open, all];
    sets.dedup();
    for inputs in sets {
        let request = Request {
            model: path.to_owned(),
            inputs,
            precision: Wanted::of(&Policy::new(&session.config)),
            tolerance: session.config.tolerance.value.value(),
            engine: None,
            calibrate: None,
        };
        if let Some((engine, _)) = search.find(&request)? {
            return Ok(Some(engine));
        }
    }
    Ok(None)
}

/// Measures one candidate and prints what was measured, for the search that started this process.
pub fn work(spec: &Path) -> Result<()> {
    let text = read_text(spec, SPEC_BYTES)?;
    let spec: Spec =
        serde_json::from_str(&text).map_err(|error| Error::invalid(format!("{}: {error}", spec.display())))?;
    // The other end is closed when the process that started this one is gone.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let done = measure(&spec)?;
    print(&serde_json::to_string(&done).map_err(|error| Error::invalid(error.to_string()))?)
}

fn request(session: &Session, args: &OptimizeArgs) -> Result<Request> {
    let tolerance = args.tolerance.unwrap_or(session.config.tolerance.value.value());
    if !(tolerance >= 0.0 && tolerance.is_finite()) {
        return Err(Error::invalid(format!("--tolerance: {tolerance} is not a tolerance"))
            .with_hint("write 0 or more, e.g. 1e-3"));
    }
    let precision = match &args.precision {
        Some(text) => text.parse()?,
        None => Wanted::of(&Policy::new(&session.config)),
    };
    let inputs = args.input.iter().map(|text| text.parse()).collect::<Result<Vec<Given>>>()?;
    let is_twice = |(index, given): &(usize, &Given)| inputs[..*index].iter().any(|other| other.name == given.name);
    if let Some((_, given)) = inputs.iter().enumerate().find(is_twice) {
        return Err(Error::invalid(format!("--input: `{}` is given twice", given.name)));
    }
    Ok(Request {
        model: args.model.clone(),
        inputs,
        precision,
        tolerance,
        engine: Some(args.engine.clone()).filter(|engine| engine != "auto"),
        calibrate: args.calibrate.clone(),
    })
}

/// The device that an engine works on.
pub fn device(session: &Session, engine: &str) -> String {
    match (engine, session.config.device.value) {
        ("onnxruntime-cuda" | "onnxruntime-tensorrt", DeviceRequest::Cuda(ordinal)) => format!("cuda:{ordinal}"),
        ("onnxruntime-cuda" | "onnxruntime-tensorrt", _) => "cuda:0".to_owned(),
        _ => "cpu".to_owned(),
    }
}

fn text(args: &OptimizeArgs, outcome: &Outcome) -> String {
    let mut text = format!("model     {}\n{}", args.model.display(), outcome.report.text());
    text += "\n";
    text += &match &outcome.miss {
        None => "cache     hit: found and checked\n".to_owned(),
        Some(reason) => format!("cache     miss: {reason}\n"),
    };
    match &outcome.entry.unkept {
        None => {
            let bytes: u64 = outcome.entry.manifest.files.values().map(|file| file.bytes).sum();
            text + &format!("engine    {} ({})\n", outcome.entry.folder.display(), size::show(bytes))
        }
        Some(_) => text,
    }
}
