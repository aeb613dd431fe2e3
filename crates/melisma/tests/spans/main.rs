//! Spans of real work. A program of its own, because `tracing` remembers for all threads what the first one to reach a
//! span wanted: work beside these tests, on a thread without a subscriber, would switch their spans off. So all that a
//! test does here happens under its subscriber.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

#[path = "../integration/gpu.rs"]
#[expect(dead_code, reason = "shared with the integration tests, which use the rest")]
mod gpu;
mod nvtx;

use melisma::config::Threads;
use melisma::runtime::device::{self, DeviceRequest};
use melisma::trace::{Collector, Sort};
use melisma::{Budget, convert, snac};
use tracing_subscriber::layer::SubscriberExt;

/// Runs `work` with its spans sent to `collector`.
fn collect(collector: &Collector, work: impl FnOnce()) {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(collector.clone()), work);
}

#[test]
fn kernels_show_up_in_the_table_and_the_file() {
    let collector = Collector::new();
    collect(&collector, || {
        let device = device::select(DeviceRequest::Cpu, Threads::Count(1)).unwrap();
        let queue = device.queue(&Budget::unlimited()).unwrap();
        let _outer = tracing::info_span!("job").entered();
        let from = vec![7i16; 1 << 16];
        let mut to = vec![0f32; 1 << 16];
        let plan = convert::plan::<i16, f32>(&device, from.len()).unwrap();
        for _ in 0..3 {
            plan.run(&queue, from[..].into(), to[..].as_mut().into()).unwrap();
        }
    });
    let report = collector.report();
    let job = report.rows.iter().find(|row| row.name == "job").unwrap();
    let convert = report.rows.iter().find(|row| row.name == "convert").unwrap();
    assert_eq!((convert.calls, convert.bytes), (3, 3 * 6 * (1 << 16)));
    assert!((job.total_seconds - job.self_seconds - convert.total_seconds).abs() < 1e-9);
    assert!(report.loads[0].busy_seconds > 0.0, "{:?}", report.loads);
    assert!(report.text(Sort::Bytes, 1).contains("convert"));
    let mut file = Vec::new();
    collector.write_chrome(&mut file).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let event = file["traceEvents"].as_array().unwrap().iter().find(|event| event["name"] == "convert").unwrap();
    assert!(event["args"]["shape"].is_string() && event["args"]["bytes"].is_u64(), "{event}");
}

/// Documents, dashboards and the metrics of the server know these names.
#[test]
fn the_stages_of_a_stream_of_tokens_have_their_names() {
    let collector = Collector::new();
    collect(&collector, || {
        let device = device::select(DeviceRequest::Cpu, Threads::Count(1)).unwrap();
        let budget = Budget::unlimited();
        let model = snac::Model::mini24().unwrap();
        let queue = device.queue(&budget).unwrap();
        let mut engine = snac::Engine::new(&model, &queue, &budget, snac::EngineOptions::new(1)).unwrap();
        let stream = engine.open(snac::Noise::Off).unwrap();
        let mut reader = snac::tokens::Reader::new(snac::tokens::Format::Ids, model.config()).unwrap();
        let ids: Vec<String> = (0..14).map(|slot| (128_266 + (slot % 7) * 4096).to_string()).collect();
        let codes = reader.push(format!("{} ", ids.join(" ")).as_bytes()).unwrap();
        assert_eq!(codes.frames().len(), 2);
        engine.push(stream, codes.frames()).unwrap();
    });
    let report = collector.report();
    // The engine makes a step of its own before the first frame.
    for (name, calls) in [("tensor_allocation", 1), ("tensor_validation", 1), ("tensor_population", 2)] {
        assert_eq!(report.rows.iter().find(|row| row.name == name).map(|row| row.calls), Some(calls), "{name}");
    }
}
