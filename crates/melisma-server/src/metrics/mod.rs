//! Counters and histograms of the server, in Prometheus' text format and for the status page.

mod histogram;
mod queue;
pub(crate) mod speaker;
mod stages;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use melisma::lock::Mutex;
use serde_json::{Map, Value, json};

use crate::event::Field;
use crate::http::failure::Failure;
use histogram::{ANSWERS, Histogram, SECONDS, STREAMS};
pub use queue::{QueueMetrics, QueueWait};
pub use speaker::SpeakerMetrics;
pub use stages::Stages;

/// A part of the way from a client's data to the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Bytes to checked frames.
    Validation,
    /// Frames of many streams to one step's input.
    Population,
    /// The step on the device.
    Decode,
    /// Samples from the engine to the streams.
    Copy,
    /// Samples to the client's connection.
    Send,
    /// A step of the encoder.
    Encode,
}

impl Stage {
    const ALL: [Self; 6] = [Self::Validation, Self::Population, Self::Decode, Self::Copy, Self::Send, Self::Encode];

    fn name(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Population => "population",
            Self::Decode => "decode",
            Self::Copy => "copy",
            Self::Send => "send",
            Self::Encode => "encode",
        }
    }

    /// Returns the field of its time in the event `chunk`, which tells of a step of a decoder.
    fn field(self) -> Option<Field> {
        match self {
            Self::Population => Some(Field::PopulationMs),
            Self::Decode => Some(Field::DecodeMs),
            Self::Copy => Some(Field::CopyMs),
            Self::Validation | Self::Send | Self::Encode => None,
        }
    }
}

/// A value that is read when the metrics are written.
#[derive(Debug, Clone, Copy)]
pub struct Gauge {
    /// Its name, without `melisma_`.
    pub name: &'static str,
    /// Its help text.
    pub help: &'static str,
    /// Its value.
    pub value: f64,
}

/// All counters of a server.
#[derive(Debug)]
pub struct Metrics {
    stages: [Histogram; 6],
    first_audio: Histogram,
    late: Histogram,
    batch: Histogram,
    missed: AtomicU64,
    /// Milliseconds of audio sent.
    audio_ms: AtomicU64,
    /// By route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Time from the head of a request to the end of its answer, by route.
    request_seconds: Mutex<BTreeMap<&'static str, Histogram>>,
    /// Streams that the server ended, by reason.
    dropped: Mutex<BTreeMap<&'static str, u64>>,
    /// Requests that got an error instead of an answer, by code.
    refused: Mutex<BTreeMap<&'static str, u64>>,
    dropped_events: AtomicU64,
    first_token: Histogram,
    /// Inputs that the upstream spoke, by how they ended.
    upstream: Mutex<BTreeMap<&'static str, u64>>,
    /// Requests that waited for a free stream.
    pub queue: QueueMetrics,
    open_streams: AtomicUsize,
    reload_failures: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            stages: Stage::ALL.map(|_| Histogram::new(SECONDS)),
            first_audio: Histogram::new(SECONDS),
            late: Histogram::new(SECONDS),
            batch: Histogram::new(STREAMS),
            missed: AtomicU64::new(0),
            audio_ms: AtomicU64::new(0),
            requests: Mutex::default(),
            request_seconds: Mutex::default(),
            dropped: Mutex::default(),
            refused: Mutex::default(),
            dropped_events: AtomicU64::new(0),
            first_token: Histogram::new(SECONDS),
            upstream: Mutex::default(),
            queue: QueueMetrics::default(),
            open_streams: AtomicUsize::new(0),
            reload_failures: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// Adds the time that a stage took.
    pub fn stage(&self, stage: Stage, time: Duration) {
        self.stages[stage as usize].add(time.as_secs_f64());
    }

    /// Adds the time from a request to its first audio.
    pub fn first_audio(&self, time: Duration) {
        self.first_audio.add(time.as_secs_f64());
    }

    /// Adds the lateness of a block of music.
    pub fn late(&self, due: Instant) {
        self.late.add(due.elapsed().as_secs_f64());
    }

    /// Adds the number of streams of a step.
    pub fn batch(&self, n_streams: usize) {
        self.batch.add(n_streams as f64);
    }

    /// Counts frames whose samples came late.
    pub fn missed(&self, n_frames: u64) {
        self.missed.fetch_add(n_frames, Relaxed);
    }

    /// Counts audio that was sent.
    pub fn audio(&self, time: Duration) {
        self.audio_ms.fetch_add(time.as_millis() as u64, Relaxed);
    }

    /// Counts an answered request.
    pub fn request(&self, route: &'static str, status: u16) {
        *self.requests.lock().entry((route, status)).or_default() += 1;
    }

    /// Adds the time from the head of a request to the end of its answer.
    pub fn request_seconds(&self, route: &'static str, seconds: f64) {
        self.request_seconds.lock().entry(route).or_insert_with(|| Histogram::new(ANSWERS)).add(seconds);
    }

    /// Counts a stream that the server ended.
    pub fn dropped(&self, reason: &'static str) {
        *self.dropped.lock().entry(reason).or_default() += 1;
    }

    /// Counts a request that got an error. The answer that asks for a WebSocket does not count.
    pub fn refused(&self, failure: &Failure) {
        if failure.status != StatusCode::UPGRADE_REQUIRED {
            *self.refused.lock().entry(failure.code()).or_default() += 1;
        }
    }

    /// Counts an event that was dropped because the queue was full.
    pub fn dropped_event(&self) {
        self.dropped_events.fetch_add(1, Relaxed);
    }

    /// Adds the time from a request for speech to the upstream's first token.
    pub fn first_token(&self, time: Duration) {
        self.first_token.add(time.as_secs_f64());
    }

    /// Counts an input that the upstream spoke, or failed to.
    pub fn upstream(&self, outcome: &'static str) {
        *self.upstream.lock().entry(outcome).or_default() += 1;
    }

    /// Counts keys or voices that could not be read again.
    pub fn reload_failed(&self) {
        self.reload_failures.fetch_add(1, Relaxed);
    }

    /// Counts a stream of any kind that opens.
    pub fn stream_opened(&self) {
        self.open_streams.fetch_add(1, Relaxed);
    }

    /// Counts a stream that ends.
    pub fn stream_ended(&self) {
        self.open_streams.fetch_sub(1, Relaxed);
    }

    /// Returns the open streams of all kinds.
    pub fn open_streams(&self) -> usize {
        self.open_streams.load(Relaxed)
    }

    /// Returns the median number of streams per step.
    pub fn batch_size(&self) -> Option<f64> {
        // The first bucket holds steps of one stream; a line from zero would give half a stream.
        self.batch.quantile(0.5).map(|n_streams| n_streams.max(1.0))
    }

    /// Returns `{NAME: {"p50_seconds", "p99_seconds"}}` for each stage.
    pub fn stages_json(&self) -> Value {
        let one = |stage: Stage| {
            let [p50, p99] = [0.5, 0.99].map(|share| self.stages[stage as usize].quantile(share));
            (stage.name().to_owned(), json!({"p50_seconds": p50, "p99_seconds": p99}))
        };
        Value::Object(Stage::ALL.into_iter().map(one).collect::<Map<_, _>>())
    }

    /// Returns `{CODE: N}` for each code of an error that requests got.
    pub fn refusals_json(&self) -> Value {
        json!(*self.refused.lock())
    }

    /// Returns how many frames came late.
    pub fn missed_frames(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Writes Prometheus' text format.
    pub fn text(&self, gauges: &[Gauge]) -> String {
        let mut text = String::new();
        for gauge in gauges {
            head(&mut text, gauge.name, "gauge", gauge.help);
            let _ = writeln!(text, "melisma_{} {}", gauge.name, gauge.value);
        }
        let help = "Time in each stage; traces call the first two tensor_validation and tensor_population.";
        head(&mut text, "stage_seconds", "histogram", help);
        for stage in Stage::ALL {
            let label = format!("stage=\"{}\"", stage.name());
            self.stages[stage as usize].write("melisma_stage_seconds", &label, &mut text);
        }
        head(&mut text, "first_audio_seconds", "histogram", "Time from a request to its first audio.");
        self.first_audio.write("melisma_first_audio_seconds", "", &mut text);
        head(&mut text, "synth_lateness_seconds", "histogram", "Delay of blocks of music after they were due.");
        self.late.write("melisma_synth_lateness_seconds", "", &mut text);
        head(&mut text, "batch_streams", "histogram", "Streams that shared a step.");
        self.batch.write("melisma_batch_streams", "", &mut text);
        head(&mut text, "missed_deadlines_total", "counter", "Frames whose samples came late.");
        let _ = writeln!(text, "melisma_missed_deadlines_total {}", self.missed_frames());
        head(&mut text, "audio_seconds_total", "counter", "Audio sent to clients.");
        let _ = writeln!(text, "melisma_audio_seconds_total {}", self.audio_ms.load(Relaxed) as f64 / 1e3);
        head(&mut text, "requests_total", "counter", "Requests by route and status.");
        for ((route, status), n) in &*self.requests.lock() {
            let _ = writeln!(text, "melisma_requests_total{{route=\"{route}\",status=\"{status}\"}} {n}");
        }
        let help = "Time from a request to the end of its answer, by route.";
        head(&mut text, "request_seconds", "histogram", help);
        for (route, seconds) in &*self.request_seconds.lock() {
            seconds.write("melisma_request_seconds", &format!("route=\"{route}\""), &mut text);
        }
        head(&mut text, "dropped_streams_total", "counter", "Streams that the server ended, by reason.");
        for (reason, n) in &*self.dropped.lock() {
            let _ = writeln!(text, "melisma_dropped_streams_total{{reason=\"{reason}\"}} {n}");
        }
        head(&mut text, "refused_requests_total", "counter", "Requests that got an error, by its code.");
        for (code, n) in &*self.refused.lock() {
            let _ = writeln!(text, "melisma_refused_requests_total{{code=\"{code}\"}} {n}");
        }
        head(&mut text, "dropped_events_total", "counter", "Events that were dropped because nobody read them.");
        let _ = writeln!(text, "melisma_dropped_events_total {}", self.dropped_events.load(Relaxed));
        head(&mut text, "reload_failures_total", "counter", "Keys or voices that could not be read again.");
        let _ = writeln!(text, "melisma_reload_failures_total {}", self.reload_failures.load(Relaxed));
        let help = "Time from a request for speech to the upstream's first token.";
        head(&mut text, "upstream_first_token_seconds", "histogram", help);
        self.first_token.write("melisma_upstream_first_token_seconds", "", &mut text);
        head(&mut text, "upstream_requests_total", "counter", "Inputs that the upstream was given, by outcome.");
        for (outcome, n) in &*self.upstream.lock() {
            let _ = writeln!(text, "melisma_upstream_requests_total{{outcome=\"{outcome}\"}} {n}");
        }
        self.queue.write(&mut text);
        text
    }
}

/// Writes a metric, its name, type and help, with a row for each of some labels such as `key="ann"`.
pub fn rows(text: &mut String, [name, kind, help]: [&str; 3], rows: impl IntoIterator<Item = (String, u64)>) {
    head(text, name, kind, help);
    for (labels, value) in rows {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(text, "melisma_{name}{labels} {value}");
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP melisma_{name} {help}\n# TYPE melisma_{name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_one_stream_have_a_median_of_one() {
        let metrics = Metrics::default();
        assert_eq!(metrics.batch_size(), None);
        metrics.batch(1);
        assert_eq!(metrics.batch_size(), Some(1.0));
        (0..3).for_each(|_| metrics.batch(4));
        assert!(metrics.batch_size().is_some_and(|n_streams| (2.0..=4.0).contains(&n_streams)));
    }
}
