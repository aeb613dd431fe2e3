//! The table of spans.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::busy::Busy;
use super::collector::{Aggregate, lock};
use super::{Collector, Sort};
use crate::runtime::table::{Align, Table};
use crate::runtime::{duration, size};

/// All calls of one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The span's name.
    pub name: String,
    /// How many times it was entered.
    pub calls: u64,
    /// Time outside of spans entered inside it.
    pub self_seconds: f64,
    /// All time.
    pub total_seconds: f64,
    /// Half of the calls took at most this; percentiles are within 0.8 %.
    pub p50_seconds: f64,
    /// 95 % of the calls took at most this.
    pub p95_seconds: f64,
    /// 99 % of the calls took at most this.
    pub p99_seconds: f64,
    /// Time on the device.
    pub device_seconds: f64,
    /// Sum of the field `bytes`.
    pub bytes: u64,
}

/// What a [`Collector`] has seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// One row per name, by name.
    pub rows: Vec<Row>,
    /// Seconds since the collector was made.
    pub wall_seconds: f64,
    /// Seconds in which the device worked: the union of device spans, or of kernels on the CPU when there are none.
    pub busy_seconds: f64,
    /// The devices that `busy_seconds` is about.
    pub devices: Vec<String>,
    /// Calls that are counted here but not in the file.
    pub dropped: u64,
    /// Device spans that are neither here nor in the file.
    pub lost_device: u64,
    is_partial: bool,
}

impl Collector {
    /// The figures so far.
    pub fn report(&self) -> Report {
        let wall_seconds = self.now() as f64 / 1e9;
        let mut aggregates: BTreeMap<String, Aggregate> = BTreeMap::new();
        let mut busy = Busy::default();
        self.each_shard(|shard| {
            for (name, part) in &shard.aggregates {
                let whole = aggregates.entry((*name).to_owned()).or_default();
                whole.calls += part.calls;
                whole.own += part.own;
                whole.total += part.total;
                whole.bytes = whole.bytes.saturating_add(part.bytes);
                whole.times.merge(&part.times);
            }
            busy.merge(&shard.busy);
        });
        let lanes = lock(&self.0.lanes);
        if !lanes.is_empty() {
            busy = Busy::default();
        }
        let mut device_times: BTreeMap<&str, u64> = BTreeMap::new();
        for span in lanes.values().flatten() {
            busy.add(span.start, span.start.saturating_add(span.elapsed));
            *device_times.entry(span.name).or_default() += span.elapsed;
            aggregates.entry(span.name.to_owned()).or_default();
        }
        let device_time = |name: &str| device_times.get(name).copied().unwrap_or(0) as f64 / 1e9;
        Report {
            rows: aggregates.iter().map(|(name, all)| row(name, all, device_time(name))).collect(),
            wall_seconds,
            busy_seconds: busy.covered() as f64 / 1e9,
            devices: if lanes.is_empty() { vec!["cpu".to_owned()] } else { lanes.keys().cloned().collect() },
            dropped: self.dropped(),
            lost_device: self.lost_device(),
            is_partial: busy.is_partial() || self.lost_device() > 0,
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
    }
}

impl Report {
    /// The first `limit` rows by `sort`.
    pub fn sorted(&self, sort: Sort, limit: usize) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let largest = |figure: fn(&Row) -> f64| move |a: &&Row, b: &&Row| figure(b).total_cmp(&figure(a));
        // The sort is stable and the rows are in order of their names, which is how ties stay.
        match sort {
            Sort::Name => {}
            Sort::SelfTime => rows.sort_by(largest(|row| row.self_seconds)),
            Sort::Total => rows.sort_by(largest(|row| row.total_seconds)),
            Sort::P99 => rows.sort_by(largest(|row| row.p99_seconds)),
            Sort::Device => rows.sort_by(largest(|row| row.device_seconds)),
            Sort::Calls => rows.sort_by_key(|row| std::cmp::Reverse(row.calls)),
            Sort::Bytes => rows.sort_by_key(|row| std::cmp::Reverse(row.bytes)),
        }
        rows.truncate(limit);
        rows
    }

    /// The share of the wall time in which the device worked.
    pub fn busy_share(&self) -> f64 {
        if self.wall_seconds > 0.0 { (self.busy_seconds / self.wall_seconds).min(1.0) } else { 0.0 }
    }

    /// The table alone.
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
        ]);
        let time = |seconds: f64| duration::show(Duration::from_secs_f64(seconds.max(0.0)));
        for row in self.sorted(sort, limit) {
            let times = [row.self_seconds, row.total_seconds, row.p50_seconds, row.p95_seconds, row.p99_seconds];
            let mut cells = vec![row.name.clone(), row.calls.to_string()];
            cells.extend(times.map(time));
            cells.extend([time(row.device_seconds), size::show(row.bytes)]);
            table.push(cells);
        }
        table
    }

    /// The lines under the table.
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
                &format!("{} device spans were too many to keep: device times are lower bounds\n", self.lost_device);
        }
        let bound = if self.is_partial { "at least " } else { "" };
        let wall = duration::show(Duration::from_secs_f64(self.wall_seconds));
        text + &format!("{} busy {bound}{:.1} % of {wall}\n", self.devices.join(", "), 100.0 * self.busy_share())
    }

    /// The table and what belongs under it.
    pub fn text(&self, sort: Sort, limit: usize) -> String {
        self.table(sort, limit).text() + &self.footer(limit)
    }

    /// The same figures as an object.
    pub fn json(&self, sort: Sort, limit: usize) -> Value {
        json!({
            "rows": self.sorted(sort, limit),
            "wall_seconds": self.wall_seconds,
            "busy_seconds": self.busy_seconds,
            "busy_share": self.busy_share(),
            "dropped_spans": self.dropped,
            "lost_device_spans": self.lost_device,
        })
    }
}
