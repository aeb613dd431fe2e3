//! Twice as many clients as the server admits: the accepted ones must not notice, and the others must
//! hear at once. They come back every second.

use std::sync::Arc;

use super::decode::{Load, load};
use super::host::Host;
use super::report::Report;
use super::script::{Script, Split};
use super::stream::Refused;
use super::subject::Subject;
use super::{BenchContext, Device, Result, Row, clients, live_time, quantiles};

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let mut rows = model_rows(context, &Subject::full_size(context.device)?)?;
    if let Device::Cpu(_) = context.device {
        rows.extend(builtin_rows(context)?);
    }
    Ok(rows)
}

/// Measures the built-in model alone.
pub(super) fn builtin_rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    model_rows(context, &Subject::builtin()?)
}

fn model_rows(context: BenchContext<'_>, subject: &Subject) -> Result<Vec<Row>> {
    let runtime = clients()?;
    let script = Arc::new(Script::new(subject, context, Split::Token, live_time()?)?);
    let host = Host::start(context, &subject.source)?;
    let n_clients = 2 * host.capacity()? as u32;
    let outcomes = load(&runtime, &host, &script, Load { n_clients, refused: Refused::ComesBack })?;
    let report = Report::new(&script, &outcomes);
    let name = format!("serve/overload/{}", subject.label);
    let mut rows = vec![report.accepted(&name), report.deadlines_kept(&name)];
    rows.extend(quantiles(&name, &report.latencies, &[("p50", 0.5), ("p99", 0.99)]));
    let refused = format!("{name}, refusal");
    rows.extend(quantiles(&refused, &report.refusals, &[("p50", 0.5), ("p99", 0.99), ("max", 1.0)]));
    Ok(rows)
}
