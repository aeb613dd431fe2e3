//! Progress bars on stderr.

use indicatif::{ProgressBar, ProgressStyle};

use crate::session::Session;

/// Returns a bar over `total`, or a spinner with a clock if the total is unknown; hidden without an
/// audience.
pub fn bar(session: &Session, total: Option<u64>) -> ProgressBar {
    if !session.has_audience() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{bar:30} {percent:>3} % {msg}  {eta} left"),
        None => (ProgressBar::no_length(), "{spinner} {elapsed} {msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
