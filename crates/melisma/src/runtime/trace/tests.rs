use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tracing::info_span;
use tracing_subscriber::layer::SubscriberExt;

use super::*;

fn collect(collector: &Collector, work: impl FnOnce()) {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(collector.clone()), work);
}

fn nested_work() {
    let outer = info_span!("outer", shape = "2x3", bytes = 24u64, note = tracing::field::Empty).entered();
    sleep(Duration::from_millis(4));
    for _ in 0..3 {
        let _inner = info_span!("inner", bytes = 8).entered();
        sleep(Duration::from_millis(3));
    }
    outer.record("note", "late");
}

fn device_span(collector: &Collector, name: &'static str, milliseconds: u64) -> DeviceSpan {
    let start = collector.origin() + Duration::from_millis(1);
    DeviceSpan { name, start, duration: Duration::from_millis(milliseconds), bytes: 8 }
}

fn chrome(collector: &Collector) -> Vec<Value> {
    let mut text = Vec::new();
    collector.write_chrome(&mut text).unwrap();
    let whole: Value = serde_json::from_slice(&text).unwrap();
    whole["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn the_file_parses_and_its_spans_nest() {
    let collector = Collector::new();
    collect(&collector, nested_work);
    collector.add_device("cuda:0", [device_span(&collector, "inner", 2)]);
    let events = chrome(&collector);
    let calls = |name: &str| -> Vec<Value> {
        events.iter().filter(|event| event["name"] == name && event["args"]["bytes"].is_u64()).cloned().collect()
    };
    let outer = &calls("outer")[0];
    assert_eq!(outer["args"]["shape"], "2x3");
    assert_eq!(outer["args"]["note"], "late");
    let interval = |event: &Value| {
        let start = event["ts"].as_f64().unwrap();
        (start, start + event["dur"].as_f64().unwrap())
    };
    let (start, end) = interval(outer);
    let inner: Vec<Value> = calls("inner").into_iter().filter(|event| event["tid"] == outer["tid"]).collect();
    assert_eq!(inner.len(), 3);
    for event in &inner {
        let (inner_start, inner_end) = interval(event);
        assert!(start <= inner_start && inner_end <= end, "{event} in {outer}");
    }
    let lanes: Vec<&str> = events
        .iter()
        .filter(|event| event["ph"] == "M" && event["name"] == "thread_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert!(lanes.contains(&"cuda:0"), "{lanes:?}");
    assert_eq!(lanes.len(), 2);
}

#[test]
fn self_time_is_total_less_children() {
    let collector = Collector::new();
    collect(&collector, nested_work);
    let report = collector.report();
    let row = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap();
    let (outer, inner) = (row("outer"), row("inner"));
    assert_eq!((outer.calls, inner.calls, inner.bytes), (1, 3, 24));
    assert!((outer.total_seconds - inner.total_seconds - outer.self_seconds).abs() < 1e-9);
    assert!((inner.self_seconds - inner.total_seconds).abs() < 1e-12);
    assert!(outer.self_seconds >= 0.004 && inner.p50_seconds >= 0.003 * 0.99);
}

#[test]
fn spans_of_other_threads_are_not_children() {
    let collector = Collector::new();
    collect(&collector, || {
        let outer = info_span!("outer").entered();
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let parent = outer.id();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tracing::dispatcher::with_default(&dispatch, || {
                    let _inner = info_span!(parent: parent, "inner").entered();
                    sleep(Duration::from_millis(5));
                });
            });
        });
    });
    let report = collector.report();
    let outer = report.rows.iter().find(|row| row.name == "outer").unwrap();
    assert!((outer.self_seconds - outer.total_seconds).abs() < 1e-12);
}

#[test]
fn the_table_sorts_and_limits() {
    let collector = Collector::new();
    collect(&collector, nested_work);
    let report = collector.report();
    let names = |sort| report.sorted(sort, 9).iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(Sort::Total), ["outer", "inner"]);
    assert_eq!(names(Sort::Calls), ["inner", "outer"]);
    assert_eq!(names(Sort::Name), ["inner", "outer"]);
    let text = report.text(Sort::Total, 1);
    assert!(text.contains("outer") && !text.contains("inner"), "{text}");
    assert!(text.contains("1 of 2 rows shown"), "{text}");
    for sort in Sort::ALL {
        assert_eq!(sort.to_string().parse::<Sort>().unwrap(), sort);
    }
}

#[test]
fn the_busy_share_is_of_the_device_or_of_kernels() {
    let collector = Collector::new();
    collect(&collector, || {
        let _span = info_span!(target: "melisma_kernels::matmul", "matmul").entered();
        let _inner = info_span!(target: "melisma_kernels::matmul", "tile").entered();
        sleep(Duration::from_millis(5));
    });
    let on_cpu = collector.report();
    assert!(on_cpu.busy_seconds >= 0.005 && on_cpu.busy_share() <= 1.0);
    assert_eq!(on_cpu.devices, ["cpu"]);
    collector.add_device("cuda:0", [device_span(&collector, "matmul", 1); 2]);
    let on_gpu = collector.report();
    assert!((on_gpu.busy_seconds - 0.001).abs() < 1e-9);
    assert!((on_gpu.rows.iter().find(|row| row.name == "matmul").unwrap().device_seconds - 0.002).abs() < 1e-9);
}

#[test]
fn calls_beyond_the_bound_are_counted_not_kept() {
    let collector = Collector::build(2, None);
    collect(&collector, || (0..5).for_each(|_| drop(info_span!("many").entered())));
    assert_eq!(collector.dropped(), 3);
    assert_eq!(chrome(&collector).iter().filter(|event| event["name"] == "many").count(), 2);
    let report = collector.report();
    assert_eq!(report.rows[0].calls, 5);
    assert!(report.footer(20).contains("3 calls are counted here but not in the trace file"));
    collector.add_device("cuda:0", [device_span(&collector, "many", 1); 5]);
    let footer = collector.report().footer(20);
    assert!(footer.contains("3 device spans were too many") && footer.contains("busy at least"), "{footer}");
}

#[test]
fn ranges_are_pushed_and_popped() {
    struct Log(Arc<Mutex<Vec<String>>>);
    impl RangeSink for Log {
        fn push(&self, name: &str) {
            self.0.lock().unwrap().push(format!("+{name}"));
        }
        fn pop(&self) {
            self.0.lock().unwrap().push("-".into());
        }
    }
    let log = Arc::default();
    let collector = Collector::with_ranges(Box::new(Log(Arc::clone(&log))));
    collect(&collector, || {
        let _outer = info_span!("outer").entered();
        let _inner = info_span!("inner").entered();
    });
    assert_eq!(*log.lock().unwrap(), ["+outer", "+inner", "-", "-"]);
}
