//! The runtime and the kernels together: spans of real kernels, scopes of real pools, limits that hold.

use melisma::config::{Config, Environment, Sources};
use melisma::runtime::Pool;
use melisma::runtime::device::{self, DeviceRequest};
use melisma::runtime::memory::{self, MemoryTracker, Space};
use melisma::trace::{Collector, Sort};
use melisma::{ErrorKind, convert, snac};
use tracing_subscriber::layer::SubscriberExt;

fn config<const N: usize>(variables: [(&str, &str); N]) -> Config {
    Config::load(&Sources::default().with_environment(Environment::of(variables))).unwrap()
}

#[test]
fn kernels_show_up_in_the_table_and_the_file() {
    let config = config([("MELISMA_DEVICE", "cpu"), ("MELISMA_THREADS", "1")]);
    let device = device::select(config.device.value, config.threads.value).unwrap();
    let tracker = MemoryTracker::new(memory::budget(config.memory_limit.value, &device));
    let queue = device.queue(tracker.budget()).unwrap();
    let collector = Collector::new();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(collector.clone()), || {
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
    let device = device::select(DeviceRequest::Cpu, melisma::config::Threads::Count(1)).unwrap();
    let budget = melisma::Budget::unlimited();
    let model = snac::Model::mini24().unwrap();
    let collector = Collector::new();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(collector.clone()), || {
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

#[test]
fn pools_stay_inside_the_configured_limit_and_scopes_see_them() {
    let config = config([("MELISMA_DEVICE", "cpu"), ("MELISMA_MEMORY_LIMIT", "1MiB")]);
    let device = device::select(DeviceRequest::Cpu, config.threads.value).unwrap();
    let tracker = MemoryTracker::new(memory::budget(config.memory_limit.value, &device));
    let pool = Pool::host(tracker.budget());
    {
        let decode = tracker.scope("decode");
        let _small = pool.take(1000).unwrap();
        let _inner = decode.scope("upsample");
        let _large = pool.take(100_000).unwrap();
        let refused = pool.take(1 << 21).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Memory);
    }
    let scopes = tracker.scopes();
    assert!(scopes["decode"].peak[Space::Host as usize] >= 101_000);
    assert!(scopes["decode"].peak[Space::Host as usize] <= 1 << 20);
    assert!(scopes.contains_key("decode/upsample"));
}
