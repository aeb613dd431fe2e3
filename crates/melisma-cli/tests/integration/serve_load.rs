//! `melisma bench serve`: many clients of one server. The bench itself fails if a stream's samples are
//! not those of an engine of its own, or if blocks do not follow each other.

use std::collections::BTreeMap;

use crate::sandbox::Sandbox;

/// The medians of all rows, by name, and the first peer of each.
struct Record {
    medians: BTreeMap<String, f64>,
    peers: BTreeMap<String, f64>,
}

impl Record {
    fn measure(part: &str, settings: &[(&str, &str)]) -> Self {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command(&["bench", part, "--device", "cpu", "-o", "record.json"]);
        command.envs(settings.iter().copied());
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let record: serde_json::Value =
            serde_json::from_slice(&std::fs::read(sandbox.path("record.json")).unwrap()).unwrap();
        let rows = || record["rows"].as_array().unwrap().iter();
        let name = |row: &serde_json::Value| row["name"].as_str().unwrap().to_owned();
        Self {
            medians: rows().map(|row| (name(row), row["median"].as_f64().unwrap())).collect(),
            peers: rows().filter_map(|row| Some((name(row), row["peers"][0]["median"].as_f64()?))).collect(),
        }
    }

    fn median(&self, name: &str) -> f64 {
        *self.medians.get(name).unwrap_or_else(|| panic!("{name} is missing: {:?}", self.medians.keys()))
    }

    /// Fails unless every row that ends with `what` is 100 %.
    fn all(&self, what: &str) {
        let rows: Vec<_> = self.medians.iter().filter(|(name, _)| name.ends_with(what)).collect();
        assert!(!rows.is_empty(), "{what}");
        for (name, share) in rows {
            assert_eq!(*share, 100.0, "{name}");
        }
    }
}

#[test]
fn clients_at_real_time_pace_are_served_and_measured() {
    let record = Record::measure("serve/decode/builtin", &[("MELISMA_BENCH_SECONDS", "2")]);
    for streams in ["1 stream", "4 streams", "32 streams"] {
        let name = format!("serve/decode/builtin, {streams}");
        let [p50, p99, max] = ["p50", "p99", "max"].map(|row| record.median(&format!("{name} {row}")));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{name}: {p50} {p99} {max}");
        // Measured at another moment, perhaps beside other tests, so it is not compared.
        assert!(record.peers[&format!("{name} p50")] > 0.0, "{name} has no floor");
        assert!(record.median(&format!("{name}, first audio")) > 0.0);
    }
    assert_eq!(record.median("serve/decode/builtin, 1 stream, accepted"), 100.0);
}

#[test]
fn clients_beyond_the_capacity_wait_for_a_stream() {
    let record = Record::measure("serve/queue/builtin", &[("MELISMA_BENCH_SECONDS", "1")]);
    assert!(record.median("serve/queue/builtin, half of the clients") >= 1.0);
    assert!(record.median("serve/queue/builtin, whole answers") > 0.0);
    let [p50, p99] = ["p50", "p99"].map(|share| record.median(&format!("serve/queue/builtin, first audio {share}")));
    assert!(0.0 < p50 && p50 <= p99, "{p50} {p99}");
}

#[test]
fn the_capacity_is_a_row() {
    let record = Record::measure("serve/capacity/builtin", &[]);
    assert!(record.median("serve/capacity/builtin") >= 1.0);
}

#[test]
fn clients_beyond_the_capacity_are_refused() {
    let record = Record::measure("serve/overload/builtin", &[("MELISMA_BENCH_SECONDS", "2")]);
    assert_eq!(record.median("serve/overload/builtin, accepted"), 50.0);
    assert!(record.median("serve/overload/builtin, refusal max") > 0.0);
}

#[test]
#[ignore = "extended: streams of five minutes, which takes a quarter of an hour"]
fn five_minutes_have_no_gap() {
    for (part, n_clients) in [("serve/decode/builtin", "32"), ("serve/decode", "4")] {
        let settings = [("MELISMA_BENCH_SECONDS", "300"), ("MELISMA_BENCH_CLIENTS", n_clients)];
        let record = Record::measure(part, &settings);
        record.all(", accepted");
        record.all(", in time for a player");
    }
}

#[test]
#[ignore = "extended: a minute each of 1, 10 and 200 listeners"]
fn a_minute_of_music_has_no_underrun() {
    let record = Record::measure("serve/synth", &[]);
    record.all(", accepted");
    record.all(", in time for a player");
}

#[test]
#[ignore = "extended: a minute with and without 2,000 connections"]
fn idle_and_slow_connections_do_not_delay_streams() {
    let record = Record::measure("serve/connections", &[]);
    record.all(", accepted");
    let name = record.medians.keys().find(|name| name.ends_with(", p99")).unwrap();
    let (beside, alone) = (record.median(name), record.peers[name]);
    assert!(beside <= (1.2 * alone).max(alone + 1.0), "{beside} ms, and {alone} ms without them");
}

#[test]
#[ignore = "extended: 100,000 requests"]
fn memory_does_not_grow_with_requests() {
    let record = Record::measure("serve/memory", &[("MELISMA_BENCH_REQUESTS", "100000")]);
    let name = "serve/memory after 100000 short requests";
    let (many, few) = (record.median(name), record.peers[name]);
    assert!(many <= few + 5.0, "{few} MiB after 1000 requests, {many} MiB after 100000");
}
