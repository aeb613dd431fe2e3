//! Numbers and their units as prose writes them.

/// The units of sizes and durations.
const UNITS: [&str; 11] = ["ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB"];
const NO_BREAK_SPACE: char = '\u{a0}';

/// Puts a space that does not break the line between each number and its unit: `7.05MiB` becomes
/// `7.05 MiB`.
pub fn spaced(text: &str) -> String {
    let words: Vec<String> = text.split(' ').map(spaced_word).collect();
    words.join(" ")
}

fn spaced_word(word: &str) -> String {
    let start = word.len() - word.trim_start_matches('(').len();
    let digits = word[start..].find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
    let (number, rest) = word.split_at(start + digits);
    let unit = rest.trim_end_matches([')', '.', ',', ';', ':']);
    match digits > 0 && UNITS.contains(&unit) {
        true => format!("{number}{NO_BREAK_SPACE}{rest}"),
        false => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_set_apart_from_their_numbers() {
        for (text, expected) in [
            ("23.46ms", "23.46_ms"),
            ("512MiB of 6GiB", "512_MiB of 6_GiB"),
            ("(83.2us, 0B); 2h.", "(83.2_us, 0_B); 2_h."),
            ("12 ms", "12 ms"),
            ("5.0x realtime", "5.0x realtime"),
            ("mini24 s16 4s_window v1.2", "mini24 s16 4s_window v1.2"),
            ("", ""),
        ] {
            assert_eq!(spaced(text).replace(NO_BREAK_SPACE, "_"), expected);
        }
    }
}
