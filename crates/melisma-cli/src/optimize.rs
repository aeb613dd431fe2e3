//! `melisma optimize`, and the worker process that measures one candidate.

use std::path::Path;

use melisma::config::DeviceRequest;
use melisma::engine::EngineName;
use melisma::optimize::search::{self, Given, Message, Outcome, Request, Requested, Requirements, Search, Worker};
use melisma::runtime::device::Device;
use melisma::text::size;
use melisma::{Error, Result};

use crate::args::{OptimizeArgs, RequirementArgs};
use crate::session::Session;
use crate::terminal;

pub fn run(session: &Session, args: &OptimizeArgs) -> Result<()> {
    let _span = tracing::info_span!("optimize").entered();
    let request = request(session, args)?;
    let outcome = with_search(session, |search| search.optimize(&request))?;
    let device = device(session, outcome.report.candidate.engine);
    session.print(device, || text(args, &outcome), outcome.keys())
}

/// Calls `work` with the search that the settings describe. Models are held in host memory.
pub fn with_search<R>(session: &Session, work: impl FnOnce(Search<'_>) -> Result<R>) -> Result<R> {
    let cpu = Device::cpu()?;
    let say = |message: &Message| session.say(&message.to_string());
    work(Search::new(&session.config, session.memory(&cpu).budget(), worker()?, &say))
}

/// Measures candidates in child processes that run this program.
pub fn worker() -> Result<Worker> {
    Worker::this_program(&["optimize-worker"])
}

/// Measures one candidate for the search that started this process.
pub fn work(spec: &Path) -> Result<()> {
    search::serve(spec)
}

/// Returns the request that the flags describe.
pub fn requested(args: &RequirementArgs) -> Requested<'_> {
    Requested::default()
        .with_precision(args.precision.as_deref())
        .with_tolerance(args.tolerance)
        .with_engine(args.engine.as_str())
        .with_objective(args.objective.as_deref())
}

fn request(session: &Session, args: &OptimizeArgs) -> Result<Request> {
    let requirements = Requirements::new(&session.config, requested(&args.requirements))?;
    let inputs = args.input.iter().map(|text| text.parse()).collect::<Result<Vec<Given>>>()?;
    let is_twice = |(index, given): &(usize, &Given)| inputs[..*index].iter().any(|other| other.name == given.name);
    if let Some((_, given)) = inputs.iter().enumerate().find(is_twice) {
        return Err(
            Error::invalid(format!("--input: `{}` is given twice", given.name)).with_hint("leave one of them out")
        );
    }
    let request = Request::new(args.model.clone(), requirements).with_inputs(inputs);
    Ok(request.with_calibrate(args.calibrate.clone()).with_remeasure(args.remeasure))
}

/// Returns the device that an engine runs on.
pub fn device(session: &Session, engine: EngineName) -> String {
    match session.config.device.value {
        _ if !engine.is_on_gpu() => "cpu".to_owned(),
        DeviceRequest::Cuda(ordinal) => format!("cuda:{ordinal}"),
        _ => "cuda:0".to_owned(),
    }
}

fn text(args: &OptimizeArgs, outcome: &Outcome) -> String {
    let mut text = format!("model     {}\n{}", terminal::name(&args.model), outcome.report.text());
    text += "\n";
    text += &match &outcome.miss {
        None => "cache     hit\n".to_owned(),
        Some(miss) => format!("cache     miss: {miss}\n"),
    };
    if outcome.entry.uncached.is_none() {
        let bytes: u64 = outcome.entry.manifest.files.values().map(|file| file.bytes).sum();
        text += &format!("engine    {} ({})\n", terminal::name(&outcome.entry.folder), size::show(bytes));
    }
    text + &format!("answer    {}\n", outcome.report.answer())
}
