//! The streams that a server finds it can keep up with, measured as it starts.

use melisma::ErrorKind;

use super::host::Host;
use super::subject::Subject;
use super::{BenchContext, Device, Error, Result, Row};

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let mut rows = vec![row(context, &Subject::full_size(context.device)?)?];
    if let Device::Cpu(_) = context.device {
        rows.extend(builtin_rows(context)?);
    }
    Ok(rows)
}

/// Measures the built-in model alone.
pub(super) fn builtin_rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    Ok(vec![row(context, &Subject::builtin()?)?])
}

/// Measures the capacity at this start, also where the server takes a cached one.
fn row(context: BenchContext<'_>, subject: &Subject) -> Result<Row> {
    let measured = Host::start(context, &subject.source)?.measured()?;
    let streams = measured["measured_streams"].as_f64();
    let streams = streams.ok_or_else(|| Error::new(ErrorKind::Check, "the status has no measured capacity"))?;
    let (n, spread) = (measured["rounds"].as_u64().unwrap_or(1), measured["error"].as_f64().unwrap_or(0.0));
    Ok(Row { n, spread, ..Row::single(format!("serve/capacity/{}", subject.label), "streams", streams) })
}
