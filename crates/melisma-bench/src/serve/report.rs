//! What all clients of a run saw, as rows.

use std::time::Duration;

use super::script::Script;
use super::stream::Outcome;
use super::{Peer, Row, of_times, quantile, quantiles};

/// A player begins so long after the first audio arrives.
pub(crate) const BUFFER: Duration = Duration::from_millis(100);

/// The figures of one run of `/v1/decode`, in seconds.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// From the last token that a block needs to its arrival.
    pub(super) latencies: Vec<f64>,
    /// Differences between the latencies of neighbouring blocks.
    jitter: Vec<f64>,
    /// From a stream's first token to its first audio.
    first_audio: Vec<f64>,
    n_blocks: usize,
    n_in_time: usize,
    n_kept: usize,
    n_clients: usize,
    n_served: usize,
    pub(super) refusals: Vec<f64>,
}

impl Report {
    pub(super) fn new(script: &Script, outcomes: &[Outcome]) -> Self {
        let mut report = Self { n_clients: outcomes.len(), ..Self::default() };
        outcomes.iter().for_each(|outcome| report.add(script, outcome));
        report
    }

    fn add(&mut self, script: &Script, outcome: &Outcome) {
        self.refusals.extend(outcome.refusals.iter().map(Duration::as_secs_f64));
        let (Some(first), Some(first_token)) = (outcome.blocks.first(), outcome.first_token) else { return };
        self.n_served += 1;
        self.first_audio.push((first.at - first_token).as_secs_f64());
        let mut before = None;
        for block in &outcome.blocks {
            self.n_blocks += 1;
            let plays = first.at + BUFFER + script.time_of(block.position);
            self.n_in_time += usize::from(block.at <= plays && !block.has_gap());
            let latency = (block.at - outcome.sent[script.last_frame_of(block)]).as_secs_f64();
            // The tokens of the last two blocks come together, but the last one is due a frame later, as the
            // server schedules it.
            let n_periods = if block.is_last() { 2 } else { 1 };
            self.n_kept += usize::from(latency <= (script.period * n_periods).as_secs_f64());
            // The end of a stream is a step of its own.
            if !block.is_last() {
                self.jitter.extend(before.map(|before: f64| (latency - before).abs()));
                self.latencies.push(latency);
                before = Some(latency);
            }
        }
    }

    /// Returns the latency, jitter, time to first audio, audio that came in time, and accepted clients.
    pub(super) fn rows(&self, name: &str, floor: f64) -> Vec<Row> {
        let mut rows = vec![self.accepted(name)];
        if self.latencies.is_empty() {
            return rows;
        }
        let latency = quantiles(name, &self.latencies, &[("p50", 0.5), ("p99", 0.99), ("max", 1.0)]);
        rows.extend(latency.into_iter().map(|row| beside_floor(row, floor)));
        if !self.jitter.is_empty() {
            let jitter = self.jitter.iter().sum::<f64>() / self.jitter.len() as f64;
            let row = Row::single(format!("{name}, jitter"), "ms", 1e3 * jitter);
            rows.push(Row { n: self.jitter.len() as u64, ..row });
        }
        let first = of_times(self.first_audio.clone()).seconds(&format!("{name}, first audio"));
        rows.push(Row { unit: "ms".to_owned(), median: 1e3 * first.median, ..first });
        rows.extend([self.deadlines_kept(name), self.share(name, "in time for a player", self.n_in_time)]);
        rows
    }

    /// Counts blocks that arrived within a frame's time, and last blocks within that of two
    /// frames.
    pub(super) fn deadlines_kept(&self, name: &str) -> Row {
        self.share(name, "deadlines kept", self.n_kept)
    }

    pub(super) fn accepted(&self, name: &str) -> Row {
        let share = 100.0 * self.n_served as f64 / self.n_clients.max(1) as f64;
        Row { n: self.n_clients as u64, ..Row::single(format!("{name}, accepted"), "%", share) }
    }

    fn share(&self, name: &str, what: &str, n: usize) -> Row {
        let share = 100.0 * n as f64 / self.n_blocks.max(1) as f64;
        Row { n: self.n_blocks as u64, ..Row::single(format!("{name}, {what}"), "%", share) }
    }

    /// Returns the latency that one block in a hundred exceeds, in seconds.
    pub(super) fn p99(&self) -> f64 {
        if self.latencies.is_empty() { 0.0 } else { quantile(&self.latencies, 0.99) }
    }
}

/// Returns the row beside the least time that its work could take, in seconds.
fn beside_floor(mut row: Row, floor: f64) -> Row {
    row.peers.push(Peer { name: "one step and a round trip".to_owned(), median: 1e3 * floor });
    row
}

#[cfg(test)]
mod tests;
