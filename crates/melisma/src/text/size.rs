//! Sizes in bytes: `512MiB`, `6GiB`, `2GB` or plain bytes. Binary units have an `i`, decimal ones do not.

use melisma_kernels::memory::refusal;

use crate::{Error, Result};

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses `text` to bytes. Units are case-insensitive; `1.5GiB` is allowed if it is a whole number
/// of bytes.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind) for a missing number, an unknown unit, a fractional
/// number of bytes, or more than `u64::MAX`.
pub fn parse(text: &str) -> Result<u64> {
    let (number, unit) = split_unit(text.trim());
    let scale = match unit {
        "" => 1,
        _ if number.is_empty() => return Err(refused(text, "the number is missing")),
        _ => match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some(&(_, scale)) => scale,
            None => return Err(refused(text, "the unit is not known")),
        },
    };
    scaled(number, scale).map_err(|reason| refused(text, reason))
}

/// Formats `bytes` in a binary unit with three digits, e.g. `6GiB` or `1.46MiB`. Use [`exact`] if
/// `parse` must read it back.
pub fn show(bytes: u64) -> String {
    refusal::show_size(bytes)
}

/// Formats a limit like [`show`]; `none` if there is none.
pub fn show_limit(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "none".to_owned(), show)
}

/// Formats `bytes` in the largest unit that divides them, without rounding.
pub fn exact(bytes: u64) -> String {
    match UNITS[..4].iter().find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale)) {
        Some((name, scale)) => format!("{}{name}", bytes / scale),
        None => bytes.to_string(),
    }
}

pub(super) fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Computes `number * scale` exactly for a decimal `number`.
pub(super) fn scaled(number: &str, scale: u64) -> std::result::Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
        return Err("the number is missing");
    }
    if fraction.len() > 18 {
        return Err("it has too many decimals");
    }
    let whole: u64 = whole.parse().map_err(|_| "it is too large")?;
    let tens = 10u128.pow(fraction.len() as u32);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().map_err(|_| "the number is missing")? };
    let parts = u128::from(part) * u128::from(scale);
    if !parts.is_multiple_of(tens) {
        return Err("it is not a whole number of the smallest unit");
    }
    let total = u128::from(whole) * u128::from(scale) + parts / tens;
    u64::try_from(total).map_err(|_| "it is too large")
}

fn refused(text: &str, reason: &str) -> Error {
    Error::invalid(format!("`{text}` is not a size: {reason}"))
        .with_hint("write bytes or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB, e.g. 512MiB or 2GB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_of_both_kinds() {
        let cases = [
            ("0", 0),
            ("512MiB", 512 << 20),
            ("6GiB", 6 << 30),
            ("2GB", 2_000_000_000),
            (" 7 kib ", 7 << 10),
            ("1.5GiB", 3 << 29),
            ("0.5KB", 500),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_size() {
        for text in ["", "GiB", "-1", "1e9", "12 parsecs", "1.2.3", "1.", ".5", "1.0001KB", "18446744073709551616"] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not a size")), "{error}");
            assert!(error.hint().is_some());
        }
        assert!(parse("99999999TiB").unwrap_err().to_string().contains("too large"));
    }

    #[test]
    fn prints_what_it_reads() {
        for bytes in [0, 1, 1023, 1024, 1025, 6 << 30, 512 << 20, u64::MAX] {
            assert_eq!(parse(&exact(bytes)).unwrap(), bytes);
        }
        assert_eq!([show(0), show(1536), show(6 << 30), show(1_530_000)], ["0B", "1.5KiB", "6GiB", "1.46MiB"]);
        assert_eq!([show_limit(Some(6 << 30)), show_limit(None)], ["6GiB", "none"]);
        assert_eq!([show(100 << 20), show(1023), show(20 << 30)], ["100MiB", "1023B", "20GiB"]);
    }
}
