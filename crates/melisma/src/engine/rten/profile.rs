//! Parses the profile that the embedded engine prints: one line per operator, followed by a table
//! with one line per shape and its call count.
//!
//! ```text
//! Conv    580.70ms (94.50%)
//!
//!     Shape                     Count  Mean (ms)  Total (ms)  ...
//!     ------------------------  -----  ---------  ----------  ...
//!     [1, 768, 64], [64, 1, 7]  2      3.000      6.000       ...
//! ```

use super::super::Operator;

/// Returns the operators in `text`, which may contain any number of tables. Other lines are
/// skipped.
pub fn parse(text: &str) -> Vec<Operator> {
    let mut rows: Vec<Operator> = Vec::new();
    let mut is_table = false;
    for line in text.lines() {
        if let Some(row) = operator(line) {
            rows.push(row);
            is_table = true;
        } else if let (true, Some(row), Some(count)) = (is_table, rows.last_mut(), count(line)) {
            row.calls = row.calls.saturating_add(count);
        } else {
            is_table &= line.is_empty() || line.starts_with("    ");
        }
    }
    // The time of an operator that runs a subgraph is already in the operators of that subgraph.
    rows.retain(|row| !matches!(row.name.as_str(), "If" | "Loop" | "Scan"));
    let mut all = Vec::new();
    Operator::add(&mut all, rows.into_iter().map(|row| Operator { calls: row.calls.max(1), ..row }));
    all
}

/// Reads `NAME  1.23ms (4.56%)`.
fn operator(line: &str) -> Option<Operator> {
    let (name, rest) = line.split_once(' ')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    let (time, share) = rest.trim().split_once(' ')?;
    let share = share.trim().strip_prefix('(')?.strip_suffix("%)")?;
    let number = |text: &str| {
        let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
        text.parse::<f64>().ok().filter(|number| is_plain && number.is_finite())
    };
    let (milliseconds, _) = (number(time.strip_suffix("ms")?)?, number(share).or((share == "NaN").then_some(0.0))?);
    is_name.then(|| Operator { name: name.to_owned(), seconds: milliseconds * 1e-3, calls: 0 })
}

/// Returns the call count in a shape's line of the table.
fn count(line: &str) -> Option<u64> {
    let mut columns = line.strip_prefix("    ")?.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let first = columns.next()?;
    // Operators without inputs have no shape.
    let count = if first.starts_with(['[', '_']) { columns.next()? } else { first };
    let mean = columns.next()?;
    count.parse().ok().filter(|_| mean.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
7 ops evaluated in 12.500ms
Pool allocs 4 hits 2
Max activation bytes 1.2 MiB

Conv    10.00ms (80.00%)

    Shape                     Count  Mean (ms)  Total (ms)  ns/input  Example node
    ------------------------  -----  ---------  ----------  --------  ------------
    [1, 768, 64], [64, 1, 7]  2      3.000      6.000       1.000     /conv/1     
    [1, 9, 9], [64, 1, 7], _  3      1.333      4.000       1.000                 


Range   2.50ms  (20.00%)

    Shape  Count  Mean (ms)  Total (ms)  ns/input  Example node
    -----  -----  ---------  ----------  --------  ------------
           2      1.250      2.500       inf       n           


";

    fn rows(text: &str) -> Vec<(String, u64, u64)> {
        let micros = |operator: Operator| (operator.name, (operator.seconds * 1e6).round() as u64, operator.calls);
        parse(text).into_iter().map(micros).collect()
    }

    #[test]
    fn tables_are_summed() {
        let conv = |micros, calls| ("Conv".to_owned(), micros, calls);
        let range = |micros, calls| ("Range".to_owned(), micros, calls);
        assert_eq!(rows(TABLE), [conv(10_000, 5), range(2500, 2)]);
        let twice = format!("{TABLE}Snake  1.25ms (1.00%)\n{TABLE}Conv 0.50ms (3.00%)\n");
        assert_eq!(rows(&twice), [conv(20_500, 11), range(5000, 4), ("Snake".to_owned(), 1250, 1)]);
        assert_eq!(rows("If  9.00ms (50.00%)\nAdd  9.00ms (50.00%)\n"), [("Add".to_owned(), 9000, 1)]);
    }

    #[test]
    fn other_text_says_nothing() {
        for text in [
            "",
            "Conv\n",
            "Conv ms (%)\n",
            "Conv -1.0ms (5%)\n",
            "Conv 1e9ms (5%)\n",
            "Conv infms (5%)\n",
            "Conv 1.0s (5%)\n",
            "Conv 1.0ms 5%\n",
            "Conv 1.0ms (5%) and more\n",
            "  Conv 1.0ms (5%)\n",
            "loading took 1.0ms (5.0%)\n",
            "[W] 1.0ms (5.0%)\n",
            "{\"load_seconds\":1.0}\n",
            "    [1, 2]  3  1.0  2.0\n",
        ] {
            assert_eq!(parse(text), [], "{text:?}");
        }
        for end in 0..TABLE.len() {
            let _ = parse(&TABLE[..end]);
        }
    }
}
