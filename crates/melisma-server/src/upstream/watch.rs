//! Whether the upstream answers, asked every so often: for the log and a gauge.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Upstream;
use crate::log::{Level, Log};

/// The time between two questions.
const PERIOD: Duration = Duration::from_secs(10);

/// Asks for ever. Says so when the upstream does not answer, at the start or later, and when it does again.
pub(crate) async fn watch(upstream: Arc<Upstream>, log: Log) {
    let name = upstream.address.authority.clone();
    loop {
        let answered = upstream.probe().await;
        let before = upstream.is_up.lock().replace(answered.is_ok());
        match (before, answered) {
            (None | Some(true), Err(failure)) => {
                let why = failure.message();
                log.line(Level::Warn, &format!("warning: the upstream {name} does not answer, so speech fails: {why}"));
            }
            (Some(false), Ok(())) => log.line(Level::Info, &format!("the upstream {name} answers")),
            _ => {}
        }
        sleep(PERIOD).await;
    }
}
