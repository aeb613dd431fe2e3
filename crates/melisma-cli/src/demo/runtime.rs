//! The step `runtime`: settings and where they came from, memory, and where the time went so far.

use melisma::Result;
use melisma::config::table;
use melisma::runtime::SelfCheck;
use melisma::text::html::escape;
use melisma::text::spaced;

use super::Chapter;
use super::folder::Folder;
use crate::session::Session;

pub fn run(session: &Session, _: &Folder) -> Result<Chapter> {
    let context = session.context()?;
    let check = SelfCheck::run(context.queue(), context.budget())?;
    let summary = context.memory().summary();
    let report = session.collector.report();
    let sort = session.settings.profile_sort.value;
    let rows = session.settings.rows();
    let folded = [
        format!(
            "<p>A product of {0} x {0} matrices is within {1:.1e} of its f64 value; {2} samples of 16 bits came back \
             unchanged from float.</p>",
            check.size, check.matmul_error, check.samples
        ),
        "<h3>Settings</h3>".to_owned(),
        table(session.entries()).html(),
        "<h3>Memory</h3>".to_owned(),
        summary.table().html(),
        "<h3>Time</h3>".to_owned(),
        report.table(sort, rows).html(),
        format!("<p>{}</p>", escape(&spaced(report.footer(rows).trim_end()))),
    ]
    .join("\n");
    Ok(Chapter { folded, ..Chapter::default() })
}
