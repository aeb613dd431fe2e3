//! Token counts of finished requests, for clients that cannot read trailers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use melisma::lock::Mutex;
use melisma::snac::tokens::Ledger;
use serde_json::{Value, json};

/// How long a report can be read.
const LIFETIME: Duration = Duration::from_secs(60);
/// The most reports; the oldest are dropped first.
const MAX_REPORTS: usize = 10_000;

/// The reports of the last minute.
#[derive(Debug, Default)]
pub struct TokenReports {
    entries: Mutex<VecDeque<Entry>>,
}

#[derive(Debug)]
struct Entry {
    written: Instant,
    id: Box<str>,
    report: TokenReport,
}

/// What became of a request's tokens. Ten thousand of these are small; as JSON they are megabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenReport {
    /// The tokens.
    pub ledger: Ledger,
    /// Samples sent.
    pub n_samples: u64,
}

impl TokenReports {
    /// Adds the report of the request `id`.
    pub fn insert(&self, id: &str, report: TokenReport) {
        let mut entries = self.entries.lock();
        let is_old = |entry: &Entry| entry.written.elapsed() > LIFETIME;
        while entries.len() >= MAX_REPORTS || entries.front().is_some_and(is_old) {
            entries.pop_front();
        }
        entries.push_back(Entry { written: Instant::now(), id: id.into(), report });
    }

    /// Returns the report of the request `id`.
    pub fn get(&self, id: &str) -> Option<TokenReport> {
        let entries = self.entries.lock();
        let entry = entries.iter().rev().find(|entry| *entry.id == *id);
        entry.filter(|entry| entry.written.elapsed() <= LIFETIME).map(|entry| entry.report)
    }
}

impl TokenReport {
    /// Returns the JSON that clients read.
    pub fn json(&self) -> Value {
        let Self { ledger, n_samples } = self;
        json!({
            "accepted": ledger.accepted,
            "rejected": ledger.rejected,
            "resyncs": ledger.resyncs,
            "frames": ledger.frames,
            "concealed_frames": ledger.concealed_frames,
            "dropped_frames": ledger.dropped_frames,
            "samples": n_samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_accounts_go_first() {
        let reports = TokenReports::default();
        let report = |n: usize| TokenReport { ledger: Ledger::default(), n_samples: n as u64 };
        (0..=MAX_REPORTS).for_each(|n| reports.insert(&n.to_string(), report(n)));
        assert_eq!(reports.get("0"), None);
        assert_eq!(reports.get("1"), Some(report(1)));
        assert_eq!(reports.get(&MAX_REPORTS.to_string()), Some(report(MAX_REPORTS)));
    }
}
