//! The table of spans.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::busy::Busy;
use super::collector::Aggregate;
use super::{Collector, Sort};
use crate::text::table::{Align, Table, one_line};
use crate::text::{duration, size};

/// All calls of one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The span's name.
    pub name: String,
    /// How many times it was entered.
    pub calls: u64,
    /// Time excluding inner spans.
    pub self_seconds: f64,
    /// Total time.
    pub total_seconds: f64,
    /// Median; percentiles are accurate to 0.8 %.
    pub p50_seconds: f64,
    /// 95th percentile.
    pub p95_seconds: f64,
    /// 99th percentile.
    pub p99_seconds: f64,
    /// Time on the device.
    pub device_seconds: f64,
    /// Bytes moved: the sum of the field `bytes`.
    pub bytes: u64,
    /// Bytes granted by the memory budget, excluding inner spans.
    pub allocated_bytes: u64,
}

/// How busy a device was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Load {
    /// `cpu`, or a GPU as `cuda:N`.
    pub device: String,
    /// Busy seconds: on the CPU, summed over all threads and child processes; on a GPU, the time in
    /// which anything ran.
    pub busy_seconds: f64,
    /// The maximum parallelism: the number of CPU threads, or 1 for a GPU.
    pub threads: usize,
    /// The busy share of the wall time, per thread in `threads`.
    pub share: f64,
    /// Whether spans were lost, so that the figures are lower bounds.
    pub is_partial: bool,
}

/// The results of a [`Collector`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// One row per name, in order of names.
    pub rows: Vec<Row>,
    /// Seconds since the collector was created.
    pub wall_seconds: f64,
    /// The CPU first, then every timed GPU.
    pub loads: Vec<Load>,
    /// Calls that are counted here but missing from the file.
    pub dropped: u64,
    /// Device spans that are missing both here and from the file.
    pub lost_device: u64,
    /// Spans of callers that are still open and therefore missing here.
    pub open_spans: Vec<String>,
}

impl Collector {
    /// Returns the results so far.
    pub fn report(&self) -> Report {
        self.look_at_devices();
        let wall_seconds = self.now() as f64 / 1e9;
        let mut aggregates: BTreeMap<String, Aggregate> = BTreeMap::new();
        self.each_shard(|shard| {
            for (name, part) in &shard.aggregates {
                let whole = aggregates.entry(name.clone().into_owned()).or_default();
                whole.calls += part.calls;
                whole.own += part.own;
                whole.total += part.total;
                whole.bytes = whole.bytes.saturating_add(part.bytes);
                whole.allocated = whole.allocated.saturating_add(part.allocated);
                whole.times.merge(&part.times);
            }
        });
        let lanes = self.0.lanes.lock();
        let mut device_times: BTreeMap<&str, u64> = BTreeMap::new();
        let cpu = Load::new("cpu", self.cpu_seconds(), self.threads(), wall_seconds);
        let mut loads = vec![cpu];
        for (device, spans) in lanes.iter() {
            let mut busy = Busy::default();
            for span in spans {
                busy.add(span.start, span.start.saturating_add(span.elapsed));
                *device_times.entry(span.name).or_default() += span.elapsed;
                aggregates.entry(span.name.to_owned()).or_default();
            }
            let load = Load::new(device, busy.covered() as f64 / 1e9, 1, wall_seconds);
            loads.push(Load { is_partial: busy.is_partial() || self.lost_device() > 0, ..load });
        }
        let device_time = |name: &str| device_times.get(name).copied().unwrap_or(0) as f64 / 1e9;
        Report {
            rows: aggregates.iter().map(|(name, all)| row(name, all, device_time(name))).collect(),
            wall_seconds,
            loads,
            dropped: self.dropped(),
            lost_device: self.lost_device(),
            open_spans: self.open_spans(),
        }
    }
}

fn row(name: &str, all: &Aggregate, device_seconds: f64) -> Row {
    let percentile = |share| all.times.percentile(share) as f64 / 1e9;
    Row {
        name: name.to_owned(),
        calls: all.calls,
        self_seconds: all.own as f64 / 1e9,
        total_seconds: all.total as f64 / 1e9,
        p50_seconds: percentile(0.5),
        p95_seconds: percentile(0.95),
        p99_seconds: percentile(0.99),
        device_seconds,
        bytes: all.bytes,
        allocated_bytes: all.allocated,
    }
}

impl Load {
    fn new(device: &str, busy_seconds: f64, threads: usize, wall_seconds: f64) -> Self {
        let whole = wall_seconds * threads as f64;
        let share = if whole > 0.0 { (busy_seconds / whole).min(1.0) } else { 0.0 };
        Self { device: device.to_owned(), busy_seconds, threads, share, is_partial: false }
    }

    fn line(&self, wall: &str) -> String {
        let bound = if self.is_partial { "at least " } else { "" };
        let threads = match self.threads {
            1 => String::new(),
            threads => format!("{threads} threads "),
        };
        format!("{}: {threads}busy {bound}{:.1} % of {wall}\n", self.device, 100.0 * self.share)
    }
}

impl Report {
    /// Returns the first `limit` rows in the order of `sort`.
    pub fn sorted(&self, sort: Sort, limit: usize) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let largest = |figure: fn(&Row) -> f64| move |a: &&Row, b: &&Row| figure(b).total_cmp(&figure(a));
        // The sort is stable and the rows are in order of names, so ties are too.
        match sort {
            Sort::Name => {}
            Sort::SelfTime => rows.sort_by(largest(|row| row.self_seconds)),
            Sort::Total => rows.sort_by(largest(|row| row.total_seconds)),
            Sort::P99 => rows.sort_by(largest(|row| row.p99_seconds)),
            Sort::Device => rows.sort_by(largest(|row| row.device_seconds)),
            Sort::Calls => rows.sort_by_key(|row| std::cmp::Reverse(row.calls)),
            Sort::Bytes => rows.sort_by_key(|row| std::cmp::Reverse(row.bytes)),
            Sort::Allocated => rows.sort_by_key(|row| std::cmp::Reverse(row.allocated_bytes)),
        }
        rows.truncate(limit);
        rows
    }

    /// Returns the table alone.
    #[doc(hidden)]
    pub fn table(&self, sort: Sort, limit: usize) -> Table {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("name", Align::Left),
            right("calls"),
            right("self"),
            right("total"),
            right("p50"),
            right("p95"),
            right("p99"),
            right("device"),
            right("bytes"),
            right("allocated"),
        ]);
        let time = |seconds: f64| duration::show(Duration::from_secs_f64(seconds.max(0.0)));
        for row in self.sorted(sort, limit) {
            let times = [row.self_seconds, row.total_seconds, row.p50_seconds, row.p95_seconds, row.p99_seconds];
            let mut cells = vec![row.name.clone(), row.calls.to_string()];
            cells.extend(times.map(time));
            cells.extend([time(row.device_seconds), size::show(row.bytes), size::show(row.allocated_bytes)]);
            table.push(cells);
        }
        table
    }

    /// Returns the lines below the table.
    pub fn footer(&self, limit: usize) -> String {
        let mut text = String::new();
        if self.rows.len() > limit {
            text += &format!("{} of {} rows shown\n", limit, self.rows.len());
        }
        if self.dropped > 0 {
            text += &format!("{} calls are counted here but not in the trace file\n", self.dropped);
        }
        if self.lost_device > 0 {
            text +=
                &format!("{} device spans were too many to store: device times are lower bounds\n", self.lost_device);
        }
        if !self.open_spans.is_empty() {
            let names = one_line(&self.open_spans.join(", "));
            text += &format!("spans that were not closed, and are not counted: {names}\n");
        }
        let wall = duration::show(Duration::from_secs_f64(self.wall_seconds));
        text + &self.loads.iter().map(|load| load.line(&wall)).collect::<String>()
    }

    /// Returns the table with its footer.
    pub fn text(&self, sort: Sort, limit: usize) -> String {
        self.table(sort, limit).text() + &self.footer(limit)
    }

    /// Returns the same figures as a JSON object.
    pub fn json(&self, sort: Sort, limit: usize) -> Value {
        json!({
            "rows": self.sorted(sort, limit),
            "wall_seconds": self.wall_seconds,
            "loads": self.loads,
            "dropped_spans": self.dropped,
            "lost_device_spans": self.lost_device,
            "open_spans": self.open_spans,
        })
    }
}
