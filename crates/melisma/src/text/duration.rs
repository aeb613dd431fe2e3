//! Durations: `10s`, `250ms`, `2h`, also `us`, `ns` and `min`. A unit is required.

use std::time::Duration;

use super::size::{scaled, split_unit};
use crate::{Error, Result};

const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses `text` to the nanosecond.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind) for a missing number, an unknown unit, or more than about
/// 584 years.
pub fn parse(text: &str) -> Result<Duration> {
    let (number, unit) = split_unit(text.trim());
    let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let reason = if unit.is_empty() { "it has no unit" } else { "the unit is not known" };
        return Err(refused(text, reason));
    };
    scaled(number, scale).map(Duration::from_nanos).map_err(|reason| refused(text, reason))
}

/// Formats `time` with four digits in a suitable unit: `12.34ms`, `1.5s`, `83.2us`.
pub fn show(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (unit, scale) = match nanos {
        0..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = nanos as f64 / scale;
    let digits = match value {
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 1,
    };
    format!("{value:.digits$}{unit}")
}

fn refused(text: &str, reason: &str) -> Error {
    Error::invalid(format!("`{text}` is not a duration: {reason}"))
        .with_hint("write a number with h, min, s, ms, us or ns, e.g. 10s or 250ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        let cases = [
            ("10s", Duration::from_secs(10)),
            ("250ms", Duration::from_millis(250)),
            ("2h", Duration::from_secs(7200)),
            ("1.5 min", Duration::from_secs(90)),
            ("0.1s", Duration::from_millis(100)),
            ("3us", Duration::from_micros(3)),
            ("0ns", Duration::ZERO),
        ];
        for (text, time) in cases {
            assert_eq!(parse(text).unwrap(), time, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_duration() {
        for text in ["", "10", "s", "-1s", "10 S", "1.5ns", "9999999999h"] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not a duration")), "{error}");
        }
    }

    #[test]
    fn prints_with_a_fitting_unit() {
        let shown = [999, 83_200, 12_340_000, 1_500_000_000].map(|nanos| show(Duration::from_nanos(nanos)));
        assert_eq!(shown, ["999ns", "83.20us", "12.34ms", "1.500s"]);
    }
}
