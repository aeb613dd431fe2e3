use super::*;
use anyhow::bail;
use serde_json::json;

/// Returns a record with the rows of every line and share.
fn record(path: &str, median: f64) -> String {
    let row = |source: &Source, unit: &str, median: f64| {
        let peers = [("slow", 1.0), ("fast", 4.0), ("middle", 2.0)];
        let peers: Vec<_> = peers.iter().map(|(name, median)| json!({ "name": name, "median": median })).collect();
        json!({ "name": source.row, "unit": unit, "median": median, "spread": 0.034, "n": 1, "peers": peers })
    };
    let here = |source: &&Source| source.path() == path;
    let lines = LINES.iter().map(|line| &line.source).filter(here).map(|source| row(source, "x", median));
    let shares = SHARES.iter().map(|(source, _)| source).filter(here).map(|source| row(source, "%", 99.999));
    let rows: Vec<_> = lines.chain(shares).collect();
    let device = if path.contains("cpu") || path.contains("xeon") { "cpu" } else { "cuda:0" };
    json!({ "device": device, "machine": "A CPU (R) (2 cores, x86_64)", "rows": rows }).to_string()
}

fn page() -> String {
    format!("before\n{BEGIN}old\n{END}after\n")
}

#[test]
fn a_line_has_the_best_peers_the_factor_and_the_command() {
    let text = fill(PAGE, &page(), |path| Ok(record(path, 6000.0))).unwrap();
    assert!(text.starts_with("before\n") && text.ends_with("after\n") && !text.contains("old"), "{text}");
    let cells =
        "| 2 cores | 6,000 x realtime | 3 % | fast 4.00, middle 2.00 | 1500.0 | `melisma bench dataset --device cpu` |";
    assert!(text.contains(cells), "{text}");
    assert!(text.contains("| NVIDIA H200 | 6,000 x realtime |"), "{text}");
    assert!(text.contains("| 2 cores of the NVIDIA H200's host | 6,000 x realtime |"), "{text}");
    assert!(text.contains("`melisma bench snac --device cuda`"), "{text}");
    assert!(
        text.contains(
            "\n- 99.99 % of the frames of 2,000 clients come in time:\n  `melisma bench serve --device cuda`\n"
        ),
        "{text}"
    );
}

#[test]
fn filled_figures_stay_and_wrong_ones_are_replaced() {
    let read = |path: &str| Ok(record(path, 6000.0));
    let text = fill(PAGE, &page(), read).unwrap();
    assert_eq!(fill(PAGE, &text, read).unwrap(), text);
    assert_eq!(fill(PAGE, &text.replacen("6,000", "7,000", 1), read).unwrap(), text);
    assert_ne!(fill(PAGE, &text, |path| Ok(record(path, 6001.0))).unwrap(), text);
}

#[test]
fn what_is_missing_is_named() {
    let error = |page: &str, read: fn(&str) -> Result<String>| format!("{:#}", fill(PAGE, page, read).unwrap_err());
    let whole: fn(&str) -> Result<String> = |path| Ok(record(path, 1.0));
    assert!(error("no markers", whole).contains("figures of bench/record"));
    assert!(error(&page().replace(END, ""), whole).contains("end of the figures"));
    assert!(
        error(&page(), |path| bail!("{path} is gone")).contains("bench/record/xeon-avx512-2c/dataset.json is gone")
    );
    let empty = |_: &str| Ok(json!({ "device": "cpu", "machine": "m", "rows": [] }).to_string());
    assert!(error(&page(), empty).contains("has no row `dataset/build wav to f16 hdf5`"));
    let alone = |path: &str| Ok(record(path, 1.0).replace("\"peers\"", "\"others\""));
    assert!(error(&page(), alone).contains("has no peer"));
}

#[test]
fn numbers_have_three_digits_and_shares_never_round_up() {
    let shown = [0.0679, 1.6122, 9.996, 30.375, 99.96, 154.75, 2023.9, 1_406_250.0].map(number);
    assert_eq!(shown, ["0.07", "1.61", "10.0", "30.4", "100", "155", "2,024", "1,406,250"]);
    assert_eq!([100.0, 99.999, 98.9043].map(share), [100.0, 99.99, 98.9]);
}

#[test]
fn every_command_asks_for_a_room_with_a_bench() {
    for source in LINES.iter().map(|line| &line.source).chain(SHARES.iter().map(|(source, _)| source)) {
        let room = source.room.split('/').next().unwrap();
        assert!(super::super::ROOMS.contains(&room) && source.row.starts_with(room), "{}", source.row);
    }
}
