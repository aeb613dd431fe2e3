//! The step `runtime`: settings and where they came from, memory, and where the time went so far.

use melisma::Result;
use melisma::runtime::memory::Space;
use melisma::runtime::table::escape;

use crate::session::Session;

pub fn run(session: &Session) -> Result<String> {
    let memory = &session.engine()?.memory;
    drop(memory.reserve(Space::Host, 1 << 20)?);
    let summary = memory.summary();
    let report = session.collector.report();
    let sort = session.config.profile_sort.value;
    let rows = usize::try_from(session.config.profile_rows.value).unwrap_or(usize::MAX);
    Ok([
        "<h3>Settings</h3>".to_owned(),
        session.config.table().html(),
        "<h3>Memory</h3>".to_owned(),
        summary.table().html(),
        "<h3>Time</h3>".to_owned(),
        report.table(sort, rows).html(),
        format!("<p>{}</p>", escape(report.footer(rows).trim_end())),
    ]
    .join("\n"))
}
