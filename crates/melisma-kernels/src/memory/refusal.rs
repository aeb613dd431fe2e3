//! The sentence of every refusal under a memory limit: `the run needs 60MiB; the memory limit is 50MiB`.

use std::fmt::Display;

use crate::{Error, ErrorKind, Remedy};

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Returns the error for `what`, which needs `needed` bytes in all under a limit of `limit`. The hint names the least
/// whole MiB that suffices.
pub fn too_small(what: impl Display, needed: u64, limit: u64) -> Error {
    let least = needed.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX);
    Error::new(ErrorKind::Memory, sentence(what, needed, limit))
        .with_hint(Remedy::RaiseMemoryLimit { least: Some(least) })
}

/// Returns the message of [`too_small`].
pub fn sentence(what: impl Display, needed: u64, limit: u64) -> String {
    let [mut need, mut most] = [needed, limit].map(show_size);
    if need == most && needed != limit {
        [need, most] = [needed, limit].map(|bytes| format!("{bytes} bytes"));
    }
    format!("{what} needs {need}; the memory limit is {most}")
}

/// Formats `bytes` in a binary unit with three digits, e.g. `6GiB` or `1.46MiB`.
pub fn show_size(bytes: u64) -> String {
    let Some((name, scale)) = UNITS.iter().find(|(_, scale)| bytes >= *scale) else { return format!("{bytes}B") };
    let value = bytes as f64 / *scale as f64;
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let text = format!("{value:.digits$}");
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_look_alike_are_written_in_bytes() {
        assert_eq!(sentence("a row", 3 << 20, 1 << 20), "a row needs 3MiB; the memory limit is 1MiB");
        let close = sentence("a row", (1 << 20) + 1, 1 << 20);
        assert_eq!(close, "a row needs 1048577 bytes; the memory limit is 1048576 bytes");
    }

    #[test]
    fn the_hint_is_enough() {
        for needed in [1, 1 << 20, (1 << 20) + 1, 3050, u64::MAX] {
            let error = too_small("a row", needed, 7);
            let [Remedy::RaiseMemoryLimit { least: Some(least) }] = error.remedies() else { panic!("{error:?}") };
            assert!(*least >= needed && (least.is_multiple_of(1 << 20) || *least == u64::MAX), "{least}");
        }
    }
}
