//! `melisma dataset plan`.

use std::time::Duration;

use melisma::text::{count, duration, size};
use melisma::{Error, Result};
use melisma_bench::forecast::{Forecast, Machine, Supply, Work};
use serde_json::json;

use super::HOST;
use crate::args::PlanArgs;
use crate::session::Session;

pub fn run(session: &Session, args: &PlanArgs) -> Result<()> {
    let bytes = |flag: &str, text: &Option<String>| {
        let parse = |text: &String| size::parse(text).map_err(|error| error.at(format!("--{flag}")));
        text.as_ref().map(parse).transpose()
    };
    let work = work(args, bytes("size", &args.size)?)?;
    let supply = Supply {
        input_bytes: bytes("input-bytes", &args.input_bytes)?,
        machines: args.machines,
        within: args.within.as_deref().map(duration::parse).transpose()?,
        network: positive("network", bytes("network", &args.network)?)?,
        storage: positive("storage", bytes("storage", &args.storage)?)?,
    };
    let machine = Machine::read(&args.machine)?;
    let forecast = Forecast::new(work, &machine, &supply)?;
    let json = json!({
        "job": work.name(),
        "machine": machine.name,
        "machines": forecast.machines,
        "seconds": forecast.seconds(),
        "build_seconds": forecast.build_seconds,
        "merge_seconds": forecast.merge_seconds,
        "limited_by": forecast.limit.name(),
        "input_bytes": forecast.input_bytes,
        "output_bytes": forecast.output_bytes,
        "storage_bytes": forecast.storage_bytes(),
        "network_bytes_per_second": forecast.network_rate(),
        "storage_bytes_per_second": forecast.storage_rate(),
        "figures": forecast.figures,
    });
    session.print(HOST, || text(work, &machine, &forecast), json)
}

fn work(args: &PlanArgs, size: Option<u64>) -> Result<Work> {
    match (args.job.as_str(), args.hours, size) {
        ("pack", None, Some(bytes)) => Ok(Work::Pack(bytes)),
        ("pack", ..) => Err(Error::invalid("--job pack needs --size").with_hint("give the bytes of the weights")),
        ("tokens", Some(hours), None) => Ok(Work::Tokens(hours)),
        (_, Some(hours), None) => Ok(Work::Mel(hours)),
        (job, ..) => Err(Error::invalid(format!("--job {job} needs --hours")).with_hint("--size is for --job pack")),
    }
}

fn positive(flag: &str, rate: Option<u64>) -> Result<Option<u64>> {
    match rate {
        Some(0) => {
            Err(Error::invalid(format!("--{flag} 0: must be more than 0")).with_hint("leave it out for no limit"))
        }
        rate => Ok(rate),
    }
}

fn text(work: Work, machine: &Machine, forecast: &Forecast) -> String {
    let merge = match forecast.merge_seconds {
        Some(seconds) => format!(", of which the merge {}", time(seconds)),
        None if matches!(work, Work::Pack(_)) => String::new(),
        None => ", without the merge, which the record does not have".to_owned(),
    };
    let at_most = if matches!(work, Work::Pack(_)) { "at most " } else { "" };
    let rate = |bytes: f64| format!("{}/s", size::show(bytes as u64));
    let figures: String = forecast.figures.iter().map(|figure| format!("  {figure}\n")).collect();
    format!(
        "{} like {}\n\
         time      {}{merge}\n\
         limit     {}\n\
         network   {} to and from each machine\n\
         storage   {} for all machines; {} of inputs, {at_most}{} of results, {} at once\n\
         measured:\n{figures}",
        count(forecast.machines, "machine"),
        machine.name,
        time(forecast.seconds()),
        forecast.limit.name(),
        rate(forecast.network_rate()),
        rate(forecast.storage_rate()),
        size::show(forecast.input_bytes),
        size::show(forecast.output_bytes),
        size::show(forecast.storage_bytes()),
    )
}

/// Returns the seconds in a unit that people plan in.
fn time(seconds: f64) -> String {
    match seconds {
        172_800.0.. => format!("{:.1} days", seconds / 86_400.0),
        7200.0.. => format!("{:.1} hours", seconds / 3600.0),
        120.0.. => format!("{:.1} minutes", seconds / 60.0),
        _ => duration::show(Duration::from_secs_f64(seconds)),
    }
}
