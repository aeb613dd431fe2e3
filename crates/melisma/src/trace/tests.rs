use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use melisma_kernels::lock::Mutex;
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
    for &sort in Sort::ALL {
        assert_eq!(sort.to_string().parse::<Sort>().unwrap(), sort);
    }
}

#[test]
fn the_busy_share_of_a_gpu_is_the_union_of_its_spans() {
    let collector = Collector::new();
    sleep(Duration::from_millis(2));
    collector.add_device("cuda:0", [device_span(&collector, "matmul", 1); 2]);
    collector.add_device("cuda:1", [device_span(&collector, "copy", 1)]);
    let report = collector.report();
    let devices: Vec<&str> = report.loads.iter().map(|load| load.device.as_str()).collect();
    assert_eq!(devices, ["cpu", "cuda:0", "cuda:1"]);
    let gpu = &report.loads[1];
    assert!((gpu.busy_seconds - 0.001).abs() < 1e-9);
    assert!((gpu.share - 0.001 / report.wall_seconds).abs() < 1e-9, "{gpu:?}");
    assert!((report.rows.iter().find(|row| row.name == "matmul").unwrap().device_seconds - 0.002).abs() < 1e-9);
}

/// Work outside of spans counts too.
#[test]
fn the_busy_share_of_the_cpu_is_its_time_on_processors() {
    let collector = Collector::new();
    collector.set_threads(2);
    let begin = melisma_kernels::device::ceiling::thread_seconds();
    while melisma_kernels::device::ceiling::thread_seconds() < begin + 0.02 {
        std::hint::spin_loop();
    }
    let report = collector.report();
    let cpu = &report.loads[0];
    assert!(cpu.busy_seconds >= 0.02, "{cpu:?}");
    let share = (cpu.busy_seconds / (2.0 * report.wall_seconds)).min(1.0);
    assert!((cpu.share - share).abs() < 1e-9 && cpu.threads == 2, "{cpu:?} of {} s", report.wall_seconds);
    assert!(report.footer(1).contains("cpu: 2 threads busy"), "{}", report.footer(1));
}

#[test]
fn memory_belongs_to_the_innermost_span_of_its_thread() {
    let collector = Collector::new();
    let budget = melisma_kernels::Budget::unlimited();
    let take = |bytes| drop(budget.reserve(melisma_kernels::Space::Host, bytes));
    collect(&collector, || {
        take(1);
        let _outer = info_span!("outer").entered();
        take(10);
        {
            let _inner = info_span!("inner").entered();
            take(100);
            take(100);
        }
        take(1000);
    });
    take(10_000);
    let report = collector.report();
    let allocated: Vec<(&str, u64)> =
        report.sorted(Sort::Allocated, 9).iter().map(|row| (row.name.as_str(), row.allocated_bytes)).collect();
    assert_eq!(allocated, [("outer", 1010), ("inner", 200), ("(no span)", 1)]);
    let events = chrome(&collector);
    let inner = events.iter().find(|event| event["name"] == "inner").unwrap();
    assert_eq!(inner["args"]["allocated"], 200);
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
            self.0.lock().push(format!("+{name}"));
        }
        fn pop(&self) {
            self.0.lock().push("-".into());
        }
    }
    let log = Arc::default();
    let collector = Collector::with_ranges(Box::new(Log(Arc::clone(&log))));
    collect(&collector, || {
        let _outer = info_span!("outer").entered();
        let _inner = info_span!("inner").entered();
    });
    assert_eq!(*log.lock(), ["+outer", "+inner", "-", "-"]);
}

#[test]
fn a_row_adds_up_all_threads() {
    let collector = Collector::new();
    collect(&collector, || {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    tracing::dispatcher::with_default(&dispatch, || drop(info_span!("part", bytes = 8).entered()));
                });
            }
        });
    });
    let report = collector.report();
    let part = report.rows.iter().find(|row| row.name == "part").unwrap();
    assert_eq!((part.calls, part.bytes), (3, 24));
}

#[test]
fn spans_of_callers_stand_beside_those_of_the_library() {
    let collector = Collector::new();
    collect(&collector, || {
        let chord = CallerSpan::enter("chord rendering");
        drop(info_span!("inner").entered());
        chord.leave();
        CallerSpan::enter("chord rendering").leave();
        // Dropped, not left.
        drop(CallerSpan::enter("forgotten"));
        CallerSpan::enter(&"x".repeat(1000)).leave();
    });
    let report = collector.report();
    let row = |name: &str| report.rows.iter().find(|row| row.name == name);
    let (chord, inner) = (row("chord rendering").unwrap(), row("inner").unwrap());
    assert_eq!((chord.calls, inner.calls), (2, 1));
    assert!((chord.total_seconds - chord.self_seconds - inner.total_seconds).abs() < 1e-9);
    assert!(row("span").is_none() && row("forgotten").is_none() && row(&"x".repeat(256)).is_some());
    assert_eq!(report.open_spans, ["forgotten"]);
    assert!(report.text(Sort::Name, 9).contains("spans that were not closed, and are not counted: forgotten\n"));
    assert_eq!(report.json(Sort::Name, 9)["open_spans"], serde_json::json!(["forgotten"]));
    assert_eq!(chrome(&collector).iter().filter(|event| event["name"] == "chord rendering").count(), 2);
}

#[test]
fn callers_cannot_fill_the_table() {
    let collector = Collector::new();
    collect(&collector, || (0..3000).for_each(|i| CallerSpan::enter(&format!("step {i}")).leave()));
    let report = collector.report();
    assert!(report.rows.len() <= 1001, "{}", report.rows.len());
    assert_eq!(report.rows.iter().map(|row| row.calls).sum::<u64>(), 3000);
    assert!(report.rows.iter().any(|row| row.name == "(other spans)"));
}
