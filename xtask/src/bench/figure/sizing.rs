//! The tables of docs/running.md: streams that a machine kept up with, how long a block took, and how many were in time;
//! and the streams that a start of the server measures, of the machines whose record has them.

use super::{Source, grouped, number, share};
use anyhow::{Result, ensure};

const HEAD: &str = "| machine | streams, 24 kHz | block p99 | in time | command |\n|---|---|---|---|---|\n";

const CAPACITY_HEAD: &str = "\n| machine | streams that a start measures, 24 kHz | command |\n|---|---|---|\n";
/// Records that may have a row of the capacity.
const CAPACITIES: [&str; 3] = ["xeon-avx512-2c/serve-capacity", "xeon-avx512-2c/serve", "nvidia-h200/serve"];
const CAPACITY_ROW: &str = "serve/capacity/24khz";

/// A measured load.
struct Load {
    record: &'static str,
    room: &'static str,
    streams: u32,
    /// The rows of the 99th percentile, in ms, and of the share in time.
    rows: [&'static str; 2],
}

const LOADS: [Load; 4] = [
    Load {
        record: "nvidia-h200/snac-cpu",
        room: "snac",
        streams: 8,
        rows: ["snac/8 live streams 2t p99", "snac/8 live streams 2t, deadlines met"],
    },
    Load {
        record: "nvidia-h200/serve",
        room: "serve/decode",
        streams: 500,
        rows: ["serve/decode/24khz, 500 streams p99", "serve/decode/24khz, 500 streams, deadlines kept"],
    },
    Load {
        record: "nvidia-h200/serve",
        room: "serve/decode",
        streams: 1000,
        rows: ["serve/decode/24khz, 1000 streams p99", "serve/decode/24khz, 1000 streams, deadlines kept"],
    },
    Load {
        record: "nvidia-h200/serve",
        room: "serve/decode",
        streams: 2000,
        rows: ["serve/decode/24khz, 2000 streams p99", "serve/decode/24khz, 2000 streams, deadlines kept"],
    },
];

/// Returns the tables.
pub(super) fn table(read: &impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut text = HEAD.to_owned();
    for Load { record, room, streams, rows } in LOADS {
        let [p99, in_time] = rows.map(|row| Source { record, row, room });
        let ((record, time), (_, kept)) = (p99.find(read)?, in_time.find(read)?);
        for (source, row, unit) in [(&p99, &time, "ms"), (&in_time, &kept, "%")] {
            ensure!(row.unit == unit, "{}: `{}` is in {}, not in {unit}", source.path(), source.row, row.unit);
        }
        text += &format!(
            "| {} | {} | {} ms | {} % | `{}` |\n",
            p99.machine(&record)?,
            grouped(&streams.to_string()),
            number(time.median),
            share(kept.median),
            p99.command(&record),
        );
    }
    Ok(text + &capacities(read)?)
}

/// Returns the table of the capacities, or nothing if no record has one. The first record of a machine counts.
fn capacities(read: &impl Fn(&str) -> Result<String>) -> Result<String> {
    let (mut lines, mut machines) = (String::new(), Vec::new());
    for record in CAPACITIES {
        let source = Source { record, row: CAPACITY_ROW, room: "serve/capacity" };
        let Ok((record, row)) = source.find(read) else { continue };
        ensure!(row.unit == "streams", "{}: `{CAPACITY_ROW}` is in {}, not in streams", source.path(), row.unit);
        let machine = source.machine(&record)?;
        if !machines.contains(&machine) {
            lines += &format!("| {machine} | {} | `{}` |\n", grouped(&row.median.to_string()), source.command(&record));
            machines.push(machine);
        }
    }
    Ok(if lines.is_empty() { lines } else { format!("{CAPACITY_HEAD}{lines}") })
}

#[cfg(test)]
mod tests {
    use super::super::{BEGIN, END, SIZING_PAGE, fill};
    use super::*;
    use serde_json::json;

    fn record(path: &str, unit: &str) -> String {
        let row = |name: &str, unit: &str, median: f64| json!({ "name": name, "unit": unit, "median": median, "spread": 0.0, "n": 3, "peers": [] });
        let both = |load: &Load| [row(load.rows[0], unit, 1.234), row(load.rows[1], "%", 99.999)];
        let rows: Vec<_> = LOADS.iter().flat_map(both).collect();
        let device = if path.contains("cpu") { "cpu" } else { "cuda:0" };
        json!({ "device": device, "machine": "A CPU (2 cores, x86_64)", "rows": rows }).to_string()
    }

    #[test]
    fn a_line_has_the_machine_the_streams_and_what_they_got() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let text = fill(SIZING_PAGE, &page, |path| Ok(record(path, "ms"))).unwrap();
        for line in [
            "| 2 cores of the NVIDIA H200's host | 8 | 1.23 ms | 99.99 % | `melisma bench snac --device cpu` |\n",
            "| NVIDIA H200 | 2,000 | 1.23 ms | 99.99 % | `melisma bench serve/decode --device cuda` |\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let error = fill(SIZING_PAGE, &page, |path| Ok(record(path, "s"))).unwrap_err().to_string();
        assert!(error.contains("is in s, not in ms"), "{error}");
    }

    #[test]
    fn a_record_of_the_capacity_adds_its_machine_once() {
        let page = format!("{BEGIN}{END}");
        let of = |unit: &'static str| {
            fill(SIZING_PAGE, &page, move |path| {
                if !path.contains("serve") || path.contains("h200") {
                    return Ok(record(path, "ms"));
                }
                let row =
                    json!({ "name": CAPACITY_ROW, "unit": unit, "median": 21.0, "spread": 0.0, "n": 3, "peers": [] });
                let machine = "A CPU (2 cores, x86_64)";
                Ok(json!({ "device": "cpu", "machine": machine, "rows": [row] }).to_string())
            })
        };
        let text = of("streams").unwrap();
        assert_eq!(
            text.matches("| 2 cores | 21 | `melisma bench serve/capacity --device cpu` |\n").count(),
            1,
            "{text}"
        );
        assert!(of("ms").unwrap_err().to_string().contains("not in streams"));
        let without = fill(SIZING_PAGE, &page, |path| Ok(record(path, "ms"))).unwrap();
        assert!(!without.contains("a start measures"), "{without}");
    }
}
