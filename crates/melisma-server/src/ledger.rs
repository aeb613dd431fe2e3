//! The accounts of finished requests, for clients that cannot read trailers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use melisma::lock::Mutex;
use melisma::snac::tokens::Ledger;
use serde_json::{Value, json};

/// How long an account can be read.
const LIFE: Duration = Duration::from_secs(60);
/// The most accounts; the oldest go first.
const MOST: usize = 10_000;

/// The accounts of the last minute.
#[derive(Debug, Default)]
pub struct Ledgers {
    entries: Mutex<VecDeque<Entry>>,
}

#[derive(Debug)]
struct Entry {
    written: Instant,
    id: Box<str>,
    account: Account,
}

/// What became of a request's tokens. Ten thousand of these are small; as JSON they are megabytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// The tokens.
    pub ledger: Ledger,
    /// Samples sent.
    pub n_samples: u64,
}

impl Ledgers {
    /// Adds the account of the request `id`.
    pub fn insert(&self, id: &str, account: Account) {
        let mut entries = self.entries.lock();
        let is_old = |entry: &Entry| entry.written.elapsed() > LIFE;
        while entries.len() >= MOST || entries.front().is_some_and(is_old) {
            entries.pop_front();
        }
        entries.push_back(Entry { written: Instant::now(), id: id.into(), account });
    }

    /// The account of the request `id`.
    pub fn get(&self, id: &str) -> Option<Account> {
        let entries = self.entries.lock();
        let entry = entries.iter().rev().find(|entry| *entry.id == *id);
        entry.filter(|entry| entry.written.elapsed() <= LIFE).map(|entry| entry.account)
    }
}

impl Account {
    /// As clients read it.
    pub fn show(&self) -> Value {
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
        let ledgers = Ledgers::default();
        let account = |n: usize| Account { ledger: Ledger::default(), n_samples: n as u64 };
        (0..=MOST).for_each(|n| ledgers.insert(&n.to_string(), account(n)));
        assert_eq!(ledgers.get("0"), None);
        assert_eq!(ledgers.get("1"), Some(account(1)));
        assert_eq!(ledgers.get(&MOST.to_string()), Some(account(MOST)));
    }
}
